package gate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// queue is an Out that keeps what it gets.
type queue struct {
	mu    sync.Mutex
	items []entry
}

type entry struct {
	gate   *Gate
	stream uint32
	size   int
}

func (q *queue) Enqueue(g *Gate, stream uint32, b []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, entry{g, stream, len(b)})
}

func (q *queue) streams() (all []uint32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.items {
		all = append(all, e.stream)
	}
	return all
}

func (q *queue) take() (entry, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return entry{}, false
	}
	e := q.items[0]
	q.items = q.items[1:]
	return e, true
}

func ledger(connection, stream int64, streams ...uint32) (*queue, *Credit, *Gate) {
	q := &queue{}
	c := NewCredit(q, connection, stream)
	for _, s := range streams {
		c.Open(s)
	}
	return q, c, New(1, c)
}

// sending starts a Send and gives its answer.
func sending(ctx context.Context, g *Gate, stream uint32, size int) <-chan error {
	done := make(chan error, 1)
	go func() { done <- g.Send(ctx, stream, make([]byte, size)) }()
	return done
}

func pending(t *testing.T, done <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		t.Fatalf("send returned %v, want it to wait", err)
	default:
	}
}

func ended(t *testing.T, done <-chan error, want error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		if !errors.Is(err, want) {
			t.Fatalf("send returned %v, want %v", err, want)
		}
	default:
		t.Fatal("send still waits")
	}
}

func TestAnyPositiveCreditPermitsOneFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, g := ledger(10, 10, 1)
		ended(t, sending(t.Context(), g, 1, 9), nil)
		ended(t, sending(t.Context(), g, 1, 1000), nil)
		next := sending(t.Context(), g, 1, 1)
		pending(t, next)
		c.Grant(1009, map[uint32]int64{1: 1009}) // spent: still nothing left
		pending(t, next)
		c.Grant(1010, nil) // the connection only
		pending(t, next)
		c.Grant(0, map[uint32]int64{1: 1010})
		ended(t, next, nil)
	})
}

func TestGrantsAreCumulative(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, g := ledger(10, 10, 1)
		ended(t, sending(t.Context(), g, 1, 10), nil)
		next := sending(t.Context(), g, 1, 10)
		for range 5 { // repeated, late and for strangers: nothing leaks
			c.Grant(10, map[uint32]int64{1: 10, 7: 1000})
			c.Grant(3, map[uint32]int64{1: 3})
		}
		pending(t, next)
		c.Grant(20, map[uint32]int64{1: 20})
		ended(t, next, nil)
		pending2 := sending(t.Context(), g, 1, 1)
		pending(t, pending2)
		c.Close()
		ended(t, pending2, ErrClosed)
	})
}

func TestWaitersGoInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, c, g := ledger(1, 1000, 1, 2, 3, 4)
		ended(t, sending(t.Context(), g, 1, 1), nil)
		var waiting []<-chan error
		for _, s := range []uint32{3, 2, 4, 1} {
			done := sending(t.Context(), g, s, 10)
			pending(t, done)
			waiting = append(waiting, done)
		}
		for i, done := range waiting {
			c.Grant(int64(10*i+2), nil)
			ended(t, done, nil)
		}
		if got := q.streams(); !slices.Equal(got, []uint32{1, 3, 2, 4, 1}) {
			t.Fatalf("order %v", got)
		}
	})
}

func TestStreamWithoutCreditHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, c, g := ledger(100, 10, 1, 2)
		ended(t, sending(t.Context(), g, 1, 10), nil)
		first := sending(t.Context(), g, 1, 5)
		pending(t, first)
		ended(t, sending(t.Context(), g, 2, 5), nil)
		second := sending(t.Context(), g, 1, 6) // same stream: behind the first
		pending(t, second)
		c.Grant(0, map[uint32]int64{1: 1000})
		ended(t, first, nil)
		ended(t, second, nil)
		if q.items[2].size != 5 || q.items[3].size != 6 {
			t.Fatalf("the stream lost its order: %v", q.items)
		}
	})
}

func TestCloseEndsWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, c, g := ledger(1, 100, 1, 2)
		other := New(2, c)
		ended(t, sending(t.Context(), other, 2, 1), nil)
		mine, theirs := sending(t.Context(), g, 1, 1), sending(t.Context(), other, 2, 1)
		pending(t, mine)
		g.Close()
		g.Close()
		ended(t, mine, ErrClosed)
		pending(t, theirs)
		if g.Live() || !other.Live() {
			t.Fatalf("live: mine %v, theirs %v", g.Live(), other.Live())
		}
		c.Grant(100, nil)
		ended(t, theirs, nil)
		ended(t, sending(t.Context(), g, 1, 1), ErrClosed)
		if got := q.streams(); !slices.Equal(got, []uint32{2, 2}) {
			t.Fatalf("queued %v", got)
		}
		c.Close()
		if other.Live() {
			t.Fatal("a gate lives on after its connection")
		}
		ended(t, sending(t.Context(), other, 2, 1), ErrClosed)
	})
}

func TestPauseHoldsBackUntilResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, g := ledger(100, 100, 1, 2)
		other := New(1, c)
		g.Pause()
		held := sending(t.Context(), g, 1, 1)
		pending(t, held)
		ended(t, sending(t.Context(), other, 2, 1), nil)
		if !g.Live() {
			t.Fatal("a paused gate must stay live: what is queued goes out")
		}
		g.Resume()
		ended(t, held, nil)
	})
}

func TestUnknownAndForgottenStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, g := ledger(100, 1, 1)
		err := g.Send(t.Context(), 9, []byte("x"))
		if !errors.Is(err, ErrUnknownStream) || !errors.Is(err, ErrClosed) {
			t.Fatalf("unknown stream: %v", err)
		}
		ended(t, sending(t.Context(), g, 1, 1), nil)
		waiting := sending(t.Context(), g, 1, 1)
		pending(t, waiting)
		c.Forget(1)
		c.Forget(1)
		ended(t, waiting, ErrUnknownStream)
		c.Refund(1, 1) // of a frame still queued when its stream was forgotten
		if got := c.Outstanding(100); got != 0 {
			t.Fatalf("%d bytes outstanding", got)
		}
	})
}

func TestContextEndsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, c, g := ledger(1, 1, 1)
		ctx, cancel := context.WithCancel(t.Context())
		ended(t, sending(ctx, g, 1, 1), nil)
		waiting := sending(ctx, g, 1, 1)
		pending(t, waiting)
		cancel()
		ended(t, waiting, context.Canceled)
		c.Grant(100, map[uint32]int64{1: 100})
		ended(t, sending(ctx, g, 1, 1), context.Canceled) // although there is credit
		if len(q.items) != 1 {
			t.Fatalf("%d frames queued, want 1", len(q.items))
		}
	})
}

func TestRefundAndOutstanding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, g := ledger(10, 10, 1)
		ended(t, sending(t.Context(), g, 1, 8), nil)
		ended(t, sending(t.Context(), g, 1, 8), nil)
		waiting := sending(t.Context(), g, 1, 3)
		pending(t, waiting)
		if got := c.Outstanding(10); got != 16 {
			t.Fatalf("outstanding %d, want 16", got)
		}
		c.Refund(1, 8)
		ended(t, waiting, nil)
		c.Grant(10+8, map[uint32]int64{1: 18})
		if got := c.Outstanding(10); got != 3 {
			t.Fatalf("outstanding %d, want 3", got)
		}
		c.Grant(10+11, nil)
		if got := c.Outstanding(10); got != 0 {
			t.Fatalf("outstanding %d, want 0", got)
		}
	})
}

// INVARIANT: queued bytes of a connection pass the queue's limit by at most one frame, whatever the
// worker grants.
func TestQueueLimitHoldsAgainstAnyGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, c, g := ledger(1, 1, 1)
		c.LimitQueue(100)
		c.Grant(1<<53-1, map[uint32]int64{1: 1<<53 - 1})
		ended(t, sending(t.Context(), g, 1, 99), nil)
		ended(t, sending(t.Context(), g, 1, 50), nil)
		waiting := sending(t.Context(), g, 1, 1)
		pending(t, waiting)
		e, _ := q.take()
		c.Written(int64(e.size))
		ended(t, waiting, nil)
		if c.queued != 51 {
			t.Fatalf("queued %d, want 51", c.queued)
		}
	})
}

// INVARIANT: after Close has returned, no frame enters the queue through this gate. INVARIANT: spent
// bytes of a stream or connection pass their limit by at most one frame.
func TestInvariantsUnderRace(t *testing.T) {
	const size, window = 100, 250
	q, c, _ := ledger(window, window)
	c.LimitQueue(2 * size)
	stop := make(chan struct{})
	var worker sync.WaitGroup
	worker.Go(func() { // takes frames, drops those of closed gates, grants the rest
		var taken int64
		per := map[uint32]int64{}
		for stopping := false; ; {
			e, ok := q.take()
			if !ok && stopping {
				return
			}
			if !ok {
				select {
				case <-stop:
					stopping = true
				default:
				}
				continue
			}
			c.mu.Lock()
			if c.conn.spent-c.conn.limit >= size || c.queued > 3*size {
				t.Errorf("spent %d of %d, queued %d", c.conn.spent, c.conn.limit, c.queued)
			}
			c.mu.Unlock()
			if !e.gate.Live() {
				c.Refund(e.stream, size)
				continue
			}
			c.Written(size)
			taken += size
			per[e.stream] += size
			c.Grant(taken+window, map[uint32]int64{e.stream: per[e.stream] + window})
		}
	})
	var pumps sync.WaitGroup
	for i := range uint32(8) {
		pumps.Go(func() {
			for n := range 50 {
				stream := i*1000 + uint32(n)
				c.Open(stream)
				g := New(uint32(n), c)
				life := 1 + rand.IntN(6)
				var end sync.WaitGroup
				for s := 0; s < life; s++ {
					if s == life-1 {
						end.Go(g.Close)
					}
					if err := g.Send(context.Background(), stream, make([]byte, size)); err != nil && !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
				}
				end.Wait()
				if err := g.Send(context.Background(), stream, make([]byte, size)); !errors.Is(err, ErrClosed) {
					t.Errorf("sent through a closed gate: %v", err)
				}
				c.Forget(stream)
			}
		})
	}
	pumps.Wait()
	close(stop)
	worker.Wait()
	if c.queued != 0 || c.waiters.Len() != 0 || len(c.streams) != 0 {
		t.Fatalf("left over: queued %d, waiters %d, streams %d", c.queued, c.waiters.Len(), len(c.streams))
	}
}

func BenchmarkSend(b *testing.B) {
	for _, blocked := range []int{0, 1000} {
		b.Run(fmt.Sprintf("waiting=%d", blocked), func(b *testing.B) {
			q, c, g := ledger(1<<53, 1<<53, 1)
			ctx, cancel := context.WithCancel(b.Context())
			var wg sync.WaitGroup
			for i := range blocked {
				stream := uint32(i + 2)
				c.Open(stream)
				c.streams[stream].limit = 0
				wg.Go(func() { g.Send(ctx, stream, []byte("x")) })
			}
			frame := make([]byte, 256)
			for b.Loop() {
				if err := g.Send(ctx, 1, frame); err != nil {
					b.Fatal(err)
				}
				q.take()
				c.Written(256)
			}
			cancel()
			wg.Wait()
		})
	}
}
