package fetch

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/pillion/pillion/protocol/frame"
)

// columns is a frame that is being built. Keys and values are not copied until it is finished: it
// notes where they are in the source, the bytes of the batches, and then copies each once, to its
// place. That, and that it holds no pointer that changes with each record, is what it has over
// frame.Builder; the bytes are the same.
type columns struct {
	timestamps bool
	logAppend  bool // the timestamps are LogAppendTime
	base       int64
	n          int

	keyAt, valueAt     []uint32 // where in the source
	keyLens, valueLens []byte   // four bytes each, like the other columns of a frame
	times              []byte
	deltas             []byte // from the first gap on
	headerLens         []byte // from the first record with headers on
	valueNulls         []byte // as long as the last null needs
	keyNulls           []byte
	headers            []byte

	keyBytes, valueBytes    int
	hasDeltas, hasHeaders   bool
	hasValueNull, hasKeyNul bool
}

// reset begins a frame.
func (c *columns) reset(base int64, timestamps bool) {
	c.base, c.n, c.timestamps, c.logAppend = base, 0, timestamps, false
	c.keyBytes, c.valueBytes = 0, 0
	c.hasDeltas, c.hasHeaders, c.hasValueNull, c.hasKeyNul = false, false, false, false
	c.deltas, c.headerLens, c.headers = c.deltas[:0], c.headerLens[:0], c.headers[:0]
	c.valueNulls, c.keyNulls = c.valueNulls[:0], c.keyNulls[:0]
	if cap(c.headers) > scratchBytes {
		c.headers = nil
	}
}

// reserve makes room for n more records, all of whose fixed columns may then be set by index.
func (c *columns) reserve(n int) {
	if n += c.n; n <= len(c.keyAt) {
		return
	}
	n = max(n, 2*len(c.keyAt), 1024)
	c.keyAt = slices.Grow(c.keyAt[:c.n], n-c.n)[:n]
	c.valueAt = slices.Grow(c.valueAt[:c.n], n-c.n)[:n]
	c.keyLens = slices.Grow(c.keyLens[:4*c.n], 4*(n-c.n))[:4*n]
	c.valueLens = slices.Grow(c.valueLens[:4*c.n], 4*(n-c.n))[:4*n]
	c.times = slices.Grow(c.times[:8*c.n], 8*(n-c.n))[:8*n]
}

// gap notes the offset of record n, which is not base+n or follows one that was not.
func (c *columns) gap(offset int64) {
	if !c.hasDeltas {
		c.hasDeltas = true
		for i := range c.n {
			c.deltas = binary.LittleEndian.AppendUint32(c.deltas, uint32(i))
		}
	}
	c.deltas = binary.LittleEndian.AppendUint32(c.deltas, uint32(offset-c.base))
}

// section notes the headers of record n, a section of the frame, or that it has none.
func (c *columns) section(headers []byte) {
	c.hasHeaders = true
	for len(c.headerLens) < 4*c.n {
		c.headerLens = append(c.headerLens, 0, 0, 0, 0)
	}
	c.headerLens = binary.LittleEndian.AppendUint32(c.headerLens, uint32(len(headers)))
	c.headers = append(c.headers, headers...)
}

func (c *columns) nullKey() {
	c.hasKeyNul = true
	c.keyNulls = setBit(c.keyNulls, c.n)
}

func (c *columns) nullValue() {
	c.hasValueNull = true
	c.valueNulls = setBit(c.valueNulls, c.n)
}

func setBit(bitmap []byte, i int) []byte {
	bitmap = pad(bitmap, i>>3+1)
	bitmap[i>>3] |= 1 << (i & 7)
	return bitmap
}

func pad(b []byte, n int) []byte {
	for len(b) < n {
		b = append(b, 0)
	}
	return b
}

func (c *columns) flags() (f frame.Flags) {
	for _, column := range [...]struct {
		there bool
		flag  frame.Flags
	}{
		{c.timestamps, frame.FlagTimestamps},
		{c.timestamps && c.logAppend, frame.FlagLogAppendTime},
		{c.hasDeltas, frame.FlagOffsetDeltas},
		{c.hasHeaders, frame.FlagHeaders},
		{c.hasValueNull, frame.FlagNullValues},
		{c.hasKeyNul, frame.FlagNullKeys},
	} {
		if column.there {
			f |= column.flag
		}
	}
	return f
}

// bytes is the size of the frame without a checkpoint.
func (c *columns) bytes() int {
	size := frame.HeaderSize + 8*c.n + c.keyBytes + c.valueBytes + len(c.headers)
	if c.timestamps {
		size += 8 * c.n
	}
	if c.hasDeltas {
		size += 4 * c.n
	}
	if c.hasHeaders {
		size += 4 * c.n
	}
	if c.hasValueNull {
		size += (c.n + 7) / 8
	}
	if c.hasKeyNul {
		size += (c.n + 7) / 8
	}
	return size
}

// finish appends the frame to dst, which has room for it. h has what is not known here.
func (c *columns) finish(dst []byte, h frame.Header, src, checkpoint []byte) []byte {
	n := c.n
	h.Flags, h.Count, h.Base = c.flags(), uint32(n), c.base
	h.KeyBytes, h.ValueBytes = uint32(c.keyBytes), uint32(c.valueBytes)
	h.HeaderBytes, h.CheckpointBytes = uint32(len(c.headers)), uint32(len(checkpoint))
	dst = h.AppendTo(dst)
	dst = append(dst, c.keyLens[:4*n]...)
	dst = append(dst, c.valueLens[:4*n]...)
	if c.timestamps {
		dst = append(dst, c.times[:8*n]...)
	}
	if c.hasDeltas {
		dst = append(dst, c.deltas...)
	}
	if c.hasHeaders {
		dst = append(dst, c.headerLens...)
	}
	if c.hasValueNull {
		dst = append(dst, pad(c.valueNulls, (n+7)/8)...)
	}
	if c.hasKeyNul {
		dst = append(dst, pad(c.keyNulls, (n+7)/8)...)
	}
	at := len(dst)
	dst = dst[:at+c.keyBytes+c.valueBytes]
	gather(dst[at:], src, c.keyAt[:n], c.keyLens[:4*n])
	gather(dst[at+c.keyBytes:], src, c.valueAt[:n], c.valueLens[:4*n])
	dst = append(dst, c.headers...)
	return append(dst, checkpoint...)
}

// gather copies strings of the source one behind the other. Short ones are copied as 16 or 32 bytes
// where that stays inside: what is too much is overwritten by the next.
func gather(dst, src []byte, at []uint32, lens []byte) {
	k := 0
	for i, a := range at {
		n := int(binary.LittleEndian.Uint32(lens[4*i:]))
		from, to := src[a:], dst[k:]
		if n <= 32 && len(from) >= 32 && len(to) >= 32 {
			*(*[16]byte)(to) = *(*[16]byte)(from)
			if n > 16 {
				*(*[16]byte)(to[16:]) = *(*[16]byte)(from[16:])
			}
		} else {
			copy(to[:n], from)
		}
		k += n
	}
}

// fits says whether a record's offset is near enough to the frame's base.
func (c *columns) fits(offset int64) bool { return offset-c.base <= math.MaxInt32 }
