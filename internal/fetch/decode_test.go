package fetch

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/protocol/frame"
)

// TestFramesAreThoseOfTheBuilder holds what is written here against frame.Builder, byte by byte.
func TestFramesAreThoseOfTheBuilder(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 5))
		records := variety(r.IntN(60), seed)
		if seed%3 == 0 { // none of the rare columns
			for i := range records {
				records[i].Key, records[i].Value, records[i].Headers = []byte("k"), []byte("v"), nil
			}
		}
		in := part("t", 0, nil)
		in.Timestamps, in.Kind = r.IntN(2) == 0, frame.Restore
		in.Checkpoint = func(int64, int32) []byte { return []byte("checkpoint") }
		h := handmade{base: 100, attributes: int16(r.IntN(5)), records: records, last: 200}
		delta := int64(r.IntN(2))
		for range records {
			h.deltas = append(h.deltas, delta)
			delta += 1 + int64(r.IntN(2))*int64(r.IntN(3)/2)
		}
		if r.IntN(3) == 0 {
			h.attributes |= attrLogAppendTime
		}
		in.Offset = 100
		c, _, err := decode(t, in, h)
		if err != nil {
			t.Fatal(err)
		}
		b := frame.NewBuilder(frame.Restore)
		b.WithTimestamps(in.Timestamps)
		b.Reset(in.Stream, in.Epoch, 100)
		if len(records) > 0 {
			b.SetLogAppendTime(h.attributes&attrLogAppendTime != 0)
		}
		for i, rec := range records {
			var headers []byte
			for _, x := range rec.Headers {
				headers = frame.AppendHeader(headers, []byte(x.Key), x.Value)
			}
			time := rec.Timestamp.UnixMilli()
			if h.attributes&attrLogAppendTime != 0 {
				time = 0
			}
			b.Append(100+h.deltas[i], time, rec.Key, rec.Value, headers)
		}
		want := b.Finish(nil, 301, []byte("checkpoint"))
		if got := c.frames[0].Bytes(); !bytes.Equal(got, want) {
			t.Fatalf("seed %d:\n got %x\nwant %x", seed, got, want)
		}
	}
}

// TestRecordFormsAreOne holds the fast way of reading a record against the other.
func TestRecordFormsAreOne(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	sizes := []int{0, 1, 20, 62, 63, 64, 65, 127, 128, 500, 8190, 8191, 8192, 20000}
	for range 5000 {
		rec := kafkatest.Record{Key: make([]byte, sizes[r.IntN(6)]), Value: make([]byte, sizes[r.IntN(len(sizes))])}
		if r.IntN(10) == 0 {
			rec.Key = nil
		}
		if r.IntN(10) == 0 {
			rec.Value = nil
		}
		if r.IntN(10) == 0 {
			rec.Headers = []kafkatest.Header{{Key: "a"}}
		}
		b := appendRecord(nil, rec, r.Int64N(1<<uint(1+r.IntN(62)))-100, r.Int64N(1<<uint(1+r.IntN(31))))
		b = append(b, make([]byte, r.IntN(40))...)
		if r.IntN(4) == 0 {
			b[r.IntN(min(len(b), 20))] = byte(r.Uint32())
		}
		compare(t, b, 0)
	}
}

func compare(t *testing.T, b []byte, i int) {
	t.Helper()
	var fast, slow record
	ok1, ok2 := fast.parse(b, i), slow.parseAny(b, i)
	if ok1 != ok2 || ok1 && fast != slow {
		t.Fatalf("%x at %d:\nfast %v %+v\nslow %v %+v", b[:min(len(b), 50)], i, ok1, fast, ok2, slow)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add(appendRecord(nil, kafkatest.KV("key", "value"), 5, 6), 0)
	f.Add(bytes.Repeat(appendRecord(nil, kafkatest.Tombstone("key"), 5, 6), 5), 9)
	f.Fuzz(func(t *testing.T, b []byte, i int) {
		if i < 0 || i > len(b) {
			return
		}
		compare(t, b, i)
		var r record
		if r.parse(b, i) {
			_ = b[i:r.end]
			_ = b[r.keyAt : r.keyAt+max(r.keyLen, 0)]
			_ = b[r.valueAt : r.valueAt+max(r.valueLen, 0)]
			_ = b[r.at:r.end]
		}
	})
}

// FuzzBatches gives any bytes to a pump as a response. What comes out must be frames that can be
// parsed, in order (the collector looks), and an error only of the known kinds.
func FuzzBatches(f *testing.F) {
	for codec := range int16(5) {
		f.Add(handmade{attributes: codec, records: variety(20, 1)}.encode(f), int64(0), int64(-1), false)
	}
	both := append(handmade{records: kv(3), producer: 7, attributes: attrTransactional}.encode(f), marker(3, 7, false).encode(f)...)
	f.Add(both, int64(1), int64(4), true)
	f.Add(handmade{base: frame.MaxInteger - 5, records: kv(3)}.encode(f), int64(0), int64(-1), false)
	f.Fuzz(func(t *testing.T, raw []byte, from, until int64, abort bool) {
		repair(raw)
		c := newCollector(t)
		in := part("t", 0, c)
		in.Offset, in.Until = max(from, 0), until
		p := newPump(idle(t, func(c *Config) { c.BatchBytes = 1 << 20 }), in)
		var aborts []aborted
		if abort {
			aborts = append(aborts, aborted{7, 0})
		}
		if p.reached() {
			return
		}
		err := p.at(feed(p, raw, aborts...))
		var bad *CorruptError
		if err != nil && !errors.As(err, &bad) && !isTyped(err) {
			t.Errorf("%T: %v", err, err)
		}
		if p.pos.Next != p.base || p.pos.Next < in.Offset || until >= 0 && p.pos.Next > until {
			t.Errorf("position %d, handed on %d", p.pos.Next, p.base)
		}
		for _, r := range c.records {
			if until >= 0 && r.Offset >= until || r.Offset < in.Offset {
				t.Errorf("record at %d", r.Offset)
			}
		}
	})
}

// repair sets the checksums, so that the fuzzer gets past them.
func repair(raw []byte) {
	for {
		h, whole, err := parseBatch(raw)
		if err != nil || !whole {
			return
		}
		binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:h.size], castagnoli))
		raw = raw[h.size:]
	}
}

// nowhere is a sink that gives frames back at once.
type nowhere struct {
	f       *Fetcher
	records int
	err     error
}

func (n *nowhere) Frame(_ context.Context, b []byte, _ Position) error {
	h, err := frame.ParseHeader(b)
	n.records += int(h.Count)
	n.f.Recycle(b)
	return err
}
func (n *nowhere) Progress(Position) {}
func (n *nowhere) Stopped(err error) { n.err = err }

// bulk is a response of about so many bytes in batches of 64 KiB before compression.
func bulk(t testing.TB, codec int16, size int) (raw []byte, records int) {
	const each = 500
	source := text(64 << 10)
	for len(raw) < size {
		h := handmade{base: int64(records), attributes: codec, firstTime: 1_700_000_000_000}
		for i := range each {
			h.records = append(h.records, kafkatest.Record{
				Key: []byte("key-0123456789"), Value: source[101*i : 101*i+110], Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i)),
			})
		}
		raw = append(raw, h.encode(t)...)
		records += each
	}
	return raw, records
}

var codecNames = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// maxAllocations per record is the bound that the data path is built for.
const maxAllocations = 0.01

// TestAllocations holds it in every run of the tests; BenchmarkDecode says how much is used of it.
func TestAllocations(t *testing.T) {
	for codec, name := range codecNames {
		t.Run(name, func(t *testing.T) {
			raw, records := bulk(t, int16(codec), 128<<10)
			f := idle(t, nil)
			sink := &nowhere{f: f}
			p := newPump(f, part("t", 0, sink))
			got := testing.AllocsPerRun(3, func() {
				p.pos.Next, p.base = 0, 0
				if err := feed(p, raw); err != nil {
					t.Fatal(err)
				}
			})
			if sink.records != 4*records {
				t.Fatalf("%d records, want %d", sink.records, 4*records)
			}
			if per := got / float64(records); per > maxAllocations {
				t.Errorf("%.4f allocations per record (%.0f for %d records), at most %g are allowed", per, got, records, maxAllocations)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for codec, name := range codecNames {
		b.Run(name, func(b *testing.B) {
			raw, records := bulk(b, int16(codec), 1<<20)
			f := idle(b, nil)
			p := newPump(f, part("t", 0, &nowhere{f: f}))
			p.Timestamps = false
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for b.Loop() {
				p.pos.Next, p.base = 0, 0
				if err := feed(p, raw); err != nil {
					b.Fatal(err)
				}
			}
			runtime.ReadMemStats(&after)
			all := float64(records) * float64(b.N)
			per := float64(after.Mallocs-before.Mallocs) / all
			b.ReportMetric(all/b.Elapsed().Seconds()/1e6, "Mrec/s")
			b.ReportMetric(per, "allocs/record")
			if per > maxAllocations {
				b.Errorf("%.4f allocations per record, at most %g are allowed", per, maxAllocations)
			}
		})
	}
}
