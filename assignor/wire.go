package assignor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Limits of what a decoder makes from bytes that others wrote.
const (
	maxPartition  = 1 << 20 // a partition number
	maxPartitions = 1 << 18 // partitions in one message, all lists together
	maxName       = 1 << 10 // bytes of a name
)

// ErrMalformed is in the errors of all decoders.
var ErrMalformed = errors.New("malformed group data")

// writer appends the primitives of user data (varints) and of the envelope (big endian).
type writer struct{ b []byte }

func (w *writer) uvarint(v uint64) { w.b = binary.AppendUvarint(w.b, v) }
func (w *writer) text(s string)    { w.uvarint(uint64(len(s))); w.b = append(w.b, s...) }
func (w *writer) int16(v int16)    { w.b = binary.BigEndian.AppendUint16(w.b, uint16(v)) }
func (w *writer) int32(v int32)    { w.b = binary.BigEndian.AppendUint32(w.b, uint32(v)) }
func (w *writer) string(s string)  { w.int16(int16(len(s))); w.b = append(w.b, s...) }
func (w *writer) bytes(b []byte)   { w.int32(int32(len(b))); w.b = append(w.b, b...) }

// reader takes the primitives off; its first error stays and makes all later values zero.
type reader struct {
	b     []byte
	err   error
	taken int // partitions so far
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
	}
	r.b = nil
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.fail("%d bytes wanted, %d left", n, len(r.b))
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("no varint")
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count is a number of things of at least size bytes each, which the rest must be able to hold.
func (r *reader) count(size int) int {
	v := r.uvarint()
	if v > uint64(len(r.b)/size) {
		r.fail("%d entries in %d bytes", v, len(r.b))
		return 0
	}
	return int(v)
}

func (r *reader) text() string { return r.name(r.take(r.count(1))) }

func (r *reader) name(b []byte) string {
	if len(b) > maxName || !utf8.Valid(b) {
		r.fail("a name of %d bytes or not of UTF-8", len(b))
		return ""
	}
	return string(b)
}

func (r *reader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) string() string { return r.name(r.take(int(r.int16()))) }

// nullable is a string that may be null, which counts as empty.
func (r *reader) nullable() string {
	n := r.int16()
	if n < 0 {
		return ""
	}
	return r.name(r.take(int(n)))
}

func (r *reader) bytes() []byte {
	n := r.int32()
	if n < 0 {
		return nil
	}
	return r.take(int(n))
}

// length is an array's int32 count of things of at least size bytes each.
func (r *reader) length(size int) int {
	n := r.int32()
	if n < 0 {
		return 0
	}
	if int(n) > len(r.b)/size {
		r.fail("%d entries in %d bytes", n, len(r.b))
		return 0
	}
	return int(n)
}

// ranges writes partition numbers as runs: the gap since the last run, and the run's length - 1.
func (w *writer) ranges(partitions []int32) {
	sorted := slices.Clone(partitions)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	type run struct{ first, last int32 }
	var runs []run
	for _, p := range sorted {
		if n := len(runs); n > 0 && runs[n-1].last+1 == p {
			runs[n-1].last = p
		} else {
			runs = append(runs, run{p, p})
		}
	}
	w.uvarint(uint64(len(runs)))
	next := int32(0)
	for _, r := range runs {
		w.uvarint(uint64(r.first - next))
		w.uvarint(uint64(r.last - r.first))
		next = r.last + 1
	}
}

func (r *reader) ranges() []int32 {
	var partitions []int32
	next := uint64(0)
	for range r.count(2) {
		gap, more := r.uvarint(), r.uvarint()
		if gap > maxPartition || more > maxPartition || next+gap+more > maxPartition {
			r.fail("a partition number over %d", maxPartition)
		}
		if r.err != nil || !r.room(int(more)+1) {
			return nil
		}
		for p := next + gap; p <= next+gap+more; p++ {
			partitions = append(partitions, int32(p))
		}
		next += gap + more + 1
	}
	return partitions
}

// room counts n more partitions of the message.
func (r *reader) room(n int) bool {
	r.taken += n
	if r.taken > maxPartitions {
		r.fail("more than %d partitions", maxPartitions)
		return false
	}
	return true
}

// CoarseLag rounds a lag up to 2^n - 1, so that it fits a byte and rarely changes.
func CoarseLag(lag int64) int64 {
	class := lagClass(lag)
	return lagOf(class)
}

// UnknownLag is the lag of a copy whose member cannot tell.
const UnknownLag = int64(-1)

const unknownClass = 255

func lagClass(lag int64) byte {
	if lag < 0 {
		return unknownClass
	}
	class := byte(0)
	for v := uint64(lag); v > 0; v >>= 1 {
		class++
	}
	return class
}

func lagOf(class byte) int64 {
	switch {
	case class == unknownClass:
		return UnknownLag
	case class > 63:
		return 1<<63 - 1
	default:
		return int64(uint64(1)<<class - 1)
	}
}
