package gate

import (
	"container/list"
	"math"
	"sync"
)

// Credit counts what the sidecar has sent on one worker connection against what the worker granted.
// Limits are cumulative byte counts since the start of the connection or stream, so that a repeated
// or reordered grant cannot leak.
type Credit struct {
	out Out

	mu        sync.Mutex
	closed    bool
	conn      account
	streams   map[uint32]*account
	initial   int64     // limit of a new stream
	queued    int64     // bytes handed to out and neither written nor refunded
	maxQueued int64     // our own bound, which the worker cannot raise
	waiters   list.List // of *waiter, oldest first
	window    int64     // first limit of the connection
	yielding  int64     // bytes of streams that give way, sent and not granted anew
}

type account struct {
	spent, limit int64
	window       int64 // first limit
	waiting      int
	yields       bool // gives way to streams that do not
}

func (a *account) open() bool { return a.spent < a.limit }

// owed is what was sent and not granted anew.
func (a *account) owed() int64 { return max(0, a.spent-(a.limit-a.window)) }

// yieldingShare is the part of the connection's window that all streams which give way may use together:
// what the worker has to take before a frame that others wait for.
const yieldingShare = 4

// Yield makes a stream give way to those that do not: it goes after them, and only while little of its
// kind is on its way. With false it is one of them again.
func (c *Credit) Yield(stream uint32, yields bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.streams[stream]
	if a == nil || a.yields == yields {
		return
	}
	if a.yields = yields; yields {
		c.yielding += a.owed()
		return
	}
	c.yielding -= a.owed()
	c.admit()
}

// change keeps count of what yielding streams owe.
func (c *Credit) change(a *account, change func()) {
	before := a.owed()
	change()
	if a.yields {
		c.yielding += a.owed() - before
	}
}

// mayYield says whether a stream may send that gives way. Any room permits one frame.
func (c *Credit) mayYield() bool { return c.yielding < max(1, c.window/yieldingShare) }

// NewCredit makes the ledger of a connection whose queue is out. The limits are those of hello.
func NewCredit(out Out, connection, stream int64) *Credit {
	return &Credit{
		out:       out,
		conn:      account{limit: connection},
		window:    connection,
		streams:   map[uint32]*account{},
		initial:   stream,
		maxQueued: math.MaxInt64,
	}
}

// LimitQueue bounds the bytes in the queue by bytes and one frame, however much the worker grants.
// Whoever sets it calls Written for each frame that leaves the queue.
func (c *Credit) LimitQueue(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.maxQueued = bytes
	c.admit()
}

// Grant raises limits. A limit lower than the present one is ignored.
func (c *Credit) Grant(connection int64, streams map[uint32]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn.limit = max(c.conn.limit, connection)
	for id, limit := range streams {
		if a, ok := c.streams[id]; ok {
			c.change(a, func() { a.limit = max(a.limit, limit) })
		}
	}
	c.admit()
}

// Open registers a stream; Forget removes it when its epoch is over. Grants for unknown streams are
// ignored: they are late.
func (c *Credit) Open(stream uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams[stream] == nil {
		c.streams[stream] = &account{limit: c.initial, window: c.initial}
	}
}

// Forget drops a stream's account. Senders that wait on it return ErrUnknownStream.
func (c *Credit) Forget(stream uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.streams[stream]
	if a == nil {
		return
	}
	if a.yields {
		c.yielding -= a.owed()
		defer c.admit()
	}
	c.fail(func(w *waiter) bool { return w.stream == stream }, ErrUnknownStream)
	delete(c.streams, stream)
}

// Written says that a queued frame of n bytes has left the queue towards the worker.
func (c *Credit) Written(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	full := c.queued >= c.maxQueued
	c.queued -= n
	if full {
		c.admit()
	}
}

// Refund gives back the bytes of a queued frame that was dropped unsent.
func (c *Credit) Refund(stream uint32, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queued -= n
	c.conn.spent -= n
	if a := c.streams[stream]; a != nil {
		c.change(a, func() { a.spent -= n })
	}
	c.admit()
}

// Close ends every gate of the connection.
func (c *Credit) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.fail(func(*waiter) bool { return true }, ErrClosed)
}

// Outstanding is how many bytes were sent and not yet granted anew, against the connection's first
// window: more than zero means that the worker still owes credit.
func (c *Credit) Outstanding(window int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(0, c.conn.spent-(c.conn.limit-window))
}

// open says whether the connection as a whole can take a frame.
func (c *Credit) open() bool { return c.conn.open() && c.queued < c.maxQueued }

// queue spends credit and hands the frame over, or says that it has to wait for its gate or stream.
func (c *Credit) queue(w *waiter, a *account) bool {
	if w.gate.paused || !a.open() || a.yields && !c.mayYield() {
		return false
	}
	n := int64(len(w.frame))
	c.change(a, func() { a.spent += n })
	c.conn.spent += n
	c.queued += n
	w.gate.noteDelivered(w.frame)
	c.out.Enqueue(w.gate, w.stream, w.frame)
	return true
}

// admit lets go whoever can, oldest first, those who give way last. It runs after every change that
// makes room.
func (c *Credit) admit() {
	if c.closed {
		return
	}
	for _, yields := range []bool{false, true} {
		for e := c.waiters.Front(); e != nil && c.open(); {
			w := e.Value.(*waiter)
			e = e.Next()
			if a := c.streams[w.stream]; a.yields == yields && c.queue(w, a) {
				c.release(w, nil)
			}
		}
	}
}

// fail ends those who wait and match.
func (c *Credit) fail(match func(*waiter) bool, err error) {
	for e := c.waiters.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		if match(w) {
			c.release(w, err)
		}
	}
}

func (c *Credit) release(w *waiter, err error) {
	c.waiters.Remove(w.at)
	w.at = nil
	w.frame = nil
	c.streams[w.stream].waiting--
	w.done <- err
}

// abandon takes back a waiter whose context has ended, unless it was answered meanwhile.
func (c *Credit) abandon(w *waiter, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.at == nil {
		return <-w.done
	}
	c.release(w, err)
	return err
}
