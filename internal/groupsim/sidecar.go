package groupsim

import (
	"fmt"
	"time"

	"github.com/pillion/pillion/internal/groupmodel"
	"github.com/pillion/pillion/session"
)

// pair is a sidecar and its worker.
type pair struct {
	w        *World
	name     string
	sidecar  *sidecar
	worker   *worker
	instance string // of a static member
	joined   int    // what the member that joined last has declared; -1: none has
	drained  bool   // it was told to
	gone     bool   // and has: neither comes back
}

func (w *World) addPair() *pair {
	p := &pair{w: w, name: fmt.Sprint(len(w.pairs)), joined: -1}
	if w.static {
		p.instance = "static-" + p.name
	}
	p.sidecar = &sidecar{p: p, w: w, name: "sidecar-" + p.name}
	p.worker = &worker{p: p, w: w, name: "worker-" + p.name, disk: map[storeKey]*store{}, inMemory: w.chance(0.25)}
	w.pairs = append(w.pairs, p)
	w.note("%s: a new pair", p.name)
	p.sidecar.begin()
	p.worker.begin()
	return p
}

// sidecar is one process: a session.Machine, a member, and the data path.
type sidecar struct {
	p    *pair
	w    *World
	name string

	up      bool
	proc    int           // callbacks of an earlier process do not count
	held    *held         // by SIGSTOP
	cut     time.Duration // from Kafka, until then
	trouble int           // of the next produces, so many end unknown; of the next transactions, so many have a guilty unit

	deaf       time.Duration // answers of the coordinator of transactions are lost, until then
	stops      int           // so many steps of transactions from here it stops, or dies
	stopsFor   time.Duration
	dies       bool
	stopsAtEnd bool

	machine   *session.Machine
	member    *member
	inbox     []session.Event
	turning   bool
	tick      time.Duration
	conns     map[session.ConnID]*conn
	dialing   []*conn       // the session has not heard of yet
	dialed    time.Duration // when the last of them arrives
	lanes     map[uint32]*lane
	revokes   map[uint32]bool  // by epoch: neither answered nor expired
	takes     map[uint32]int64 // by epoch: under which take-over
	producers map[*life]*producer
	units     map[unitKey]*unit
	active    time.Duration // when the session heard last that the worker lives
	arrived   time.Duration // of the last request at the coordinator: they keep their order
}

// begin starts the process.
func (s *sidecar) begin() {
	s.proc++
	s.up, s.held, s.inbox, s.turning, s.tick = true, &held{}, nil, false, 0
	m, err := session.NewMachine(s.w.machineConfig())
	if err != nil {
		s.w.fail("%v", err)
	}
	s.machine, s.member = m, newMember(s)
	s.dialing = nil
	s.conns, s.lanes = map[session.ConnID]*conn{}, map[uint32]*lane{}
	s.revokes, s.takes = map[uint32]bool{}, map[uint32]int64{}
	s.producers, s.units = map[*life]*producer{}, map[unitKey]*unit{}
	s.w.note("%s: starts as %s", s.name, s.member.id.life.name)
}

// kill ends the process without a word.
func (s *sidecar) kill() {
	if !s.up {
		return
	}
	s.w.note("%s: killed", s.name)
	s.end()
	s.member.id.life.over = true
}

func (s *sidecar) end() {
	s.proc++
	s.up = false
	for _, l := range s.lanes {
		l.stop()
	}
	for _, c := range s.conns {
		c.drop(0)
	}
	for _, c := range s.dialing {
		c.drop(0)
	}
}

// after calls do in this process, when it has not ended; a process that is stopped does it later.
func (s *sidecar) after(d time.Duration, do func()) {
	proc := s.proc
	s.w.after(d, func() { s.run(proc, do) })
}

func (s *sidecar) run(proc int, do func()) {
	if s.proc == proc && s.up && !s.held.hold(s.w, func() { s.run(proc, do) }) {
		do()
	}
}

// held is what a process has to do that does not run: later, in its order.
type held struct {
	until    time.Duration
	list     []func()
	waking   bool
	flushing bool
}

// hold keeps something for later, when the process does not run.
func (h *held) hold(w *World, do func()) bool {
	if h.flushing || w.now >= h.until && len(h.list) == 0 {
		return false
	}
	h.list = append(h.list, do)
	h.wake(w)
	return true
}

func (h *held) wake(w *World) {
	if h.waking {
		return
	}
	h.waking = true
	w.after(h.until-w.now, func() {
		h.waking = false
		for len(h.list) > 0 && w.now >= h.until {
			do := h.list[0]
			h.list = h.list[1:]
			h.flushing = true
			do()
			h.flushing = false
		}
		if len(h.list) > 0 {
			h.wake(w)
		}
	})
}

// post hands an event to the session.
func (s *sidecar) post(ev session.Event) {
	s.inbox = append(s.inbox, ev)
	if !s.turning {
		s.turning = true
		s.after(s.w.between(0, 2*time.Millisecond), s.turn)
	}
}

// turn is the session's loop.
func (s *sidecar) turn() {
	for len(s.inbox) > 0 && s.up {
		ev := s.inbox[0]
		s.inbox = s.inbox[1:]
		s.step(ev)
	}
	s.turning = false
}

func (s *sidecar) step(ev session.Event) {
	if s.w.opt.Record {
		s.w.note("%s: > %s", s.name, say(ev))
	}
	effects, err := s.machine.Step(s.w.clock(), s.informed(ev))
	if err != nil {
		s.w.fail("%s: the session refuses %T: %v", s.name, ev, err)
	}
	for _, e := range effects {
		if s.w.opt.Record {
			if _, ok := e.(session.Log); !ok {
				s.w.note("%s:   < %s", s.name, say(e))
			}
		}
		s.effect(e)
	}
	if s.up {
		s.arm()
	}
}

// informed adds what the data path knows.
func (s *sidecar) informed(ev session.Event) session.Event {
	assigned, ok := ev.(session.Assigned)
	if !ok {
		return ev
	}
	assigned.Uncommitted = map[session.TaskID]bool{}
	for _, l := range s.lanes {
		if l.feed != nil && l.feed.sent > s.committed(l.feed.t.id) {
			assigned.Uncommitted[l.feed.t.id] = true
		}
	}
	return assigned
}

// arm looks at the clock when the session wants to.
func (s *sidecar) arm() {
	at := s.machine.Deadline()
	if at.IsZero() {
		return
	}
	due := max(at.Sub(s.w.start), s.w.now)
	if s.tick > s.w.now && s.tick <= due {
		return
	}
	s.tick = due
	s.after(due-s.w.now, func() {
		if s.tick != due {
			return
		}
		s.tick = 0
		if at := s.machine.Deadline(); !at.IsZero() && !s.w.clock().Before(at) {
			s.step(session.Tick{Owes: s.owes()})
		} else {
			s.arm()
		}
	})
}

// toCoordinator sends a request of the member. It may be lost, and so may be its answer; it may come late,
// when it has been given up already.
func (s *sidecar) toCoordinator(req groupmodel.Request, within time.Duration, done func(groupmodel.Answer, bool)) {
	w, proc, over := s.w, s.proc, false
	finish := func(a groupmodel.Answer, ok bool) {
		if !over {
			over = true
			s.run(proc, func() { done(a, ok) })
		}
	}
	lost := func() {
		wait := 10 * time.Millisecond
		if w.chance(0.5) {
			wait = within
		}
		w.after(wait, func() { finish(groupmodel.Answer{}, false) })
	}
	switch req.(type) {
	case groupmodel.JoinGroup, groupmodel.SyncGroup:
		w.after(within, func() { finish(groupmodel.Answer{}, false) })
	}
	if s.lossy() {
		lost()
		return
	}
	node := s.member.node
	arrive := func() {
		w.kafka.arrive(node, req, func(a groupmodel.Answer) {
			if s.lossy() {
				lost()
				return
			}
			w.after(w.between(0, 3*time.Millisecond), func() { finish(a, true) })
		})
	}
	delay, late := w.between(0, 3*time.Millisecond), w.chance(w.drops)
	if late {
		delay = w.between(0, 2*within)
		w.after(within, func() { finish(groupmodel.Answer{}, false) })
	}
	if late && ownWay(w, req) {
		delay = w.between(0, 2*max(within, 2*shortLimit))
	} else {
		s.arrived = max(s.arrived, w.now+delay)
		delay = s.arrived - w.now
	}
	if node != 0 {
		w.after(delay, arrive)
		return
	}
	member := s.member
	w.after(delay, func() { // it is looked for first
		if w.now < w.kafka.away {
			finish(groupmodel.Answer{}, false)
			return
		}
		node = w.kafka.group.Node()
		member.node = node
		arrive()
	})
}

// ownWay: what is given up may be overtaken by what is sent after it. Without transactions that is in doubt
// anyway.
func ownWay(w *World, req groupmodel.Request) bool {
	switch req.(type) {
	case groupmodel.OffsetCommit, txnOffsets:
		return w.exact
	}
	return false
}

// lossy: this message is lost.
func (s *sidecar) lossy() bool { return s.w.now < s.cut || s.w.chance(s.w.drops/2) }

// toLeader is a request to a partition's leader.
func (s *sidecar) toLeader(done func(ok bool)) {
	ok := !s.lossy()
	s.after(s.w.between(0, 5*time.Millisecond), func() { done(ok) })
}
