package specgen

import "encoding/binary"

// raw is a frame column by column, as the layout says, without any of the checks and shortcuts of a
// real encoder: the vectors must not be made by what they test. Every number can be made to lie.
type raw struct {
	version, kind         uint8
	flags                 uint16
	stream, epoch, count  uint32
	base, next            int64
	keyBytes, valueBytes  uint32
	headerBytes, cpBytes  uint32
	keyLens, valueLens    []int32
	timestamps            []int64
	deltas, headerLens    []int32
	valueNulls, keyNulls  []byte
	keys, values, headers []byte
	checkpoint            []byte
}

func (r *raw) bytes() []byte {
	le := binary.LittleEndian
	b := []byte{r.version, r.kind}
	b = le.AppendUint16(b, r.flags)
	for _, n := range []uint32{r.stream, r.epoch, r.count} {
		b = le.AppendUint32(b, n)
	}
	b = le.AppendUint64(b, uint64(r.base))
	b = le.AppendUint64(b, uint64(r.next))
	for _, n := range []uint32{r.keyBytes, r.valueBytes, r.headerBytes, r.cpBytes} {
		b = le.AppendUint32(b, n)
	}
	ints := func(column []int32) {
		for _, n := range column {
			b = le.AppendUint32(b, uint32(n))
		}
	}
	ints(r.keyLens)
	ints(r.valueLens)
	for _, n := range r.timestamps {
		b = le.AppendUint64(b, uint64(n))
	}
	ints(r.deltas)
	ints(r.headerLens)
	for _, part := range [][]byte{r.valueNulls, r.keyNulls, r.keys, r.values, r.headers, r.checkpoint} {
		b = append(b, part...)
	}
	return b
}

var kindNumbers = map[string]uint8{"records": 1, "restore": 2, "writes": 3}

// flags that the layout knows.
const (
	fTimestamps    = 1
	fLogAppendTime = 2
	fDeltas        = 4
	fHeaders       = 8
	fNullValues    = 16
	fNullKeys      = 32
)

// rawOf lays a decoded frame out, with the columns that it needs and those in extra.
func rawOf(f Frame, extra uint16) *raw {
	r := &raw{version: 1, kind: kindNumbers[f.Kind], flags: extra | flagsOf(f), stream: f.Stream, epoch: f.Epoch,
		count: uint32(len(f.Records)), checkpoint: []byte(f.Checkpoint), cpBytes: uint32(len(f.Checkpoint))}
	if f.Commit != nil {
		r.base = int64(*f.Commit)
	} else {
		r.base, r.next = int64(*f.Base), int64(*f.Next)
	}
	if r.flags&fNullValues != 0 {
		r.valueNulls = make([]byte, (len(f.Records)+7)/8)
	}
	if r.flags&fNullKeys != 0 {
		r.keyNulls = make([]byte, (len(f.Records)+7)/8)
	}
	for i, rec := range f.Records {
		r.add(i, rec)
	}
	r.keyBytes, r.valueBytes, r.headerBytes = uint32(len(r.keys)), uint32(len(r.values)), uint32(len(r.headers))
	return r
}

func (r *raw) add(i int, rec Record) {
	r.keyLens = append(r.keyLens, int32(len(rec.Key)))
	r.valueLens = append(r.valueLens, int32(len(rec.Value)))
	r.keys = append(r.keys, rec.Key...)
	r.values = append(r.values, rec.Value...)
	if rec.Value == nil {
		r.valueNulls[i/8] |= 1 << (i % 8)
	}
	if rec.Key == nil {
		r.keyNulls[i/8] |= 1 << (i % 8)
	}
	if r.flags&fTimestamps != 0 {
		r.timestamps = append(r.timestamps, int64(*rec.Timestamp))
	}
	if r.flags&fDeltas != 0 {
		r.deltas = append(r.deltas, int32(int64(*rec.Offset)-r.base))
	}
	if r.flags&fHeaders != 0 {
		section := headerSection(rec.Headers)
		r.headerLens = append(r.headerLens, int32(len(section)))
		r.headers = append(r.headers, section...)
	}
}

func headerSection(headers [][2]Bytes) []byte {
	if len(headers) == 0 {
		return nil
	}
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(len(headers)))
	for _, h := range headers {
		b = le.AppendUint32(b, uint32(len(h[0])))
		b = append(b, h[0]...)
		if h[1] == nil {
			b = append(b, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		b = le.AppendUint32(b, uint32(len(h[1])))
		b = append(b, h[1]...)
	}
	return b
}

// flagsOf gives the columns that a frame cannot do without.
func flagsOf(f Frame) uint16 {
	var flags uint16
	if f.LogAppendTime {
		flags |= fLogAppendTime
	}
	for i, rec := range f.Records {
		if rec.Timestamp != nil {
			flags |= fTimestamps
		}
		if rec.Offset != nil && *rec.Offset != *f.Base+Long(i) {
			flags |= fDeltas
		}
		if len(rec.Headers) > 0 {
			flags |= fHeaders
		}
		if rec.Value == nil {
			flags |= fNullValues
		}
		if rec.Key == nil {
			flags |= fNullKeys
		}
	}
	return flags
}
