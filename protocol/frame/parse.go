package frame

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Parse checks a whole message and returns views into it; b must not change afterwards.
func Parse(b []byte) (*Frame, error) {
	h, err := ParseHeader(b)
	if err != nil {
		return nil, err
	}
	if want := h.size(); want != uint64(len(b)) {
		return nil, refuse(ReasonSize, "the header adds up to %d bytes, the message has %d", want, len(b))
	}
	f := &Frame{Header: h, b: b}
	f.split()
	for _, check := range []func(*Frame) error{checkBlobs, checkNulls, checkOffsets, checkHeaders, checkCheckpoint} {
		if err := check(f); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// split cuts the message, whose size is known to be right.
func (f *Frame) split() {
	rest := f.b[HeaderSize:]
	take := func(n int, there bool) []byte {
		if !there {
			return nil
		}
		part := rest[:n:n]
		rest = rest[n:]
		return part
	}
	n := int(f.Count)
	f.keyLens = take(4*n, true)
	f.valueLens = take(4*n, true)
	f.timestamps = take(8*n, f.Has(FlagTimestamps))
	f.deltas = take(4*n, f.Has(FlagOffsetDeltas))
	f.headerLens = take(4*n, f.Has(FlagHeaders))
	f.valueNulls = take((n+7)/8, f.Has(FlagNullValues))
	f.keyNulls = take((n+7)/8, f.Has(FlagNullKeys))
	f.keys = take(int(f.KeyBytes), true)
	f.values = take(int(f.ValueBytes), true)
	f.headers = take(int(f.HeaderBytes), true)
	f.checkpoint = take(int(f.CheckpointBytes), true)
}

func checkBlobs(f *Frame) error {
	for _, c := range []struct {
		name string
		lens []byte
		want uint32
	}{{"key", f.keyLens, f.KeyBytes}, {"value", f.valueLens, f.ValueBytes}, {"header", f.headerLens, f.HeaderBytes}} {
		var sum, negative uint64
		for lens := c.lens; len(lens) >= 4; lens = lens[4:] {
			n := binary.LittleEndian.Uint32(lens)
			negative |= uint64(n >> 31)
			sum += uint64(n)
		}
		if negative != 0 {
			return refuse(ReasonLength, "a negative %s length", c.name)
		}
		if sum != uint64(c.want) {
			return refuse(ReasonLength, "%s lengths add up to %d, the blob has %d bytes", c.name, sum, c.want)
		}
	}
	return nil
}

func checkNulls(f *Frame) error {
	for _, c := range []struct {
		name        string
		nulls, lens []byte
	}{{"value", f.valueNulls, f.valueLens}, {"key", f.keyNulls, f.keyLens}} {
		if c.nulls == nil || f.Count == 0 {
			continue
		}
		if pad := f.Count & 7; pad != 0 && c.nulls[len(c.nulls)-1]>>pad != 0 {
			return refuse(ReasonPadding, "padding bits of the %s nulls are not 0", c.name)
		}
		for at, set := range c.nulls {
			for ; set != 0; set &= set - 1 {
				i := at<<3 + bits.TrailingZeros8(set)
				if binary.LittleEndian.Uint32(c.lens[4*i:]) != 0 {
					return refuse(ReasonNull, "record %d has a null %s with a length", i, c.name)
				}
			}
		}
	}
	return nil
}

func checkOffsets(f *Frame) error {
	if f.Kind == Writes {
		return nil
	}
	last := int64(-1)
	if f.deltas == nil {
		last = int64(f.Count) - 1
	}
	for i, d := 0, f.deltas; len(d) >= 4; i, d = i+1, d[4:] {
		delta := int64(int32(binary.LittleEndian.Uint32(d)))
		if delta <= last {
			return refuse(ReasonOffset, "delta %d of record %d is negative or not after the one before", delta, i)
		}
		last = delta
	}
	if last >= f.Next-f.Base { // next >= base >= 0: no overflow
		return refuse(ReasonOffset, "the last record is at %d past base offset %d, next offset is %d", last, f.Base, f.Next)
	}
	return nil
}

func checkHeaders(f *Frame) error {
	rest := f.headers
	for i, lens := 0, f.headerLens; len(lens) >= 4; i, lens = i+1, lens[4:] {
		n := binary.LittleEndian.Uint32(lens)
		if err := CheckHeaders(rest[:n]); err != nil {
			return refuse(ReasonHeader, "record %d: %s", i, err.(*Error).Detail)
		}
		rest = rest[n:]
	}
	return nil
}

func checkCheckpoint(f *Frame) error {
	for _, c := range f.checkpoint {
		if c < 0x20 || c > 0x7e {
			return refuse(ReasonCheckpoint, "byte %#x is not printable ASCII", c)
		}
	}
	return nil
}

// CheckHeaders says whether raw is a well-formed header section. An empty one is.
func CheckHeaders(raw []byte) error {
	if len(raw) == 0 {
		return nil
	}
	if len(raw) < 4 {
		return refuse(ReasonHeader, "%d bytes are no header section", len(raw))
	}
	n := binary.LittleEndian.Uint32(raw)
	rest := raw[4:]
	for i := range n {
		_, _, after, ok := cutHeader(rest)
		if !ok {
			return refuse(ReasonHeader, "header %d of %d does not fit its section", i, n)
		}
		rest = after
	}
	if len(rest) != 0 {
		return refuse(ReasonHeader, "%d bytes after the last header", len(rest))
	}
	return nil
}

// Headers yields the headers of a raw section that was checked, in order. A nil value is null.
func Headers(raw []byte) func(yield func(key, value []byte) bool) {
	return func(yield func(key, value []byte) bool) {
		if len(raw) < 4 {
			return
		}
		rest := raw[4:]
		for range binary.LittleEndian.Uint32(raw) {
			key, value, after, ok := cutHeader(rest)
			if !ok || !yield(key, value) {
				return
			}
			rest = after
		}
	}
}

// cutHeader takes one header off b.
func cutHeader(b []byte) (key, value, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, nil, false
	}
	n := binary.LittleEndian.Uint32(b)
	b = b[4:]
	if n > math.MaxInt32 || uint64(len(b)) < uint64(n)+4 {
		return nil, nil, nil, false
	}
	key, b = b[:n:n], b[n:]
	v := int32(binary.LittleEndian.Uint32(b))
	b = b[4:]
	if v == -1 {
		return key, nil, b, true
	}
	if v < 0 || len(b) < int(v) {
		return nil, nil, nil, false
	}
	return key, b[:v:v], b[v:], true
}

// AppendHeader adds one header to a raw section, which is nil or empty at first. A nil value is null.
func AppendHeader(raw, key, value []byte) []byte {
	le := binary.LittleEndian
	if len(raw) == 0 {
		raw = append(raw, 0, 0, 0, 0)
	}
	le.PutUint32(raw, le.Uint32(raw)+1)
	raw = le.AppendUint32(raw, uint32(len(key)))
	raw = append(raw, key...)
	if value == nil {
		return le.AppendUint32(raw, math.MaxUint32)
	}
	raw = le.AppendUint32(raw, uint32(len(value)))
	return append(raw, value...)
}
