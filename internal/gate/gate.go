// Package gate is the door between the data path and the worker.
//
// Records and restore frames do not pass through the session. They pass a Gate, one for each task
// epoch and lane, that only the session opens and closes; and they spend Credit, one for each
// worker connection, that only the worker grants.
//
// Flow: a pump calls Gate.Send, which waits for an open gate and for credit, spends the credit and
// hands the frame to the connection's queue (Out) in one step. The queue's writer asks Live once
// more when it takes the frame out, and gives the credit back (Refund) for one that it drops.
//
// INVARIANT: after Close has returned, no frame enters the queue through this gate, and none that
// is queued is written after a message that was queued after Close.
// INVARIANT: spent bytes of a stream or connection pass their limit by at most one frame.
package gate

import (
	"context"
	"errors"
	"sync"
)

// ErrClosed is returned by Send when the epoch or the connection is over.
var ErrClosed = errors.New("gate closed")

// Out is the queue of one worker connection. Enqueue never blocks and keeps the frame's bytes.
type Out interface {
	Enqueue(g *Gate, stream uint32, frame []byte)
}

// Gate lets the frames of one task epoch through. The zero value is not usable; see New.
type Gate struct {
	epoch  uint32
	credit *Credit

	// Guarded by credit.mu, so that the check and the enqueueing are one step.
	closed bool
	paused bool
}

// New makes an open gate of an epoch on a connection's credit.
func New(epoch uint32, credit *Credit) *Gate {
	return &Gate{epoch: epoch, credit: credit}
}

// Epoch is the task epoch that the gate belongs to.
func (g *Gate) Epoch() uint32 { return g.epoch }

// Close shuts the gate for good. Senders that wait return ErrClosed.
func (g *Gate) Close() { g.set(func() { g.closed = true }) }

// Pause holds senders back until Resume. Frames already queued still go out.
func (g *Gate) Pause() { g.set(func() { g.paused = true }) }

// Resume lets senders go on.
func (g *Gate) Resume() { g.set(func() { g.paused = false }) }

func (g *Gate) set(change func()) {
	g.credit.mu.Lock()
	defer g.credit.mu.Unlock()
	change()
	g.credit.wake()
}

// Live says whether the gate and its connection are open.
func (g *Gate) Live() bool {
	g.credit.mu.Lock()
	defer g.credit.mu.Unlock()
	return !g.closed && !g.credit.closed
}

// Send waits until the gate is open and both the stream and the connection have credit, then queues
// the frame, which belongs to the queue from then on. Any positive credit permits a frame of any
// size. It returns ErrClosed when the epoch or the connection ends, or ctx's error.
func (g *Gate) Send(ctx context.Context, stream uint32, frame []byte) error {
	c := g.credit
	for {
		c.mu.Lock()
		if g.closed || c.closed {
			c.mu.Unlock()
			return ErrClosed
		}
		if !g.paused && c.spend(stream, int64(len(frame))) {
			c.out.Enqueue(g, stream, frame)
			c.mu.Unlock()
			return nil
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Credit counts what the sidecar has sent on one worker connection against what the worker granted.
// Limits are cumulative byte counts since the start of the connection or stream, so that a repeated
// or reordered grant cannot leak.
type Credit struct {
	out Out

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change
	closed  bool
	conn    account
	streams map[uint32]*account
	initial int64 // of a new stream
}

type account struct{ spent, limit int64 }

// NewCredit makes the ledger of a connection whose queue is out. The limits are those of hello.
func NewCredit(out Out, connection, stream int64) *Credit {
	return &Credit{
		out:     out,
		changed: make(chan struct{}),
		conn:    account{limit: connection},
		streams: map[uint32]*account{},
		initial: stream,
	}
}

// Grant raises limits. A limit lower than the present one is ignored.
func (c *Credit) Grant(connection int64, streams map[uint32]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn.limit = max(c.conn.limit, connection)
	for id, limit := range streams {
		if a, ok := c.streams[id]; ok {
			a.limit = max(a.limit, limit)
		}
	}
	c.wake()
}

// Open registers a stream; Forget removes it when its epoch is over. Grants for unknown streams are
// ignored: they are late.
func (c *Credit) Open(stream uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams[stream] == nil {
		c.streams[stream] = &account{limit: c.initial}
	}
}

// Forget drops a stream's account.
func (c *Credit) Forget(stream uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.streams, stream)
}

// Refund gives back the bytes of a frame that was dropped unsent.
func (c *Credit) Refund(stream uint32, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn.spent -= n
	if a := c.streams[stream]; a != nil {
		a.spent -= n
	}
	c.wake()
}

// Close ends every gate of the connection.
func (c *Credit) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.wake()
}

// Outstanding is how many bytes were sent and not yet granted anew, against the connection's first
// window: more than zero means that the worker still owes credit.
func (c *Credit) Outstanding(window int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(0, c.conn.spent-(c.conn.limit-window))
}

func (c *Credit) spend(stream uint32, n int64) bool {
	a := c.streams[stream]
	if a == nil || a.spent >= a.limit || c.conn.spent >= c.conn.limit {
		return false
	}
	a.spent += n
	c.conn.spent += n
	return true
}

func (c *Credit) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}
