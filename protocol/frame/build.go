package frame

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// maxKeep is the largest buffer that a Builder keeps for the next frame, so that one giant record
// does not stay in memory for ever.
const maxKeep = 4 * DefaultTarget

// Builder collects records into a frame. It is reused: Reset, Append..., Finish. It keeps the
// columns apart and puts them together once; after the first frames it allocates nothing.
type Builder struct {
	h              Header
	timestamps     bool
	logAppendTime  bool
	last           int64 // offset of the last record
	keyLens        []byte
	valueLens      []byte
	times          []byte
	deltas         []byte // filled from the first gap on
	headerLens     []byte // filled from the first record with headers on
	valueNulls     []byte // as long as the last null needs
	keyNulls       []byte
	keys           []byte
	values         []byte
	headers        []byte
	hasDeltas      bool
	hasHeaders     bool
	hasValueNulls  bool
	hasKeyNulls    bool
	checkedOffsets bool // false for writes, whose offsets mean nothing
}

// NewBuilder makes a builder of frames of one kind. Reset comes before the first Append.
func NewBuilder(kind Kind) *Builder {
	return &Builder{h: Header{Kind: kind}, last: -1, checkedOffsets: kind != Writes}
}

// WithTimestamps says whether frames get the timestamp column. It holds for all frames from the
// next Reset on.
func (b *Builder) WithTimestamps(on bool) { b.timestamps = on }

// SetLogAppendTime says whether the timestamps of the present frame and those after it are
// LogAppendTime. A frame has one type; cut it where the type changes.
func (b *Builder) SetLogAppendTime(on bool) { b.logAppendTime = on }

// Reset begins a new frame. For writes base is the commit id.
func (b *Builder) Reset(stream, epoch uint32, base int64) {
	b.h = Header{Kind: b.h.Kind, Stream: stream, Epoch: epoch, Base: base}
	if b.timestamps {
		b.h.Flags = FlagTimestamps
	}
	b.last = base - 1
	for _, column := range []*[]byte{&b.keyLens, &b.valueLens, &b.times, &b.deltas, &b.headerLens,
		&b.valueNulls, &b.keyNulls, &b.keys, &b.values, &b.headers} {
		if cap(*column) > maxKeep {
			*column = nil
		}
		*column = (*column)[:0]
	}
	b.hasDeltas, b.hasHeaders, b.hasValueNulls, b.hasKeyNulls = false, false, false, false
}

// Fits says whether a record at offset can be appended to the present frame: it is after the last
// one and within an int32 of the base. When it is not, the frame must be cut.
func (b *Builder) Fits(offset int64) bool {
	return !b.checkedOffsets || (offset > b.last && offset-b.h.Base <= math.MaxInt32)
}

// Append adds a record. A nil key or value is null; headers are a raw section (AppendHeader) or nil.
// Everything is copied. It panics when the offset does not fit (Fits); writes ignore the offset.
func (b *Builder) Append(offset, timestamp int64, key, value []byte, headers []byte) {
	if b.checkedOffsets {
		b.appendOffset(offset)
	}
	le := binary.LittleEndian
	b.keyLens = le.AppendUint32(b.keyLens, uint32(len(key)))
	b.valueLens = le.AppendUint32(b.valueLens, uint32(len(value)))
	if b.h.Flags&FlagTimestamps != 0 {
		b.times = le.AppendUint64(b.times, uint64(timestamp))
	}
	if key == nil {
		b.keyNulls = setBit(b.keyNulls, b.h.Count)
		b.hasKeyNulls = true
	}
	if value == nil {
		b.valueNulls = setBit(b.valueNulls, b.h.Count)
		b.hasValueNulls = true
	}
	if len(headers) != 0 || b.hasHeaders {
		b.appendHeaders(headers)
	}
	b.keys = append(b.keys, key...)
	b.values = append(b.values, value...)
	b.h.Count++
}

func (b *Builder) appendOffset(offset int64) {
	if !b.Fits(offset) {
		panic(fmt.Sprintf("frame: offset %d does not fit a frame of base %d and last offset %d", offset, b.h.Base, b.last))
	}
	if !b.hasDeltas && offset != b.last+1 {
		b.hasDeltas = true
		for i := range b.h.Count {
			b.deltas = binary.LittleEndian.AppendUint32(b.deltas, i)
		}
	}
	if b.hasDeltas {
		b.deltas = binary.LittleEndian.AppendUint32(b.deltas, uint32(offset-b.h.Base))
	}
	b.last = offset
}

func (b *Builder) appendHeaders(headers []byte) {
	if !b.hasHeaders {
		b.hasHeaders = true
		b.headerLens = padTo(b.headerLens, 4*int(b.h.Count))
	}
	b.headerLens = binary.LittleEndian.AppendUint32(b.headerLens, uint32(len(headers)))
	b.headers = append(b.headers, headers...)
}

// Len is how many records the frame has.
func (b *Builder) Len() int { return int(b.h.Count) }

// Last is the offset of the last record, or base-1.
func (b *Builder) Last() int64 { return b.last }

// Size is how many bytes the frame would have now, without a checkpoint.
func (b *Builder) Size() int {
	return HeaderSize + int(columnSize(uint64(b.h.Count), b.flags())) + len(b.keys) + len(b.values) + len(b.headers)
}

// Bound is the largest size of a frame of one record, checkpoint included.
func Bound(key, value, headers int) int {
	return HeaderSize + int(columnSize(1, allFlags)) + key + value + headers + MaxCheckpoint
}

func (b *Builder) flags() Flags {
	f := b.h.Flags
	for _, c := range []struct {
		on   bool
		flag Flags
	}{
		{b.logAppendTime && f&FlagTimestamps != 0 && b.checkedOffsets, FlagLogAppendTime},
		{b.hasDeltas, FlagOffsetDeltas},
		{b.hasHeaders, FlagHeaders},
		{b.hasValueNulls, FlagNullValues},
		{b.hasKeyNulls, FlagNullKeys},
	} {
		if c.on {
			f |= c.flag
		}
	}
	return f
}

// Finish appends the frame to dst. next is the position after it (writes: ignored, it is 0); the
// checkpoint goes into restore frames only. It panics when the checkpoint is too long.
func (b *Builder) Finish(dst []byte, next int64, checkpoint []byte) []byte {
	h := b.h
	h.Flags, h.Next = b.flags(), next
	if h.Kind == Writes {
		h.Next = 0
	}
	if h.Kind != Restore {
		checkpoint = nil
	}
	if len(checkpoint) > MaxCheckpoint {
		panic(fmt.Sprintf("frame: checkpoint of %d bytes", len(checkpoint)))
	}
	h.KeyBytes, h.ValueBytes = uint32(len(b.keys)), uint32(len(b.values))
	h.HeaderBytes, h.CheckpointBytes = uint32(len(b.headers)), uint32(len(checkpoint))
	n := int(h.Count)
	dst = slices.Grow(dst, b.Size()+len(checkpoint))
	dst = h.AppendTo(dst)
	dst = append(dst, b.keyLens...)
	dst = append(dst, b.valueLens...)
	dst = append(dst, b.times...)
	dst = append(dst, b.deltas...)
	dst = append(dst, b.headerLens...)
	if b.hasValueNulls {
		b.valueNulls = padTo(b.valueNulls, (n+7)/8)
		dst = append(dst, b.valueNulls...)
	}
	if b.hasKeyNulls {
		b.keyNulls = padTo(b.keyNulls, (n+7)/8)
		dst = append(dst, b.keyNulls...)
	}
	dst = append(dst, b.keys...)
	dst = append(dst, b.values...)
	dst = append(dst, b.headers...)
	return append(dst, checkpoint...)
}

// AppendTo appends the HeaderSize bytes of the header.
func (h Header) AppendTo(dst []byte) []byte {
	le := binary.LittleEndian
	dst = append(dst, Version, byte(h.Kind))
	dst = le.AppendUint16(dst, uint16(h.Flags))
	dst = le.AppendUint32(dst, h.Stream)
	dst = le.AppendUint32(dst, h.Epoch)
	dst = le.AppendUint32(dst, h.Count)
	dst = le.AppendUint64(dst, uint64(h.Base))
	dst = le.AppendUint64(dst, uint64(h.Next))
	dst = le.AppendUint32(dst, h.KeyBytes)
	dst = le.AppendUint32(dst, h.ValueBytes)
	dst = le.AppendUint32(dst, h.HeaderBytes)
	return le.AppendUint32(dst, h.CheckpointBytes)
}

func setBit(bitmap []byte, i uint32) []byte {
	bitmap = padTo(bitmap, int(i>>3)+1)
	bitmap[i>>3] |= 1 << (i & 7)
	return bitmap
}

// padTo lengthens b with zeros to n bytes. It never shortens it.
func padTo(b []byte, n int) []byte {
	for len(b) < n {
		b = append(b, 0)
	}
	return b
}
