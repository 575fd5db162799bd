package bridge

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// However much the worker grants, what it does not read stays within our own bound, and the pumps
// wait.
func TestDataLaneIsBounded(t *testing.T) {
	const limit, size = 10_000, 3000
	lanes(t, func(c *Config) { c.MaxQueuedData = limit }, func(t *testing.T, c *Conn, p *pipe) {
		c.credit.Load().Grant(1<<52, nil)
		g := gate.New(1, c.Credit())
		ctx, cancel := context.WithCancel(t.Context())
		var pumps sync.WaitGroup
		for s := range uint32(5) {
			c.OpenStream(s+1, false)
			c.credit.Load().Grant(0, map[uint32]int64{s + 1: 1 << 52})
			pumps.Go(func() {
				for g.Send(ctx, s+1, records(s+1, 1, 0, size)) == nil {
				}
			})
		}
		for range 100 {
			synctest.Wait()
			if _, data := c.q.sizes(); data > limit+size {
				t.Fatalf("%d bytes are queued", data)
			}
			if got := p.read(t); got == "nothing" {
				t.Fatal("the lane has run dry")
			}
		}
		cancel()
		pumps.Wait()
	})
}

// With a WriteTimeout, a worker that takes nothing for so long is cut off.
func TestWriteTimeout(t *testing.T) {
	s, r := start(t, func(c *Config) { c.WriteTimeout = 50 * time.Millisecond })
	h := testHello()
	h.Credit = protocol.Window{Connection: 1 << 40, Stream: 1 << 40}
	_, c := workerWith(t, s, r, h) // reads nothing
	c.OpenStream(1, false)
	g := gate.New(1, c.Credit())
	var err error
	for err == nil {
		err = g.Send(t.Context(), 1, records(1, 1, 0, frame.DefaultTarget))
	}
	if !errors.Is(err, gate.ErrClosed) {
		t.Fatal(err)
	}
	r.next(t, "disconnected")
}

func TestMetrics(t *testing.T) {
	var refused, connected, closed, received, sent, dropped atomic.Int64
	s, r := start(t, func(c *Config) {
		c.Metrics = Metrics{
			Refused:   func(status int) { refused.Add(int64(status)) },
			Connected: func() { connected.Add(1) },
			Closed:    func(code int) { closed.Add(int64(code)) },
			Received:  func(_ string, n int) { received.Add(int64(n)) },
			Sent:      func(_ string, n int) { sent.Add(int64(n)) },
			Dropped:   func(_ string, n int) { dropped.Add(int64(n)) },
		}
	})
	dialer(s).Dial(target(s), nil)
	w, c := worker(t, s, r)
	before := received.Load()
	w.frame(writes(7, 1, 1, 500)) // never assigned
	w.hearError(protocol.CodeUnknownStream, "")
	if refused.Load() != 401 || connected.Load() != 1 || received.Load()-before != 500 || dropped.Load() != 500 || sent.Load() == 0 {
		t.Fatalf("refused %d, connected %d, received %d, dropped %d, sent %d", refused.Load(), connected.Load(), received.Load(), dropped.Load(), sent.Load())
	}
	c.Close(protocol.CloseHung, "")
	w.closed(protocol.CloseHung, "")
	r.next(t, "disconnected")
	if closed.Load() != protocol.CloseHung {
		t.Fatalf("closed %d", closed.Load())
	}
}

func TestSparseLog(t *testing.T) {
	var s sparse
	now := time.Unix(1000, 0)
	lines := 0
	for range 1000 {
		if _, ok := s.allow(now); ok {
			lines++
		}
	}
	if lines != sparseBurst {
		t.Fatalf("%d lines at once", lines)
	}
	if skipped, ok := s.allow(now.Add(time.Second)); !ok || skipped != 1000-sparseBurst {
		t.Fatalf("%v, %d left out", ok, skipped)
	}
}

// A queue that was long once does not hold on to its memory.
func TestFifo(t *testing.T) {
	var f fifo[int]
	next, want := 0, 0
	for round := range 50 {
		for range 100 + round*50 {
			f.push(next)
			next++
		}
		for range 90 + round*50 {
			if v, ok := f.pop(); !ok || v != want {
				t.Fatalf("got %d %v, want %d", v, ok, want)
			}
			want++
		}
	}
	for want < next {
		if v, ok := f.pop(); !ok || v != want {
			t.Fatalf("got %d %v, want %d", v, ok, want)
		}
		want++
	}
	if _, ok := f.pop(); ok || cap(f.items) > 1024 {
		t.Fatalf("an empty queue of capacity %d", cap(f.items))
	}
}
