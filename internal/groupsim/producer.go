package groupsim

import (
	"slices"
	"time"

	"github.com/pillion/pillion/internal/groupmodel"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/session"
)

// producer is the transactional producer of one life, by the rules of package produce: one transaction at a
// time, shared by the units that wait.
type producer struct {
	s       *sidecar
	life    *life
	proc    int
	id      *transactional // at the coordinator
	state   producerState
	waiting []func(ready bool)
	epoch   int16
	next    map[*changelog]int // number of the next record under this epoch
	queue   []*unit
	busy    bool
	arrived time.Duration
}

type producerState uint8

const (
	cold producerState = iota
	starting
	ready
	over
)

// unit is one commit.
type unit struct {
	e       session.Transact
	p       *producer
	commit  int64
	epoch   uint32
	writes  []tableWrites
	since   time.Duration
	ended   bool // it was answered
	landed  map[string]session.Landed
	visible bool // its transaction was committed
	aborted bool // it was answered so
}

// transactionBudget is how long a transaction may work before its end begins.
const transactionBudget = transactionTimeout * 6 / 10

func (s *sidecar) producerOf(l *life) *producer {
	if p := s.producers[l]; p != nil {
		return p
	}
	p := &producer{s: s, life: l, proc: s.proc, next: map[*changelog]int{}}
	p.id = &transactional{life: l, epoch: -1, last: -1}
	s.w.kafka.producers[l] = p.id
	s.producers[l] = p
	return p
}

// alive: the process and the membership are those of the producer.
func (p *producer) alive() bool { return p.s.member.id.life == p.life && p.state != over }

// begin initialises the producer, once.
func (p *producer) begin(done func(ready bool)) {
	switch p.state {
	case ready, over:
		done(p.state == ready)
		return
	}
	p.waiting = append(p.waiting, done)
	if p.state == starting {
		return
	}
	p.state = starting
	p.init(-1, p.alive, func(code int16) {
		if p.state == starting {
			p.state = ready
		}
		if code != 0 {
			p.state = over
		}
		for _, done := range p.waiting {
			done(p.state == ready)
		}
		p.waiting = nil
	})
}

// transact takes a commit of the session.
func (s *sidecar) transact(e session.Transact) {
	u := &unit{e: e, since: s.w.now, landed: map[string]session.Landed{}}
	u.writes = decode(s.w, e.Writes)
	for _, tw := range u.writes {
		u.commit, u.epoch = tw.commit, tw.epoch
	}
	if t := s.member.owned[e.Task]; t == nil || !t.taken || t.parting {
		s.post(session.Transacted{Task: e.Task, Op: e.Op, Result: result(session.FencedOut)})
		return
	}
	p := s.producerOf(s.member.id.life)
	u.p = p
	s.units[unitKey{u.epoch, u.commit}] = u
	p.queue = append(p.queue, u)
	p.run()
}

type unitKey struct {
	epoch  uint32
	commit int64
}

// run makes the next transaction.
func (p *producer) run() {
	if p.busy {
		return
	}
	if !p.alive() || p.state != ready {
		for _, u := range p.queue {
			p.answer(u, result(session.FencedOut))
		}
		p.queue = nil
		return
	}
	units := p.queue[:0:0]
	for _, u := range p.queue {
		if p.s.w.now-u.since > deliveryTimeout {
			p.answer(u, session.Result{Outcome: session.Refused, Code: protocol.CodeKafkaUnreachable})
			continue
		}
		units = append(units, u)
	}
	if p.queue = nil; len(units) == 0 {
		return
	}
	p.busy = true
	(&attempt{p: p, units: units, since: p.s.w.now, guilty: map[*unit]session.Result{}}).begin()
}

// answer ends a unit.
//
// INVARIANT: committed means that all of it is visible, and aborted that nothing of it is or will be.
func (p *producer) answer(u *unit, r session.Result) {
	if u.ended {
		return
	}
	u.ended = true
	w := p.s.w
	switch r.Outcome {
	case session.OK:
		if !u.visible {
			w.fail("%s: commit %d is answered as committed, and it is not", u.e.Task, u.commit)
		}
		if t := p.s.member.owned[u.e.Task]; t != nil && t.taken && p.alive() {
			t.position, t.doubt = u.e.Next[u.e.Task.Set], false
		}
	case session.Unknown:
		w.tally.Unknown++
	default:
		w.tally.Aborted++
		if u.visible {
			w.fail("%s: commit %d is answered as aborted (%v), and it is committed", u.e.Task, u.commit, r)
		}
		u.aborted = r.Outcome != session.Rebalancing || u.aborted
	}
	ev := session.Transacted{Task: u.e.Task, Op: u.e.Op, Result: r}
	if r.Outcome == session.OK {
		ev.Landed = u.landed
	}
	p.s.post(ev)
}

// fenced: the incarnation is over.
func (p *producer) fenced() {
	if p.state == over {
		return
	}
	p.state = over
	p.s.w.tally.Fenced++
	if !p.id.fenced { // by a request of its own that came late, or as its end had not arrived
		p.s.w.tally.SelfFenced++
	}
	p.s.w.note("%s: its producer is fenced", p.life.name)
	if p.life == p.s.member.id.life {
		p.s.member.loseFenced()
	}
}

// init is InitProducerId, until it is answered.
func (p *producer) init(epoch int16, alive func() bool, done func(code int16)) {
	var given int16
	p.untilAnswer(func() (int16, any) { return p.s.w.kafka.initProducer(p.id, epoch, p.life) },
		func(answer any) { given, _ = answer.(int16) }, alive, func(code int16, _ bool) {
			if code == 0 {
				p.epoch = given
				clear(p.next)
			}
			done(code)
		})
}

// until asks the coordinator of transactions until it answers for good, or it is over (code -1). doubt: an
// attempt before has had no answer.
func (p *producer) until(do func() int16, alive func() bool, done func(code int16, doubt bool)) {
	p.untilAnswer(func() (int16, any) { return do(), nil }, func(any) {}, alive, done)
}

func (p *producer) untilAnswer(do func() (int16, any), take func(any), alive func() bool, done func(code int16, doubt bool)) {
	var try func(attempt int, doubt bool)
	try = func(attempt int, doubt bool) {
		if !alive() {
			done(-1, doubt)
			return
		}
		p.ask(do, func(code int16, answer any, ok bool) {
			doubt = doubt || !ok
			if ok && code != concurrent && code != groupmodel.NotCoordinator {
				take(answer)
				done(code, doubt)
				return
			}
			pause := min(50*time.Millisecond<<min(attempt, 5), time.Second)
			if ok && code == concurrent {
				pause = 10 * time.Millisecond << min(attempt/8, 5)
			}
			p.s.after(pause, func() { try(attempt+1, doubt) })
		})
	}
	try(0, false)
}

// ask sends one request to the coordinator of transactions. It may be lost, and so may be its answer; it may
// come late. What was sent lands, whatever becomes of the process.
func (p *producer) ask(do func() (int16, any), done func(code int16, answer any, ok bool)) {
	s, w, ended := p.s, p.s.w, false
	finish := func(code int16, answer any, ok bool) {
		if !ended {
			ended = true
			s.run(p.proc, func() { done(code, answer, ok) })
		}
	}
	lost := func() {
		w.after([]time.Duration{10 * time.Millisecond, shortLimit}[w.rng.IntN(2)], func() { finish(0, nil, false) })
	}
	if s.lossy() {
		lost()
		return
	}
	delay := w.between(0, 3*time.Millisecond)
	if w.chance(w.drops) { // what is given up goes its own way
		delay = w.between(0, 3*shortLimit)
		w.after(shortLimit, func() { finish(0, nil, false) })
	} else {
		p.arrived = max(p.arrived, w.now+delay)
		delay = p.arrived - w.now
	}
	w.after(delay, func() {
		code, answer := groupmodel.NotCoordinator, any(nil)
		if w.now >= w.kafka.txnAway {
			code, answer = do()
		}
		if s.lossy() || w.now < s.deaf {
			lost()
			return
		}
		w.after(w.between(0, 3*time.Millisecond), func() { finish(code, answer, true) })
	})
	s.inTransaction()
}

// answered looks at what the session tells the worker of a commit.
func (s *sidecar) answered(epoch uint32, commit int64, committed bool) {
	u := s.units[unitKey{epoch, commit}]
	if u == nil {
		return
	}
	if committed && !u.visible {
		s.w.fail("%s: commit %d is told to be committed, and it is not", u.e.Task, commit)
	}
	if !committed && u.visible {
		s.w.fail("%s: commit %d is told to be aborted, and it is committed", u.e.Task, commit)
	}
	u.aborted = u.aborted || !committed
}

// logsOf are the changelogs that units write to.
func (p *producer) logsOf(units []*unit) []*changelog {
	var logs []*changelog
	for _, u := range units {
		for _, tw := range u.writes {
			if l := p.s.w.kafka.tasks[u.e.Task].log(tw.table); !slices.Contains(logs, l) {
				logs = append(logs, l)
			}
		}
	}
	return logs
}
