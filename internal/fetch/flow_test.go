package fetch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafkatest"
)

// endless answers each fetch with a batch of n records per partition, at once.
func endless(t testing.TB, n int) func(context.Context, int32, *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
	return func(ctx context.Context, _ int32, req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return data(t, req, n), nil
	}
}

func TestStalledSinkDoesNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.fetch = endless(t, 1000)
		f, stop := scripted(t, s, func(c *Config) { c.PartitionBytes, c.ResponseBytes, c.BufferBytes = 16<<10, 64<<10, 64<<10 })
		defer stop()
		var stalled []*collector
		for p := range int32(9) {
			c := newCollector(t)
			c.gate = make(chan struct{})
			stalled = append(stalled, c)
			f.Add(part("t", p, c))
		}
		synctest.Wait() // all of them have taken what they may
		c := newCollector(t)
		in := part("t", 9, c)
		in.Until = 50_000
		f.Add(in)
		if err := c.end(); err != nil || len(c.records) != 50_000 {
			t.Errorf("%v, %d records", err, len(c.records))
		}
		// They go on where they were.
		for _, c := range stalled {
			close(c.gate)
			c.until("records after the stall", func() bool { return len(c.records) > 3000 })
		}
	})
}

// TestAtMostTwoBuffers counts how much is fetched for a sink that takes nothing.
func TestAtMostTwoBuffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		var fetches atomic.Int32
		s.fetch = func(ctx context.Context, node int32, req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
			fetches.Add(1)
			return endless(t, 10)(ctx, node, req)
		}
		f, stop := scripted(t, s, nil)
		defer stop()
		c := newCollector(t)
		c.gate = make(chan struct{})
		f.Add(part("t", 0, c))
		synctest.Wait()
		if got := fetches.Load(); got != 2 {
			t.Errorf("%d fetches: one to be decoded, and one ahead", got)
		}
	})
}

// TestMemoryIsBounded has many sinks stall with batches much larger than their share, and looks at
// what is held; then lets all of them go on.
func TestMemoryIsBounded(t *testing.T) {
	const limit = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		body := handmade{records: []kafkatest.Record{{Key: []byte("k"), Value: make([]byte, 200<<10)}}}
		var most atomic.Int64
		var f *Fetcher
		s.fetch = func(ctx context.Context, _ int32, req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			first := true
			return reply(req, func(p kmsg.FetchRequestTopicPartition, out *kmsg.FetchResponseTopicPartition) {
				h := body
				h.base = p.FetchOffset
				if b := h.encode(t); first || len(b) <= int(p.PartitionMaxBytes) {
					out.RecordBatches, first = b, false
				}
				most.Store(max(most.Load(), f.room.held()))
			}), nil
		}
		f, stop := scripted(t, s, func(c *Config) { c.PartitionBytes, c.ResponseBytes, c.BufferBytes = 64<<10, 256<<10, limit })
		defer stop()
		var all []*collector
		for p := range int32(10) {
			c := newCollector(t)
			c.gate = make(chan struct{})
			in := part("t", p, c)
			in.Until = 20
			all = append(all, c)
			f.Add(in)
		}
		synctest.Wait()
		if got := f.room.held(); got > limit/2 || got == 0 {
			t.Errorf("%d bytes held of %d", got, limit/2)
		}
		for _, c := range all {
			close(c.gate)
		}
		for _, c := range all {
			if err := c.end(); err != nil || len(c.records) != 20 {
				t.Errorf("%v, %d records", err, len(c.records))
			}
		}
		if most.Load() > limit/2 {
			t.Errorf("%d bytes were held", most.Load())
		}
	})
}

// An error beside records is nothing that Kafka does. What they took of the room comes back (scripted
// looks at it), or a few of them would stop every partition.
func TestRecordsBesideAnErrorGiveTheirRoomBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		large := handmade{records: []kafkatest.Record{{Value: make([]byte, 200<<10)}}}.encode(t)
		var fetches atomic.Int32
		s.steps(func(req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
			return reply(req, func(_ kmsg.FetchRequestTopicPartition, out *kmsg.FetchResponseTopicPartition) {
				if out.RecordBatches = large; fetches.Add(1) <= 10 {
					out.ErrorCode = codeNotLeader
				}
			}), nil
		})
		f, stop := scripted(t, s, func(c *Config) { c.PartitionBytes, c.ResponseBytes, c.BufferBytes = 64<<10, 256<<10, 1<<20 })
		defer stop()
		c := newCollector(t)
		in := part("t", 0, c)
		in.Until = 1
		f.Add(in)
		if err := c.end(); err != nil || len(c.records) != 1 {
			t.Errorf("%v, %d records", err, len(c.records))
		}
	})
}

func TestBatchLargerThanTheBuffersIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.fetch = func(_ context.Context, _ int32, req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
			return reply(req, func(p kmsg.FetchRequestTopicPartition, out *kmsg.FetchResponseTopicPartition) {
				out.RecordBatches = handmade{records: []kafkatest.Record{{Value: make([]byte, 1<<20)}}}.encode(t)
			}), nil
		}
		f, stop := scripted(t, s, func(c *Config) { c.PartitionBytes, c.ResponseBytes, c.BufferBytes = 64<<10, 256<<10, 1<<20 })
		defer stop()
		c := newCollector(t)
		f.Add(part("t", 0, c))
		if large := as[*RecordTooLargeError](t, c.end()); large.What != "batch" || large.Limit != 512<<10 || large.Size < 1<<20 {
			t.Errorf("%+v", large)
		}
	})
}

// TestBacklogDoesNotWaitForTheIdle has one partition at its end, which waits at the broker, beside
// one with a backlog.
func TestBacklogDoesNotWaitForTheIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.fetch = func(ctx context.Context, _ int32, req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
			any := false
			res := reply(req, func(p kmsg.FetchRequestTopicPartition, out *kmsg.FetchResponseTopicPartition) {
				if p.Partition == 0 {
					out.HighWatermark, out.LastStableOffset = 0, 0
					return
				}
				any = true
				out.RecordBatches = handmade{base: p.FetchOffset, records: kv(10)}.encode(t)
			})
			if !any {
				timer := time.NewTimer(time.Duration(req.MaxWaitMillis) * time.Millisecond)
				defer timer.Stop()
				select {
				case <-timer.C:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return res, nil
		}
		f, stop := scripted(t, s, nil)
		defer stop()
		idle, busy := newCollector(t), newCollector(t)
		f.Add(part("t", 0, idle))
		idle.until("two empty answers", func() bool { return len(idle.progress) > 1 })
		start := time.Now()
		in := part("t", 1, busy)
		in.Until = 10_000
		f.Add(in)
		if err := busy.end(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("took %v", took)
		}
		if len(idle.records) != 0 || len(idle.frames) != 0 {
			t.Error("records from nowhere")
		}
	})
}

func TestStoppedExactlyOnce(t *testing.T) {
	s := newScript()
	s.fetch = func(ctx context.Context, _ int32, _ *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	f, err := newFetcher(Config{}, s)
	if err != nil {
		t.Fatal(err)
	}
	before, removed, during, reached := newCollector(t), newCollector(t), newCollector(t), newCollector(t)
	f.Add(part("t", 0, before))
	f.Add(part("t", 1, removed))() // removed before it was begun
	in := part("t", 2, reached)
	in.Offset, in.Until = 5, 5
	f.Add(in)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	if err := removed.end(); err != nil {
		t.Errorf("removed: %v", err)
	}
	if err := reached.end(); err != nil {
		t.Errorf("reached: %v", err)
	}
	remove := f.Add(part("t", 3, during))
	remove()
	remove()
	if err := during.end(); err != nil {
		t.Errorf("removed: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := before.end(); !errors.Is(err, ErrStopped) {
		t.Errorf("when Run ends: %v", err)
	}
	after := newCollector(t)
	f.Add(part("t", 4, after))
	if err := after.end(); !errors.Is(err, ErrStopped) {
		t.Errorf("after Run: %v", err)
	}
	if err := f.Run(context.Background()); err == nil {
		t.Error("it ran twice")
	}
}

func TestDecodersAreTakenFromThoseWhoWait(t *testing.T) {
	d := newDecoders(2, 1<<20)
	defer d.close()
	ctx := context.Background()
	leases := make([]lease, 3)
	for i := range 2 {
		if err := d.get(ctx, &leases[i]); err != nil {
			t.Fatal(err)
		}
	}
	short, cancel := context.WithCancel(ctx)
	cancel()
	if err := d.get(short, &leases[2]); !errors.Is(err, context.Canceled) {
		t.Fatalf("all are in use: %v", err)
	}
	d.offer(&leases[0])
	if !d.reclaim(&leases[0]) {
		t.Fatal("nobody has taken it")
	}
	d.offer(&leases[0])
	d.offer(&leases[1])
	if err := d.get(ctx, &leases[2]); err != nil {
		t.Fatal(err)
	}
	if d.reclaim(&leases[0]) || !d.reclaim(&leases[1]) {
		t.Fatal("the oldest offer is taken")
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := d.get(ctx, &leases[0]); err != nil {
			t.Error(err)
		}
	})
	d.put(&leases[1])
	wg.Wait()
	d.put(&leases[0])
	d.put(&leases[2])
	d.put(&leases[2]) // twice is nothing
	if len(d.free) != 2 {
		t.Errorf("%d are free", len(d.free))
	}
}

// TestStolenDecoders has more stalled pumps than decoders, in the middle of compressed batches.
func TestStolenDecoders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := variety(1200, 1)
		for i := range records {
			records[i].Offset = int64(i)
		}
		batches := map[[2]int64][]byte{}
		for codec := range int64(5) {
			for half := range int64(2) {
				at := half * 600
				batches[[2]int64{codec, half}] = handmade{base: at, attributes: int16(codec), records: records[at : at+600]}.encode(t)
			}
		}
		s := newScript()
		s.fetch = func(ctx context.Context, _ int32, req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return reply(req, func(p kmsg.FetchRequestTopicPartition, out *kmsg.FetchResponseTopicPartition) {
				out.RecordBatches = batches[[2]int64{int64(p.Partition % 5), p.FetchOffset / 600}]
			}), nil
		}
		f, stop := scripted(t, s, func(c *Config) { c.FrameBytes = 16 << 10 })
		defer stop()
		f.small.left = 2
		var all []*collector
		for p := range int32(10) {
			c := newCollector(t)
			c.gate = make(chan struct{})
			in := part("t", p, c)
			in.Until = 1200
			all = append(all, c)
			f.Add(in)
		}
		synctest.Wait()
		for _, c := range all {
			close(c.gate)
		}
		for i, c := range all {
			if err := c.end(); err != nil {
				t.Fatalf("partition %d: %v", i, err)
			}
			same(t, c.records, records)
		}
	})
}

func TestBatchesLargerThanADecoder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		value := text(3 << 20)
		batches := make([][]byte, 3) // 0, 2 and 3, 4
		for i := range batches {
			records := []kafkatest.Record{{Value: []byte("small")}}
			if i == 1 {
				records = []kafkatest.Record{{Value: value}, {Value: value}}
			}
			batches[i] = handmade{base: int64(2 * i), attributes: codecZstd, records: records}.encode(t)
		}
		s.fetch = func(ctx context.Context, _ int32, req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
			return reply(req, func(p kmsg.FetchRequestTopicPartition, out *kmsg.FetchResponseTopicPartition) {
				out.RecordBatches = batches[[]int{0, 1, 1, 1, 2, 2}[p.FetchOffset]]
			}), nil
		}
		f, stop := scripted(t, s, nil)
		defer stop()
		var all []*collector
		for p := range int32(3) {
			c := newCollector(t)
			in := part("t", p, c)
			in.Until = 5
			all = append(all, c)
			f.Add(in)
		}
		for _, c := range all {
			if err := c.end(); err != nil || len(c.records) != 4 || len(c.records[2].Value) != len(value) {
				t.Errorf("%v, %d records", err, len(c.records))
			}
		}
	})
}
