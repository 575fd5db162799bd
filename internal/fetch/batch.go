package fetch

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/pillion/pillion/protocol/frame"
)

const (
	batchHeader   = 61 // bytes before the records
	batchPrefix   = 12 // base offset and length, which the length does not count
	minBatchBytes = batchHeader - batchPrefix

	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch is the header of a record batch of format 2.
type batch struct {
	at         int // where it begins in its response
	base       int64
	size       int // of all of it in bytes
	epoch      int32
	crc        uint32
	attributes int16
	lastDelta  int32
	firstTime  int64
	maxTime    int64
	producerID int64
	count      int32
}

// parseBatch reads the header of the batch that b begins with. It is whole when all its bytes are
// there; a batch at the end of a response may be cut, which is no error. What cannot be a batch of
// format 2 is a *CorruptError or a *FormatError without its place.
func parseBatch(b []byte) (h batch, whole bool, err error) {
	be := binary.BigEndian
	if len(b) <= 16 {
		return h, false, nil
	}
	h.base = int64(be.Uint64(b))
	length := int32(be.Uint32(b[8:]))
	if magic := b[16]; magic != 2 {
		return h, false, &FormatError{Magic: int8(magic)}
	}
	if length < minBatchBytes || h.base < 0 {
		return h, false, corrupt("a batch of %d bytes at offset %d", length, h.base)
	}
	h.size = batchPrefix + int(length)
	if len(b) < h.size {
		return h, false, nil
	}
	h.epoch = int32(be.Uint32(b[12:]))
	h.crc = be.Uint32(b[17:])
	h.attributes = int16(be.Uint16(b[21:]))
	h.lastDelta = int32(be.Uint32(b[23:]))
	h.firstTime = int64(be.Uint64(b[27:]))
	h.maxTime = int64(be.Uint64(b[35:]))
	h.producerID = int64(be.Uint64(b[43:]))
	h.count = int32(be.Uint32(b[57:]))
	if h.lastDelta < 0 || h.count < 0 || int64(h.count) > int64(h.lastDelta)+1 || h.base > frame.MaxInteger-int64(h.lastDelta)-1 {
		return h, false, corrupt("a batch at offset %d of %d records with a last delta of %d", h.base, h.count, h.lastDelta)
	}
	return h, true, nil
}

// next is the position after the batch: also past records that compaction has removed.
func (h batch) next() int64 { return h.base + int64(h.lastDelta) + 1 }

func (h batch) is(attr int16) bool { return h.attributes&attr != 0 }

// verify checks the bytes of the batch against its checksum.
func (h batch) verify(b []byte) error {
	if got := crc32.Checksum(b[21:h.size], castagnoli); got != h.crc {
		return corrupt("the batch at offset %d has checksum %08x, its bytes have %08x", h.base, h.crc, got)
	}
	return nil
}

// scan finds the position after the last whole batch of b, or from when there is none. The size is
// that of a first batch which is cut, as far as it is known. It does not look at records.
func scan(b []byte, from int64) (next int64, cut int, err error) {
	next = from
	for rest := b; len(rest) > 0; {
		h, whole, err := parseBatch(rest)
		if err != nil {
			return next, 0, err
		}
		if !whole {
			if len(rest) == len(b) {
				cut = max(h.size, 2*len(b))
			}
			return next, cut, nil
		}
		next = max(next, h.next())
		rest = rest[h.size:]
	}
	return next, 0, nil
}

// firstSize is the size of the batch that b begins with, 0 when there is none.
func firstSize(b []byte) int {
	h, _, _ := parseBatch(b)
	return h.size
}

// aborted is a transaction of which a response says that it was aborted.
type aborted struct {
	producerID int64
	first      int64
}

// abortFilter tells batches of aborted transactions. Its list is of one response, by first offset: a
// broker gives it in the order in which the transactions ended.
//
// INVARIANT: a transaction that was aborted later than one that began after it is left out like any other.
type abortFilter struct {
	list   []aborted
	active map[int64]struct{}
}

// reset begins with the list of the next response.
func (a *abortFilter) reset(list []aborted) {
	slices.SortFunc(list, func(a, b aborted) int { return cmp.Compare(a.first, b.first) })
	a.list = list
	clear(a.active)
}

// drops says whether the batch belongs to an aborted transaction. It must see each batch in order,
// markers included; records are those of a marker.
func (a *abortFilter) drops(h batch, records []byte) bool {
	if len(a.list) == 0 && len(a.active) == 0 || h.producerID < 0 {
		return false
	}
	for len(a.list) > 0 && a.list[0].first < h.next() {
		if a.active == nil {
			a.active = map[int64]struct{}{}
		}
		a.active[a.list[0].producerID] = struct{}{}
		a.list = a.list[1:]
	}
	_, is := a.active[h.producerID]
	if is && h.is(attrControl) && isAbortMarker(h, records) {
		delete(a.active, h.producerID)
	}
	return is && h.is(attrTransactional)
}

// isAbortMarker reads the key of a control record: version and type, 0 is abort.
func isAbortMarker(h batch, records []byte) bool {
	if h.count < 1 || h.attributes&attrCodec != 0 {
		return false
	}
	_, i := varint(records, 0) // length
	i++                        // attributes
	_, i = varint(records, i)  // timestamp
	_, i = varint(records, i)  // offset
	n, i := varint(records, i)
	return n >= 4 && i <= len(records)-4 && binary.BigEndian.Uint16(records[i+2:]) == 0
}
