package produce

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/pillion/pillion/protocol/frame"
)

// The layout of a record batch, version 2.
const (
	batchHeader = 61 // bytes before the records

	atLength      = 8 // of what follows it
	atLeaderEpoch = 12
	atMagic       = 16
	atCRC         = 17
	atAttributes  = 21 // the CRC covers everything from here
	atLastDelta   = 23
	atBaseTime    = 27
	atMaxTime     = 35
	atProducerID  = 43
	atEpoch       = 51
	atSequence    = 53
	atCount       = 57

	attributeTransactional = 0x10
	attributeControl       = 0x20
)

// maxRecordOverhead bounds what a record takes beside its key, value and headers: length, attributes,
// time and offset delta, key and value length, header count.
const maxRecordOverhead = 5 + 1 + 10 + 5 + 5 + 5 + 5

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// identity is under which producer id a lane writes. A newer one has a higher generation.
type identity struct {
	id         int64
	epoch      int16
	generation int
}

// packer gathers the records of one batch, uncompressed. It is reusable.
type packer struct {
	buf       []byte // header and records
	count     int32
	base, max int64 // timestamps
	topicID   [16]byte
}

func (k *packer) reset() {
	if cap(k.buf) < batchHeader {
		k.buf = make([]byte, 0, 4<<10)
	}
	k.buf, k.count = k.buf[:batchHeader], 0
}

// size is what the batch takes uncompressed.
func (k *packer) size() int { return len(k.buf) }

// add appends a record. The offset is its place in the batch.
func (k *packer) add(r frame.Record, timestamp int64) {
	if k.count == 0 {
		k.base, k.max = timestamp, timestamp
	}
	k.max = max(k.max, timestamp)
	k.buf = appendRecord(k.buf, timestamp-k.base, k.count, r)
	k.count++
}

// finish makes the batch, complete but for the fields that stamp sets. codec may be nil.
func (k *packer) finish(codec *codec) ([]byte, error) {
	out, attributes := k.buf, uint16(0)
	if codec != nil {
		packed, err := codec.compress(make([]byte, batchHeader, batchHeader+len(k.buf)/2), k.buf[batchHeader:])
		if err != nil {
			return nil, err
		}
		if len(packed) < len(k.buf) {
			out, attributes = packed, codec.attribute
		}
	}
	if attributes == 0 {
		out = append(make([]byte, 0, len(k.buf)), k.buf...)
	}
	be := binary.BigEndian
	be.PutUint64(out, 0) // base offset: the broker's to say
	be.PutUint32(out[atLength:], uint32(len(out)-atLeaderEpoch))
	be.PutUint32(out[atLeaderEpoch:], math.MaxUint32)
	out[atMagic] = 2
	be.PutUint16(out[atAttributes:], attributes)
	be.PutUint32(out[atLastDelta:], uint32(k.count-1))
	be.PutUint64(out[atBaseTime:], uint64(k.base))
	be.PutUint64(out[atMaxTime:], uint64(k.max))
	be.PutUint32(out[atCount:], uint32(k.count))
	return out, nil
}

// stamp sets under which producer and sequence a batch goes, and the CRC over it.
func stamp(batch []byte, id identity, sequence int32) {
	be := binary.BigEndian
	be.PutUint64(batch[atProducerID:], uint64(id.id))
	be.PutUint16(batch[atEpoch:], uint16(id.epoch))
	be.PutUint32(batch[atSequence:], uint32(sequence))
	be.PutUint32(batch[atCRC:], crc32.Checksum(batch[atAttributes:], castagnoli))
}

// stampTransactional is stamp for a batch of a transaction.
func stampTransactional(batch []byte, id identity, sequence int32) {
	be := binary.BigEndian
	be.PutUint16(batch[atAttributes:], be.Uint16(batch[atAttributes:])|attributeTransactional)
	stamp(batch, id, sequence)
}

// nextSequence is the sequence after n records from s; it wraps to 0 after the largest int32.
func nextSequence(s, n int32) int32 {
	return int32((int64(s) + int64(n)) & math.MaxInt32)
}

// recordBody is the length of a record after its length field, with the header section given.
func recordBody(timeDelta int64, offsetDelta int32, r frame.Record) int {
	n := 1 + varintSize(timeDelta) + varintSize(int64(offsetDelta))
	n += fieldSize(r.Key) + fieldSize(r.Value)
	count := int64(0)
	for key, value := range frame.Headers(r.Headers) {
		n += varintSize(int64(len(key))) + len(key) + fieldSize(value)
		count++
	}
	return n + varintSize(count)
}

// recordSize bounds what a record takes in any batch, for checks and cuts.
func recordSize(r frame.Record) int {
	n := len(r.Key) + len(r.Value) + maxRecordOverhead
	for key, value := range frame.Headers(r.Headers) {
		n += 10 + len(key) + len(value)
	}
	return n
}

func appendRecord(dst []byte, timeDelta int64, offsetDelta int32, r frame.Record) []byte {
	dst = binary.AppendVarint(dst, int64(recordBody(timeDelta, offsetDelta, r)))
	dst = append(dst, 0)
	dst = binary.AppendVarint(dst, timeDelta)
	dst = binary.AppendVarint(dst, int64(offsetDelta))
	dst = appendField(dst, r.Key)
	dst = appendField(dst, r.Value)
	count := uint32(0)
	if len(r.Headers) >= 4 {
		count = binary.LittleEndian.Uint32(r.Headers)
	}
	dst = binary.AppendVarint(dst, int64(count))
	for key, value := range frame.Headers(r.Headers) {
		dst = binary.AppendVarint(dst, int64(len(key)))
		dst = append(dst, key...)
		dst = appendField(dst, value)
	}
	return dst
}

// appendField appends a length and bytes; nil is null.
func appendField(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	dst = binary.AppendVarint(dst, int64(len(b)))
	return append(dst, b...)
}

func fieldSize(b []byte) int {
	if b == nil {
		return 1
	}
	return varintSize(int64(len(b))) + len(b)
}

// varintSize is how many bytes a zigzag varint takes.
func varintSize(v int64) int {
	u := uint64(v)<<1 ^ uint64(v>>63)
	n := 1
	for ; u >= 0x80; u >>= 7 {
		n++
	}
	return n
}
