package groupsim

import (
	"time"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/session"
)

// runs: the process may ask; an end that was begun is brought to its answer, whatever the group says.
func (a *attempt) runs() bool { return true }

// commit ends the transaction. A unit that waits too long for the answer is unknown until there is one.
func (a *attempt) commit() {
	p, k := a.p, a.p.s.w.kafka
	began, epoch := p.s.w.now, p.epoch
	var doubtful []*unit
	p.s.after(p.s.w.endLimit, func() {
		for _, u := range a.units {
			if !u.ended {
				doubtful = append(doubtful, u)
				u.ended = true
				p.s.w.tally.Unknown++
				r := session.Result{Outcome: session.Unknown, Code: protocol.CodeKafkaUnreachable}
				p.s.post(session.Transacted{Task: u.e.Task, Op: u.e.Op, Result: r, InDoubt: true})
			}
		}
	})
	over := func() {
		for _, u := range doubtful {
			p.s.post(session.ProduceEnded{Op: u.e.Op})
		}
		a.done()
	}
	patient := func() bool { return !p.s.w.renews || p.s.w.now-began < 3*time.Second }
	p.until(func() int16 { return k.endTxn(p.id, epoch, true) }, patient, func(code int16, doubt bool) {
		unknown := session.Result{Outcome: session.Unknown, Code: protocol.CodeInternal}
		switch {
		case code == 0:
			// INVARIANT: who was told that a commit is committed may release its task: nothing of the
			// transaction may come behind that, positions with an open claim least of all.
			committed := func() {
				a.endAll(session.Result{})
				over()
			}
			if p.s.w.opt.Mutant == AnswersFirst {
				a.endAll(session.Result{})
			}
			a.settle(doubt, committed)
		case code == -1: // it is ended by a new epoch; how, only Kafka knows
			a.renew(func() {
				a.endAll(unknown)
				over()
			})
		case doubt && p.s.w.opt.Mutant != FencedIsAborted:
			p.fenced()
			a.endAll(unknown)
			over()
		default:
			p.fenced()
			a.endAll(result(session.FencedOut))
			over()
		}
	})
	p.s.atEnd()
}

func (a *attempt) endAll(r session.Result) {
	for _, u := range a.units {
		a.p.answer(u, r)
	}
}

// abort ends the transaction; what is not guilty is tried again.
func (a *attempt) abort() {
	p, k := a.p, a.p.s.w.kafka
	if !p.alive() && p.state != over { // the membership is over, and nobody waits for it
		a.endAll(result(session.FencedOut))
	}
	epoch := p.epoch
	if !a.open {
		a.again()
		return
	}
	p.until(func() int16 { return k.endTxn(p.id, epoch, false) }, a.runs, func(code int16, doubt bool) {
		if code == producerFenced || code == oldEpoch {
			a.fenced()
			return
		}
		a.settle(doubt, a.again)
	})
}

// settle makes sure that nothing of the transaction that may be under way yet has an effect after it.
func (a *attempt) settle(doubt bool, then func()) {
	if (a.dirty || doubt) && a.p.s.w.opt.Mutant != StaleWrites {
		a.renew(then)
		return
	}
	then()
}

// renew takes the next epoch, so that nothing of the former one lands.
func (a *attempt) renew(then func()) {
	a.p.init(a.p.epoch, a.runs, func(code int16) {
		if code != 0 {
			a.p.fenced()
		}
		then()
	})
}

// fenced: nothing of it was committed, and nobody can do it any more.
func (a *attempt) fenced() {
	p := a.p
	if p.s.w.opt.Mutant == TakesItBack && p.alive() {
		p.init(-1, a.runs, func(int16) { a.again() })
		return
	}
	p.fenced()
	a.endAll(result(session.FencedOut))
	a.done()
}

// again puts the units back that are not to blame.
func (a *attempt) again() {
	var units []*unit
	for _, u := range a.units {
		if !u.ended {
			clear(u.landed)
			units = append(units, u)
		}
	}
	a.p.queue = append(units, a.p.queue...)
	a.done()
}

func (a *attempt) done() {
	a.p.busy = false
	if len(a.p.queue) > 0 {
		a.p.s.after(5*time.Millisecond, a.p.run)
	}
}
