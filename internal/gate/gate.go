// Package gate is the door between the data path and the worker.
//
// Records and restore frames do not pass through the session. They pass a Gate, one for each task
// epoch and lane, that only the session opens and closes; and they spend Credit, one for each
// worker connection, that only the worker grants.
//
// Flow: a pump calls Gate.Send, which waits for an open gate and for credit, spends the credit and
// hands the frame to the connection's queue (Out) in one step. The queue's writer asks Live once
// more when it takes the frame out; it reports a frame that it sends (Written) and gives the credit
// back for one that it drops (Refund).
//
// Senders that wait are served in the order in which they came; one that waits for its own stream
// or gate does not hold up those behind it. A grant wakes only those that can go. Streams that give way
// (Yield: the copies of standbys) are served last, and fill a part of the connection's window only, so
// that records do not wait behind all that a copy can send.
//
// INVARIANT: after Close has returned, no frame enters the queue through this gate, and none that
// is queued is written after a message that was queued after Close.
// INVARIANT: spent bytes of a stream or connection pass their limit by at most one frame.
// INVARIANT: queued bytes of a connection pass the queue's limit by at most one frame, whatever the
// worker grants.
package gate

import (
	"container/list"
	"context"
	"errors"
	"fmt"
)

// ErrClosed is returned by Send when the epoch or the connection is over.
var ErrClosed = errors.New("gate closed")

// ErrUnknownStream is returned by Send when the stream was never opened, or is forgotten. It is an
// ErrClosed too.
var ErrUnknownStream = fmt.Errorf("stream is not open: %w", ErrClosed)

// Out is the queue of one worker connection. Enqueue never blocks, keeps the frame's bytes, and
// must not call the gate or its credit.
type Out interface {
	Enqueue(g *Gate, stream uint32, frame []byte)
}

// Gate lets the frames of one task epoch through. The zero value is not usable; see New.
type Gate struct {
	epoch  uint32
	credit *Credit

	// Guarded by credit.mu, so that the check and the enqueueing are one step.
	closed    bool
	paused    bool
	delivered int64
	records   int64
	point     [maxPoint]byte
	pointSize int
}

// New makes an open gate of an epoch on a connection's credit.
func New(epoch uint32, credit *Credit) *Gate {
	return &Gate{epoch: epoch, credit: credit}
}

// Epoch is the task epoch that the gate belongs to.
func (g *Gate) Epoch() uint32 { return g.epoch }

// Close shuts the gate for good. Senders that wait return ErrClosed.
func (g *Gate) Close() {
	c := g.credit
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.closed {
		return
	}
	g.closed = true
	c.fail(func(w *waiter) bool { return w.gate == g }, ErrClosed)
}

// Pause holds senders back until Resume. Frames already queued still go out.
func (g *Gate) Pause() {
	g.credit.mu.Lock()
	defer g.credit.mu.Unlock()
	g.paused = true
}

// Resume lets senders go on.
func (g *Gate) Resume() {
	g.credit.mu.Lock()
	defer g.credit.mu.Unlock()
	g.paused = false
	g.credit.admit()
}

// Live says whether the gate and its connection are open.
func (g *Gate) Live() bool {
	g.credit.mu.Lock()
	defer g.credit.mu.Unlock()
	return !g.closed && !g.credit.closed
}

// waiter is a Send that could not go at once. Its frame is queued by whoever makes room.
type waiter struct {
	gate   *Gate
	stream uint32
	frame  []byte
	done   chan error // buffered: nil when the frame was queued
	at     *list.Element
}

// Send waits until the gate is open and both the stream and the connection have credit, then queues
// the frame, which belongs to the queue from then on. Any positive credit permits a frame of any
// size. It returns ErrClosed when the epoch or the connection ends, or ctx's error; then the frame
// was not queued.
func (g *Gate) Send(ctx context.Context, stream uint32, frame []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w, err := g.try(stream, frame)
	if w == nil {
		return err
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return g.credit.abandon(w, ctx.Err())
	}
}

// try queues the frame when it may go at once; otherwise it returns the waiter.
func (g *Gate) try(stream uint32, frame []byte) (*waiter, error) {
	c := g.credit
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.closed || c.closed {
		return nil, ErrClosed
	}
	a := c.streams[stream]
	if a == nil {
		return nil, ErrUnknownStream
	}
	w := &waiter{gate: g, stream: stream, frame: frame}
	// Whoever still waits cannot go, or admit would have let him: only the own stream has an order
	// to keep.
	if a.waiting == 0 && c.open() && c.queue(w, a) {
		return nil, nil
	}
	a.waiting++
	w.done = make(chan error, 1)
	w.at = c.waiters.PushBack(w)
	return w, nil
}
