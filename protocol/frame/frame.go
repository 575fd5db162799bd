package frame

import (
	"encoding/binary"
	"fmt"
)

const (
	// Version is the layout that this package speaks.
	Version = 1
	// HeaderSize is the size of the fixed part.
	HeaderSize = 48
	// DefaultTarget is the size at which a frame is cut, unless one record is larger.
	DefaultTarget = 256 << 10
	// MaxCheckpoint is the largest checkpoint in bytes.
	MaxCheckpoint = 128
	// MaxInteger is the largest commit id and position: every language reads numbers in JSON
	// exactly up to here.
	MaxInteger = 1<<53 - 1
	// NoTimestamp is the timestamp of a record in a frame without the column.
	NoTimestamp = -1
)

// Kind is what a frame carries.
type Kind uint8

const (
	Records Kind = 1 // source records, from the sidecar
	Restore Kind = 2 // a table's records, from the sidecar
	Writes  Kind = 3 // a commit's records, from the worker
)

// String names the kind as the specification does.
func (k Kind) String() string {
	switch k {
	case Records:
		return "records"
	case Restore:
		return "restore"
	case Writes:
		return "writes"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Flags say which columns are there.
type Flags uint16

const (
	FlagTimestamps Flags = 1 << iota
	FlagLogAppendTime
	FlagOffsetDeltas
	FlagHeaders
	FlagNullValues
	FlagNullKeys

	allFlags    = 1<<6 - 1
	writesFlags = allFlags &^ (FlagLogAppendTime | FlagOffsetDeltas)
)

// Reason is the rule that a refused frame breaks.
type Reason string

const (
	ReasonShort      Reason = "short"      // fewer bytes than a header
	ReasonVersion    Reason = "version"    // not version 1
	ReasonKind       Reason = "kind"       // no such kind
	ReasonStream     Reason = "stream"     // stream or epoch 0
	ReasonFlags      Reason = "flags"      // reserved, or not for this kind
	ReasonSize       Reason = "size"       // the sizes do not add up to the message
	ReasonLength     Reason = "length"     // a negative length, or lengths that do not add up to a blob
	ReasonNull       Reason = "null"       // a null with a length
	ReasonPadding    Reason = "padding"    // padding bits that are not 0
	ReasonOffset     Reason = "offset"     // positions or deltas out of order or out of range
	ReasonHeader     Reason = "header"     // a record's headers that are not well formed
	ReasonCheckpoint Reason = "checkpoint" // too long, of a wrong kind, or not printable ASCII
)

// Error refuses a frame.
type Error struct {
	Reason Reason
	Detail string
}

func (e *Error) Error() string { return "bad frame (" + string(e.Reason) + "): " + e.Detail }

func refuse(r Reason, format string, args ...any) error {
	return &Error{Reason: r, Detail: fmt.Sprintf(format, args...)}
}

// Header is the fixed part of a frame.
type Header struct {
	Kind            Kind
	Flags           Flags
	Stream          uint32
	Epoch           uint32
	Count           uint32
	Base            int64
	Next            int64
	KeyBytes        uint32
	ValueBytes      uint32
	HeaderBytes     uint32
	CheckpointBytes uint32
}

// Has says whether all of the flags are set.
func (h Header) Has(f Flags) bool { return h.Flags&f == f }

// size is what the header says the whole message is long.
func (h Header) size() uint64 {
	return HeaderSize + columnSize(uint64(h.Count), h.Flags) +
		uint64(h.KeyBytes) + uint64(h.ValueBytes) + uint64(h.HeaderBytes) + uint64(h.CheckpointBytes)
}

func columnSize(n uint64, f Flags) uint64 {
	per, bitmaps := uint64(8), uint64(0)
	if f&FlagTimestamps != 0 {
		per += 8
	}
	if f&FlagOffsetDeltas != 0 {
		per += 4
	}
	if f&FlagHeaders != 0 {
		per += 4
	}
	if f&FlagNullValues != 0 {
		bitmaps++
	}
	if f&FlagNullKeys != 0 {
		bitmaps++
	}
	return n*per + bitmaps*((n+7)/8)
}

// ParseHeader reads and checks the fixed part only. It does not need the rest of the message.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderSize {
		return Header{}, refuse(ReasonShort, "%d bytes, a header has %d", len(b), HeaderSize)
	}
	le := binary.LittleEndian
	h := Header{
		Kind:            Kind(b[1]),
		Flags:           Flags(le.Uint16(b[2:])),
		Stream:          le.Uint32(b[4:]),
		Epoch:           le.Uint32(b[8:]),
		Count:           le.Uint32(b[12:]),
		Base:            int64(le.Uint64(b[16:])),
		Next:            int64(le.Uint64(b[24:])),
		KeyBytes:        le.Uint32(b[32:]),
		ValueBytes:      le.Uint32(b[36:]),
		HeaderBytes:     le.Uint32(b[40:]),
		CheckpointBytes: le.Uint32(b[44:]),
	}
	if b[0] != Version {
		return Header{}, refuse(ReasonVersion, "version %d, this side speaks %d", b[0], Version)
	}
	return h, h.check()
}

func (h Header) check() error {
	allowed := Flags(allFlags)
	switch h.Kind {
	case Records, Restore:
		if h.Base < 0 || h.Next < h.Base || h.Next > MaxInteger {
			return refuse(ReasonOffset, "base offset %d, next offset %d", h.Base, h.Next)
		}
	case Writes:
		allowed = writesFlags
		if h.Base < 1 || h.Base > MaxInteger || h.Next != 0 {
			return refuse(ReasonOffset, "commit id %d, next offset %d", h.Base, h.Next)
		}
	default:
		return refuse(ReasonKind, "kind %d", h.Kind)
	}
	if h.Stream == 0 || h.Epoch == 0 {
		return refuse(ReasonStream, "stream %d, epoch %d: they begin at 1", h.Stream, h.Epoch)
	}
	if extra := h.Flags &^ allowed; extra != 0 {
		return refuse(ReasonFlags, "flags %#x are not allowed in a %s frame", uint16(extra), h.Kind)
	}
	if h.Flags&FlagLogAppendTime != 0 && h.Flags&FlagTimestamps == 0 {
		return refuse(ReasonFlags, "log append time without timestamps")
	}
	if h.Flags&FlagHeaders == 0 && h.HeaderBytes != 0 {
		return refuse(ReasonSize, "%d header bytes without the headers flag", h.HeaderBytes)
	}
	if h.CheckpointBytes > MaxCheckpoint {
		return refuse(ReasonCheckpoint, "%d bytes, at most %d are allowed", h.CheckpointBytes, MaxCheckpoint)
	}
	if h.CheckpointBytes > 0 && h.Kind != Restore {
		return refuse(ReasonCheckpoint, "a %s frame has none", h.Kind)
	}
	return nil
}

// Record is one record of a frame. Its slices are views into the frame.
type Record struct {
	Offset    int64  // of the record in its partition; writes: its index in the frame
	Timestamp int64  // milliseconds; NoTimestamp without the column
	Key       []byte // nil: null; empty but not nil: empty
	Value     []byte // nil: null; empty but not nil: empty
	Headers   []byte // raw section, see Headers; nil: none
}

// Frame is a checked frame. It keeps the bytes that it was parsed from.
type Frame struct {
	Header

	b                                 []byte
	keyLens, valueLens                []byte
	timestamps, deltas, headerLens    []byte
	valueNulls, keyNulls              []byte
	keys, values, headers, checkpoint []byte
}

// Bytes is the message that the frame was parsed from.
func (f *Frame) Bytes() []byte { return f.b }

// Checkpoint is what a store is complete up to when the frame is applied. It is empty when the
// frame does not move it.
func (f *Frame) Checkpoint() []byte { return f.checkpoint }

// Records yields each record in order. It allocates nothing.
func (f *Frame) Records(yield func(Record) bool) {
	le := binary.LittleEndian
	keys, values, headers := f.keys, f.values, f.headers
	base := f.Base
	if f.Kind == Writes {
		base = 0
	}
	for i := range int(f.Count) {
		r := Record{Offset: base + int64(i), Timestamp: NoTimestamp}
		k, v := le.Uint32(f.keyLens[4*i:]), le.Uint32(f.valueLens[4*i:])
		r.Key, keys = keys[:k:k], keys[k:]
		r.Value, values = values[:v:v], values[v:]
		if f.keyNulls != nil && f.keyNulls[i>>3]>>(i&7)&1 != 0 {
			r.Key = nil
		}
		if f.valueNulls != nil && f.valueNulls[i>>3]>>(i&7)&1 != 0 {
			r.Value = nil
		}
		if f.timestamps != nil {
			r.Timestamp = int64(le.Uint64(f.timestamps[8*i:]))
		}
		if f.deltas != nil {
			r.Offset = base + int64(le.Uint32(f.deltas[4*i:]))
		}
		if f.headerLens != nil {
			if n := le.Uint32(f.headerLens[4*i:]); n > 0 {
				r.Headers, headers = headers[:n:n], headers[n:]
			}
		}
		if !yield(r) {
			return
		}
	}
}

// Last is the offset of the last record of a records or restore frame, or Base-1 when it is empty.
func (f *Frame) Last() int64 {
	n := int64(f.Count)
	if n == 0 || f.deltas == nil {
		return f.Base + n - 1
	}
	return f.Base + int64(binary.LittleEndian.Uint32(f.deltas[4*(n-1):]))
}
