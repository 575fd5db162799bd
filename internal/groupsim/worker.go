package groupsim

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/pillion/pillion/protocol"
	wire "github.com/pillion/pillion/protocol/frame"
	"github.com/pillion/pillion/session"
)

// worker is a process that keeps tables: it opens stores, applies frames, commits and releases.
type worker struct {
	p    *pair
	w    *World
	name string

	up       bool
	proc     int
	held     *held // it hangs
	sullen   int   // so many revokes it will not answer
	declares int
	inMemory bool // its stores end with it
	conn     *conn
	disk     map[storeKey]*store
	tasks    map[string]*wtask
	lastID   int64
	builder  *wire.Builder
}

type storeKey struct {
	id    session.TaskID
	table string
}

// store holds the rows of a table of a task.
type store struct {
	pos  int64
	rows map[int32]int64
	hash uint64
	log  *changelog
}

// wtask is a task that the worker has open.
type wtask struct {
	id          session.TaskID
	name        string
	epoch       uint32
	role        protocol.Role
	conn        *conn
	tables      []*wtable
	source      protocol.SourceStream
	have, next  int64 // delivered up to, processed up to
	outstanding []*wcommit
	ready       bool
	busy        bool
	failed      bool // a commit was not committed: the task will be opened anew
	revoke      int64
	over        bool
}

type wtable struct {
	protocol.TableStream
	store *store
}

type wcommit struct {
	id   int64
	rows []write
	next int64
}

func (wk *worker) begin() {
	wk.proc++
	wk.up, wk.held, wk.conn, wk.tasks = true, &held{}, nil, map[string]*wtask{}
	if wk.inMemory {
		wk.disk = map[storeKey]*store{}
	}
	if wk.builder == nil {
		wk.builder = wire.NewBuilder(wire.Writes)
	}
	wk.w.note("%s: starts", wk.name)
	wk.connect()
}

// kill ends the process; its socket is closed by the system.
func (wk *worker) kill() {
	if !wk.up {
		return
	}
	wk.w.note("%s: killed", wk.name)
	wk.proc++
	wk.up = false
	wk.hangUp()
}

// hangUp closes the socket from the worker's side.
func (wk *worker) hangUp() {
	c := wk.conn
	wk.conn, wk.tasks = nil, map[string]*wtask{}
	if c == nil || c.closed {
		return
	}
	proc := c.s.proc
	wk.w.after(wk.w.between(0, 20*time.Millisecond), func() {
		c.s.run(proc, func() {
			if !c.closed {
				c.closed, c.control, c.data = true, nil, nil
				clear(c.s.revokes)
				c.s.post(session.Disconnected{Conn: c.id})
			}
		})
	})
}

// after calls do in this process, later when it hangs.
func (wk *worker) after(d time.Duration, do func()) { wk.at(wk.w.now+d, do) }

func (wk *worker) at(t time.Duration, do func()) {
	proc := wk.proc
	wk.w.after(t-wk.w.now, func() { wk.run(proc, do) })
}

func (wk *worker) run(proc int, do func()) {
	if wk.proc == proc && wk.up && !wk.held.hold(wk.w, func() { wk.run(proc, do) }) {
		do()
	}
}

// connect tries until a sidecar is there.
func (wk *worker) connect() {
	if wk.p.gone || wk.conn != nil {
		return
	}
	s := wk.p.sidecar
	if !s.up || wk.w.now < s.held.until {
		wk.after(200*time.Millisecond, wk.connect)
		return
	}
	wk.w.conns++
	c := &conn{id: session.ConnID(wk.w.conns), s: s, wk: wk}
	wk.conn = c
	s.dialing = append(s.dialing, c)
	s.dialed = max(s.dialed, wk.w.now+wk.w.between(0, 5*time.Millisecond)) // they come in their order
	s.after(s.dialed-wk.w.now, func() {
		s.dialing = slices.DeleteFunc(s.dialing, func(o *conn) bool { return o == c })
		if c.closed {
			return
		}
		for _, old := range s.conns {
			old.drop(protocol.CloseSuperseded)
		}
		s.conns = map[session.ConnID]*conn{c.id: c}
		s.post(session.Connected{Conn: c.id, Hello: protocol.Hello{ID: 1, MaxFrame: 1 << 20, Group: "g", Level: protocol.LevelStandby}})
	})
}

// closed: the sidecar has closed the connection.
func (wk *worker) closed(c *conn, code int) {
	if wk.conn != c {
		return
	}
	wk.conn, wk.tasks = nil, map[string]*wtask{}
	wk.w.note("%s: its connection was closed with %d", wk.name, code)
	switch code {
	case protocol.CloseSuperseded:
		return
	case protocol.CloseRefused: // somebody takes the table out again
		wk.declares = 0
	}
	wk.after(wk.w.between(50*time.Millisecond, 500*time.Millisecond), wk.connect)
}

// reconnect makes a new connection while the old one stands.
func (wk *worker) reconnect() {
	wk.w.note("%s: connects again", wk.name)
	wk.hangUp()
	wk.connect()
}

// say sends a message to the sidecar.
func (wk *worker) say(msg protocol.Message) { wk.sayWith(msg, nil, nil) }

func (wk *worker) sayWith(msg protocol.Message, writes *protocol.Writes, t *wtask) {
	c := wk.conn
	if c == nil {
		return
	}
	c.say(func() {
		ev := session.Received{Conn: c.id, Message: msg, Writes: writes}
		switch m := msg.(type) {
		case protocol.Commit:
			if l := c.s.lanes[t.source.Stream]; l != nil && l.feed != nil {
				ev.Delivered = map[string]int64{t.source.Topic: l.feed.sent}
			} else {
				ev.Delivered = map[string]int64{t.source.Topic: t.have}
			}
		case protocol.Released:
			delete(c.s.revokes, m.Epoch)
		}
		c.s.post(ev)
	})
}

// credit gives a frame's room back.
func (wk *worker) credit(it item) {
	c := wk.conn
	c.say(func() {
		s := c.s
		if it.gate.credited != nil {
			it.gate.credited()
		}
		if s.w.now >= s.active+time.Second {
			s.active = s.w.now
			s.post(session.Active{Conn: c.id})
		}
	})
}

// encode makes the frames of a commit: one for each table.
func (wk *worker) encode(t *wtask, id int64, rows []write) *protocol.Writes {
	out := &protocol.Writes{ID: id}
	for _, tb := range t.tables {
		if tb.Kind != protocol.TableChangelog || len(rows) == 0 {
			continue
		}
		b := wk.builder
		b.Reset(tb.Stream, t.epoch, id)
		for i, r := range rows {
			var key [4]byte
			var value [8]byte
			binary.LittleEndian.PutUint32(key[:], uint32(r.key))
			binary.LittleEndian.PutUint64(value[:], uint64(r.value))
			b.Append(int64(i), 0, key[:], value[:], nil)
		}
		out.Frames = append(out.Frames, b.Finish(nil, 0, nil))
	}
	return out
}
