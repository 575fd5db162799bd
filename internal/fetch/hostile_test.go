package fetch

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/protocol/frame"
)

type (
	asks = kmsg.FetchRequestTopicPartition
	says = kmsg.FetchResponseTopicPartition
)

// hostility answers for partition 0 as a test says and for all others well. It counts what it is
// asked for partition 0, and ends the test when that is asked in a loop: fake time stands still in one.
type hostility struct {
	*script
	mu    sync.Mutex
	asked int
	since time.Time
	loops bool
}

const tooOften = 300 // requests in one instant, for one partition

func newHostility(t testing.TB, say func(p asks, out *says)) *hostility {
	h := &hostility{script: newScript()}
	h.fetch = func(ctx context.Context, _ int32, req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
		loops := false
		res := reply(req, func(p asks, out *says) {
			if p.Partition != 0 {
				out.RecordBatches = handmade{base: p.FetchOffset, records: kv(10), epoch: 5}.encode(t)
				return
			}
			h.mu.Lock()
			if now := time.Now(); now != h.since {
				h.since, h.asked = now, 0
			}
			h.asked++
			loops = h.asked > tooOften
			h.loops = h.loops || loops
			h.mu.Unlock()
			say(p, out)
		})
		if loops {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return res, nil
	}
	return h
}

// bomb is a batch of about a mebibyte that would be gigabytes.
func bomb(t testing.TB, codec int16, base int64) []byte {
	t.Helper()
	zeros := make([]byte, 8<<20)
	var body []byte
	switch codec {
	case codecSnappy: // 1:21 is all that it can: one block says 8 MiB, and there are many
		block := pack(t, codec, zeros)
		body = append(bytes.Clone(xerial), 0, 0, 0, 1, 0, 0, 0, 1)
		for range 40 {
			body = append(binary.BigEndian.AppendUint32(body, uint32(len(block))), block...)
		}
	case codecZstd: // frames one behind the other
		w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		body = bytes.Repeat(w.EncodeAll(zeros, nil), 1000)
	default: // members or frames one behind the other
		body = bytes.Repeat(pack(t, codec, zeros), 100)
	}
	return sealed(t, base, codec, body)
}

// sealed is a batch around a body that is packed already.
func sealed(t testing.TB, base int64, codec int16, body []byte) []byte {
	b := handmade{base: base, body: body, count: 1000, last: 999}.encode(t)
	binary.BigEndian.PutUint16(b[21:], uint16(codec))
	repair(b)
	return b
}

// A broker that lies about one partition ends that one, with an error that says what and where, or
// goes on without harm. It is never asked in a loop, and the others go on.
func TestHostilePartitions(t *testing.T) {
	corruptly := func(t *testing.T, c *collector) {
		if bad := as[*CorruptError](t, c.end()); bad.Topic != "t" || bad.Partition != 0 || bad.Reason == "" {
			t.Errorf("%+v", bad)
		}
	}
	tooLarge := func(t *testing.T, c *collector) {
		if large := as[*RecordTooLargeError](t, c.end()); large.Topic != "t" || large.Partition != 0 || large.What != "batch" {
			t.Errorf("%+v", large)
		}
	}
	goesOn := func(t *testing.T, c *collector) {
		time.Sleep(10 * time.Minute) // of fake time
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.stopped {
			t.Errorf("it has ended: %v", c.err)
		}
	}
	reached := func(t *testing.T, c *collector) {
		if err := c.end(); err != nil {
			t.Error(err)
		}
	}
	raw := func(b []byte) func(asks, *says) {
		return func(_ asks, out *says) { out.RecordBatches = b }
	}
	header := func(at int, value ...byte) func(asks, *says) {
		return func(p asks, out *says) {
			b := handmade{base: p.FetchOffset, records: kv(3), epoch: 5}.encode(t)
			copy(b[at:], value)
			repair(b)
			out.RecordBatches = b
		}
	}
	for _, test := range []struct {
		name string
		say  func(p asks, out *says)
		ends func(t *testing.T, c *collector)
		from int64
		till int64 // 0: without end
	}{
		{name: "wrong checksum", ends: corruptly, say: func(p asks, out *says) {
			out.RecordBatches = handmade{base: p.FetchOffset, records: kv(2), badCRC: true}.encode(t)
		}},
		{name: "offsets that go back", from: 100, ends: corruptly, say: raw(handmade{base: 50, records: kv(2)}.encode(t))},
		{name: "offsets that go back within an answer", till: 2, ends: reached, say: raw(append(handmade{records: kv(2)}.encode(t), handmade{records: kv(1)}.encode(t)...))},
		{name: "offsets that were not asked for", from: 5, till: 1 << 50, ends: reached, say: raw(handmade{base: 1 << 50, records: kv(2)}.encode(t))},
		{name: "offsets past all numbers", ends: corruptly, say: raw(handmade{base: frame.MaxInteger - 1, records: kv(3)}.encode(t))},
		{name: "a negative offset", ends: corruptly, say: header(0, 0x80)},
		{name: "a length of 2 GiB", ends: tooLarge, say: header(8, 0x7f, 0xff, 0xff, 0xff)},
		{name: "a negative length", ends: corruptly, say: header(8, 0xff, 0xff, 0xff, 0xff)},
		{name: "a negative count", ends: corruptly, say: header(57, 0xff, 0xff, 0xff, 0xff)},
		{name: "a count of 2^31", ends: corruptly, say: header(57, 0x7f, 0xff, 0xff, 0xff)},
		{name: "a count and delta of 2^31", ends: corruptly, say: func(p asks, out *says) {
			header(23, 0x7f, 0xff, 0xff, 0xff)(p, out)
			copy(out.RecordBatches[57:], []byte{0x7f, 0xff, 0xff, 0xff})
			repair(out.RecordBatches)
		}},
		{name: "batches that are always cut", ends: corruptly, say: func(p asks, out *says) {
			out.RecordBatches = handmade{base: p.FetchOffset, records: kv(9)}.encode(t)[:100]
		}},
		{name: "bytes that are no batch", ends: corruptly, say: raw([]byte("HTTP"))},
		{name: "nothing, at once, for ever", ends: goesOn, say: func(asks, *says) {}},
		{name: "the end, at once, for ever", ends: goesOn, say: func(p asks, out *says) { out.LastStableOffset, out.HighWatermark = p.FetchOffset, p.FetchOffset }},
		{name: "no position but nonsense", ends: goesOn, say: func(_ asks, out *says) {
			out.HighWatermark, out.LastStableOffset, out.LogStartOffset = math.MinInt64, math.MaxInt64, math.MaxInt64
		}},
		{name: "out of range, although it is not", ends: goesOn, say: func(_ asks, out *says) { out.ErrorCode = codeOutOfRange }},
		{name: "a code that is none", ends: goesOn, say: func(_ asks, out *says) { out.ErrorCode = 12345 }},
		{name: "empty batches", till: 200, ends: reached, say: func(p asks, out *says) {
			out.RecordBatches = handmade{base: p.FetchOffset}.encode(t)
		}},
		{name: "empty batches to the last number", from: frame.MaxInteger - 3, ends: corruptly, say: func(p asks, out *says) {
			out.RecordBatches = handmade{base: p.FetchOffset}.encode(t)
		}},
		{name: "gzip bomb", ends: tooLarge, say: raw(bomb(t, codecGzip, 0))},
		{name: "snappy bomb", ends: tooLarge, say: raw(bomb(t, codecSnappy, 0))},
		{name: "lz4 bomb", ends: tooLarge, say: raw(bomb(t, codecLZ4, 0))},
		{name: "zstd bomb", ends: tooLarge, say: raw(bomb(t, codecZstd, 0))},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHostility(t, test.say)
				h.end.Offset = math.MaxInt64
				f, stop := scripted(t, h.script, func(c *Config) { c.BatchBytes = 16 << 20 })
				defer stop()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				bad, good := newCollector(t), newCollector(t)
				in := part("t", 0, bad)
				if in.Offset = test.from; test.till != 0 {
					in.Until = test.till
				}
				f.Add(in)
				other := part("t", 1, good)
				other.Until = 5000
				f.Add(other)
				if err := good.end(); err != nil || len(good.records) != 5000 {
					t.Errorf("the other partition: %d records, %v", len(good.records), err)
				}
				test.ends(t, bad)
				runtime.ReadMemStats(&after)
				if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 300 {
					t.Errorf("%d MiB were allocated", got)
				}
				h.mu.Lock()
				defer h.mu.Unlock()
				if h.loops {
					t.Error("it is asked in a loop")
				}
			})
		})
	}
}

// A bomb takes no more memory than a few times the largest batch that is allowed.
func TestBombsTakeTheLimitOnce(t *testing.T) {
	for codec := int16(codecGzip); codec <= codecZstd; codec++ {
		t.Run(codecNames[codec], func(t *testing.T) {
			raw := bomb(t, codec, 0)
			if len(raw) > 20<<20 {
				t.Fatalf("the bomb itself has %d bytes", len(raw))
			}
			p := newPump(idle(t, func(c *Config) { c.BatchBytes = 32 << 20 }), part("t", 0, newCollector(t)))
			most := uint64(0)
			done := make(chan struct{})
			var watching sync.WaitGroup
			watching.Go(func() {
				for {
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					most = max(most, m.HeapAlloc)
					select {
					case <-done:
						return
					case <-time.After(5 * time.Millisecond):
					}
				}
			})
			start := time.Now()
			err := p.at(feed(p, raw))
			took := time.Since(start)
			close(done)
			watching.Wait()
			as[*RecordTooLargeError](t, err)
			if limit := uint64(p.f.cfg.BatchBytes); most > 5*limit+64<<20 {
				t.Errorf("%d MiB of heap for batches of %d MiB", most>>20, limit>>20)
			}
			if took > patience {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// Lists of aborted transactions that never end, and control batches that nobody knows.
func TestHostileTransactions(t *testing.T) {
	txn := int16(attrTransactional)
	data := func(base, producer int64) handmade {
		return handmade{base: base, producer: producer, attributes: txn, records: kv(2)}
	}
	control := func(base, producer int64, key []byte) handmade {
		return handmade{base: base, producer: producer, attributes: attrControl | txn, records: []kafkatest.Record{{Key: key}}}
	}
	// INVARIANT: what is no abort marker does not end an aborted transaction, and is no record.
	for _, key := range [][]byte{nil, {}, {0}, {0, 0, 0}, {0, 0, 0, 7}, {0, 9, 0, 2}, {0xff, 0xff, 0xff, 0xff}, bytes.Repeat([]byte{9}, 1000)} {
		c := newCollector(t)
		p := newPump(idle(t, nil), part("t", 0, c))
		var raw []byte
		for _, b := range []handmade{data(0, 7), control(2, 7, key), data(3, 7), data(5, 8), {base: 7, producer: 7, attributes: attrControl | txn, last: 0}, data(8, 7)} {
			raw = append(raw, b.encode(t)...)
		}
		if err := feed(p, raw, aborted{7, 0}); err != nil {
			t.Fatalf("%x: %v", key, err)
		}
		if got := offsets(c.records); len(got) != 2 || got[0] != 5 || got[1] != 6 || p.pos.Next != 10 {
			t.Errorf("%x: records %v, position %d", key, got, p.pos.Next)
		}
	}

	// A million producers whose transactions never end: they are known for one answer only.
	var many []aborted
	for i := range maxAborted {
		many = append(many, aborted{int64(100 + i), int64(i) - maxAborted})
	}
	c := newCollector(t)
	p := newPump(idle(t, nil), part("t", 0, c))
	start := time.Now()
	raw := append(data(0, 7).encode(t), data(2, 100).encode(t)...)
	if err := feed(p, raw, many...); err != nil || len(c.records) != 2 {
		t.Fatal(err, len(c.records))
	}
	if err := feed(p, data(4, 100).encode(t)); err != nil || len(c.records) != 4 {
		t.Error("what a former answer said counts for the next", err, len(c.records))
	}
	if took := time.Since(start); took > patience {
		t.Errorf("it took %v", took)
	}
}

// All partitions of a response together may not name more aborted transactions than one may.
func TestAbortedListsAreBoundedTogether(t *testing.T) {
	x, req := request(t, 11, threeTopics()...)
	res, partitions := answerTo(req), 0
	few := make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, 10)
	for i := range res.Topics {
		for j := range res.Topics[i].Partitions {
			res.Topics[i].Partitions[j].AbortedTransactions = few
			partitions++
		}
	}
	b := res.AppendTo(nil)
	for range 2 { // it is counted for each response
		if err := x.ReadBody(bytes.NewReader(b), len(b), 11); err != nil || x.names != maxAborted-10*partitions {
			t.Fatalf("%d are left after %d partitions, %v", x.names, partitions, err)
		}
	}
	res.Topics[0].Partitions[0].AbortedTransactions = make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, maxAborted-5)
	b = res.AppendTo(nil)
	if err := x.ReadBody(bytes.NewReader(b), len(b), 11); !errors.Is(err, errTooMany) {
		t.Errorf("%v, want %v", err, errTooMany)
	}
	x.drop()
}

// TestBrokerThatThrottles: a broker that answers at once and with nothing, as one does that throttles, is
// asked seldom, and what comes after it is read.
func TestBrokerThatThrottles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, asked := newScript(), atomic.Int32{} // the fetcher asks from two loops
		until := time.Now().Add(30 * time.Second)
		s.fetch = func(_ context.Context, _ int32, req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
			if n := asked.Add(1); n > 10_000 {
				return nil, fmt.Errorf("asked %d times", n)
			}
			if time.Now().Before(until) {
				return reply(req, func(p asks, out *says) { out.HighWatermark, out.LastStableOffset = p.FetchOffset, p.FetchOffset }), nil
			}
			return data(t, req, 1), nil
		}
		f, stop := scripted(t, s, nil)
		defer stop()
		c := newCollector(t)
		in := part("t", 0, c)
		in.Until = 1
		start := time.Now()
		f.Add(in)
		if err := c.end(); err != nil || asked.Load() > 200 {
			t.Errorf("asked %d times, %v", asked.Load(), err)
		}
		if took := time.Since(start); took > 40*time.Second {
			t.Errorf("took %v", took)
		}
	})
}
