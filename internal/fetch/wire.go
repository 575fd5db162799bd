package fetch

import (
	"encoding/binary"
	"errors"
	"io"
)

var (
	errNotAsked  = errors.New("not what was asked for")
	errTooMany   = errors.New("more entries than can be there")
	errOverrun   = errors.New("a length past the end of the response")
	errBadVarint = errors.New("a length that is no number")
)

// wireReader reads Kafka's primitive types from a stream of which so many bytes are left. The first
// error stays, and everything after it is zero.
type wireReader struct {
	r        io.Reader
	left     int
	flexible bool
	err      error
	b        [256]byte
}

func (w *wireReader) full(b []byte) {
	if w.err != nil {
		return
	}
	if len(b) > w.left {
		w.err = errOverrun
		return
	}
	n, err := io.ReadFull(w.r, b)
	w.left -= n
	w.err = err
}

func (w *wireReader) next(n int) []byte {
	b := w.b[:n]
	if w.full(b); w.err != nil {
		clear(b)
	}
	return b
}

func (w *wireReader) uint16() uint16 { return binary.BigEndian.Uint16(w.next(2)) }
func (w *wireReader) uint32() uint32 { return binary.BigEndian.Uint32(w.next(4)) }
func (w *wireReader) uint64() uint64 { return binary.BigEndian.Uint64(w.next(8)) }

func (w *wireReader) id() (id [16]byte) {
	copy(id[:], w.next(16))
	return id
}

func (w *wireReader) uvarint() uint64 {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		c := w.next(1)[0]
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
	if w.err == nil {
		w.err = errBadVarint
	}
	return 0
}

// size reads the length of nullable bytes; null is 0.
func (w *wireReader) size() int {
	n := 0
	if w.flexible {
		n = int(w.uvarint()) - 1
	} else {
		n = int(int32(w.uint32()))
	}
	if n > w.left && w.err == nil {
		w.err = errOverrun
	}
	if w.err != nil {
		return 0
	}
	return max(n, 0)
}

// count reads the length of a nullable array, which has at most so many entries.
func (w *wireReader) count(most int) int {
	n := 0
	if w.flexible {
		n = int(w.uvarint()) - 1
	} else {
		n = int(int32(w.uint32()))
	}
	if n > most && w.err == nil {
		w.err = errTooMany
	}
	if w.err != nil {
		return 0
	}
	return max(n, 0)
}

// name reads a string; a topic's has at most 249 bytes.
func (w *wireReader) name() string {
	n := 0
	if w.flexible {
		n = int(w.uvarint()) - 1
	} else {
		n = int(int16(w.uint16()))
	}
	if (n < 0 || n > len(w.b)) && w.err == nil {
		w.err = errOverrun
	}
	if w.err != nil {
		return ""
	}
	return string(w.next(n))
}

// tags passes over tagged fields.
func (w *wireReader) tags() {
	if !w.flexible || w.err != nil {
		return
	}
	for n := w.uvarint(); n > 0 && w.err == nil; n-- {
		w.uvarint()
		size := w.uvarint()
		if size > uint64(w.left) && w.err == nil {
			w.err = errOverrun
		}
		w.skip(int(size))
	}
}

func (w *wireReader) skip(n int) {
	for n > 0 && w.err == nil {
		some := min(n, len(w.b))
		w.next(some)
		n -= some
	}
}
