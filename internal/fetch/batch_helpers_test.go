package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/pillion/pillion/internal/kafkatest"
)

// handmade is a batch as a test wants it. What is left out is that of a batch of its records.
type handmade struct {
	base       int64
	deltas     []int64 // of the records; nil: 0, 1, 2...
	last       int64   // last offset delta, when it is more than that of the last record
	records    []kafkatest.Record
	attributes int16
	epoch      int32
	producer   int64 // 0: none
	firstTime  int64
	maxTime    int64
	magic      int8
	body       []byte // instead of the records
	count      int32  // instead of the number of records
	badCRC     bool
}

func (h handmade) encode(t testing.TB) []byte {
	t.Helper()
	var body []byte
	last := h.last
	for i, r := range h.records {
		delta := int64(i)
		if h.deltas != nil {
			delta = h.deltas[i]
		}
		last = max(last, delta)
		body = appendRecord(body, r, r.Timestamp.UnixMilli()-h.firstTime, delta)
	}
	if h.body != nil {
		body = h.body
	}
	body = pack(t, h.attributes&attrCodec, body)
	count := int32(len(h.records))
	if h.count != 0 {
		count = h.count
	}
	producer := h.producer
	if producer == 0 {
		producer = -1
	}
	be := binary.BigEndian
	b := be.AppendUint64(nil, uint64(h.base))
	b = be.AppendUint32(b, uint32(minBatchBytes+len(body)))
	b = be.AppendUint32(b, uint32(h.epoch))
	magic := h.magic
	if magic == 0 {
		magic = 2
	}
	b = append(b, byte(magic), 0, 0, 0, 0)
	b = be.AppendUint16(b, uint16(h.attributes))
	b = be.AppendUint32(b, uint32(last))
	b = be.AppendUint64(b, uint64(h.firstTime))
	b = be.AppendUint64(b, uint64(h.maxTime))
	b = be.AppendUint64(b, uint64(producer))
	b = be.AppendUint16(b, 0)
	b = be.AppendUint32(b, 0)
	b = be.AppendUint32(b, uint32(count))
	b = append(b, body...)
	sum := crc32.Checksum(b[21:], castagnoli)
	if h.badCRC {
		sum++
	}
	be.PutUint32(b[17:], sum)
	return b
}

func appendRecord(dst []byte, r kafkatest.Record, time, delta int64) []byte {
	field := func(b, v []byte) []byte {
		if v == nil {
			return binary.AppendVarint(b, -1)
		}
		return append(binary.AppendVarint(b, int64(len(v))), v...)
	}
	rec := []byte{0}
	rec = binary.AppendVarint(rec, time)
	rec = binary.AppendVarint(rec, delta)
	rec = field(rec, r.Key)
	rec = field(rec, r.Value)
	rec = binary.AppendVarint(rec, int64(len(r.Headers)))
	for _, h := range r.Headers {
		rec = field(rec, []byte(h.Key))
		rec = field(rec, h.Value)
	}
	return append(binary.AppendVarint(dst, int64(len(rec))), rec...)
}

func pack(t testing.TB, codec int16, body []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	switch codec {
	case codecGzip:
		w := gzip.NewWriter(&out)
		_, _ = w.Write(body)
		_ = w.Close()
	case codecSnappy:
		return snappy.Encode(nil, body)
	case codecLZ4:
		w := lz4.NewWriter(&out)
		_, _ = w.Write(body)
		_ = w.Close()
	case codecZstd:
		w, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		return w.EncodeAll(body, nil)
	default:
		return body
	}
	return out.Bytes()
}

// marker is a control batch.
func marker(base, producer int64, commit bool) handmade {
	key := []byte{0, 0, 0, 0}
	if commit {
		key[3] = 1
	}
	return handmade{
		base: base, producer: producer, attributes: attrControl | attrTransactional,
		records: []kafkatest.Record{{Key: key, Value: make([]byte, 6)}},
	}
}

// idle makes a fetcher that is not run, for what a pump does with bytes.
func idle(t testing.TB, change func(*Config)) *Fetcher {
	t.Helper()
	var cfg Config
	if change != nil {
		change(&cfg)
	}
	f, err := newFetcher(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.parts.Add(1)
	t.Cleanup(func() { f.small.close(); f.large.close() })
	return f
}

// feed gives a pump one response's bytes.
func feed(p *pump, raw []byte, aborts ...aborted) error {
	buf := p.f.room.copy(raw)
	defer buf.done()
	return p.chunk(context.Background(), chunk{buf: buf, aborted: aborts, high: 1 << 40, stable: 1 << 40})
}

func (r *room) copy(raw []byte) *buffer {
	b := r.buffer(&grant{room: r, free: int64(len(raw))}, len(raw))
	copy(b.b, raw)
	return b
}

// decode reads batches as of one response, from the partition's offset on.
func decode(t testing.TB, in Partition, batches ...handmade) (*collector, *pump, error) {
	t.Helper()
	c := newCollector(t)
	in.Sink = c
	p := newPump(idle(t, nil), in)
	var raw []byte
	for _, b := range batches {
		raw = append(raw, b.encode(t)...)
	}
	return c, p, p.at(feed(p, raw))
}

func kv(n int) (out []kafkatest.Record) {
	for range n {
		out = append(out, kafkatest.KV("key", "value"))
	}
	return out
}

func offsets(records []kafkatest.Record) (out []int64) {
	for _, r := range records {
		out = append(out, r.Offset)
	}
	return out
}
