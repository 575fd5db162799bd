package groupsim

import (
	"strconv"
	"time"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/session"
)

// conn is one connection of a worker. Control overtakes data that is not on the wire yet.
type conn struct {
	id      session.ConnID
	s       *sidecar
	wk      *worker
	closed  bool
	control []protocol.Message
	data    []item
	pumping bool
	down    time.Duration // when the last message arrives at the worker
	up      time.Duration // and at the sidecar
}

// item of the data queue: a frame or a message.
type item struct {
	gate    *gate
	message protocol.Message
	frame   *frame
}

// frame of records or of rows. Its rows are those of the log.
type frame struct {
	stream, epoch uint32
	records       bool
	base, next    int64
	log           *changelog
	feed          *feeder
}

// gate is open for the frames of one replay or feed. When it is paused, what is queued still goes out.
type gate struct {
	closed, paused bool
	inflight       int // frames that the worker has not taken yet
	sent           int // of them, those on the wire
	credited       func()
}

// lane is a stream of a living epoch.
type lane struct {
	s             *sidecar
	c             *conn
	stream, epoch uint32
	gate          *gate
	marks         []*gate // of messages in the stream that may be taken back
	replay        *replay
	place         int64 // of a table that is replayed no more
	feed          *feeder
}

// handOver ends the replay without the frames that are queued, and says where it is.
func (l *lane) handOver() int64 {
	if l.replay != nil {
		l.place = l.replay.pos
	}
	l.stop()
	return l.place
}

// unsay takes the newest message back, if it is not on the wire.
func (l *lane) unsay() {
	if l != nil && len(l.marks) > 0 {
		l.marks[len(l.marks)-1].closed = true
		l.marks = l.marks[:len(l.marks)-1]
	}
}

func (l *lane) close() {
	if l == nil {
		return
	}
	l.gate.closed = true
	for len(l.marks) > 0 {
		l.unsay()
	}
	l.stop()
}

func (l *lane) stop() {
	if l.replay != nil {
		l.replay.stop()
	}
	if l.feed != nil {
		l.feed.over = true
	}
	l.replay, l.feed = nil, nil
}

// pump puts what is queued on the wire.
func (c *conn) pump() {
	if c.pumping || c.closed {
		return
	}
	c.pumping = true
	c.s.after(c.s.w.between(0, 2*time.Millisecond), func() {
		c.pumping = false
		for _, msg := range c.control {
			c.wire(item{message: msg})
		}
		c.control = nil
		for n := 0; n < 2; n++ {
			it, ok := c.take()
			if !ok {
				return
			}
			if it.frame != nil {
				it.gate.sent++
				if it.frame.feed != nil {
					it.frame.feed.sent = it.frame.next
				}
			}
			c.wire(it)
		}
		c.pump()
	})
}

// take is the next item whose gate is not closed.
func (c *conn) take() (item, bool) {
	for len(c.data) > 0 {
		it := c.data[0]
		c.data = c.data[1:]
		if !it.gate.closed {
			return it, true
		}
	}
	return item{}, false
}

func (c *conn) wire(it item) {
	w := c.s.w
	c.down = max(c.down, w.now+w.between(0, 2*time.Millisecond))
	c.wk.at(c.down, func() {
		if c.wk.conn == c {
			c.wk.receive(it)
		}
	})
}

// say is a message of the worker on its way to the sidecar.
func (c *conn) say(do func()) {
	w := c.s.w
	c.up = max(c.up, w.now+w.between(0, 2*time.Millisecond))
	proc := c.s.proc
	w.after(c.up-w.now, func() {
		c.s.run(proc, func() {
			if !c.closed {
				do()
			}
		})
	})
}

// drop ends the connection from the sidecar's side. What is queued before a close still goes out.
func (c *conn) drop(code int) {
	if c.closed {
		return
	}
	for _, msg := range c.control {
		c.wire(item{message: msg})
	}
	c.closed, c.control, c.data = true, nil, nil
	for epoch := range c.s.revokes {
		delete(c.s.revokes, epoch)
	}
	w := c.s.w
	c.down = max(c.down, w.now+w.between(0, 5*time.Millisecond))
	c.wk.at(c.down, func() { c.wk.closed(c, code) })
}

// feeder sends source records.
type feeder struct {
	l          *lane
	t          *truth
	stream     uint32
	next, sent int64
	over       bool
	waking     bool
}

func (s *sidecar) startFeed(e session.StartFeed) {
	l := s.lanes[e.Source.Stream]
	if l == nil {
		return
	}
	t := s.w.kafka.tasks[e.Task]
	l.gate.paused = e.Paused
	l.feed = &feeder{l: l, t: t, stream: e.Source.Stream, next: e.Source.Position, sent: e.Source.Position}
	t.feeders = append(t.feeders, l.feed)
	l.feed.wake()
}

func (f *feeder) wake() {
	if f.waking || f.over || f.l.gate.paused || f.next >= f.t.end || f.l.gate.inflight >= 2 {
		return
	}
	f.waking = true
	f.l.s.after(f.l.s.w.between(0, 10*time.Millisecond), func() {
		f.waking = false
		w := f.l.s.w
		if f.over || f.l.gate.closed || f.l.gate.paused || f.next >= f.t.end {
			return
		}
		if w.now < f.l.s.cut {
			f.waking = true
			f.l.s.after(100*time.Millisecond, func() { f.waking = false; f.wake() })
			return
		}
		next := min(f.t.end, f.next+1+int64(w.rng.IntN(6)))
		f.l.queue(&frame{stream: f.stream, epoch: f.l.epoch, records: true, base: f.next, next: next, feed: f})
		f.next = next
		f.wake()
	})
}

func (l *lane) queue(f *frame) {
	l.gate.inflight++
	l.c.data = append(l.c.data, item{gate: l.gate, frame: f})
	l.c.pump()
}

// newGate gives a lane an open gate.
func (l *lane) newGate() {
	g := &gate{}
	g.credited = func() {
		g.sent--
		if g.inflight--; l.gate != g {
			return
		}
		if l.feed != nil {
			l.feed.wake()
		}
		if l.replay != nil {
			l.replay.wake()
		}
	}
	l.gate = g
}

func checkpoint(at int64) string { return strconv.FormatInt(at, 10) }

func position(checkpoint string) int64 {
	if checkpoint == "" {
		return 0
	}
	at, err := strconv.ParseInt(checkpoint, 10, 64)
	if err != nil {
		panic(broken{"a checkpoint that nobody gave: " + checkpoint})
	}
	return at
}
