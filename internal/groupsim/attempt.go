package groupsim

import (
	"slices"
	"time"

	"github.com/pillion/pillion/internal/groupmodel"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/session"
)

// attempt is one transaction of a producer, in this order: the partitions are added, all is written, the
// positions are sent, it is ended.
type attempt struct {
	p      *producer
	units  []*unit
	since  time.Duration
	open   bool // the coordinator may have it
	dirty  bool // a write may land yet: the epoch must change after it
	failed bool
	left   int // changelogs that are being written to
	guilty map[*unit]session.Result
}

// late: it comes near the transaction's timeout.
func (a *attempt) late() bool { return a.p.s.w.now-a.since > transactionBudget }

func (a *attempt) works() bool { return a.p.alive() && !a.late() }

// begin is AddPartitionsToTxn. While the markers of the transaction before are awaited, time does not count.
func (a *attempt) begin() {
	p, k := a.p, a.p.s.w.kafka
	logs := p.logsOf(a.units)
	epoch := p.epoch
	waits := func() bool {
		return p.alive() && (!a.late() || !a.open && p.s.w.now-a.units[0].since <= deliveryTimeout)
	}
	p.until(func() int16 {
		code := k.addToTxn(p.id, epoch, logs)
		a.open = a.open || code == 0
		return code
	}, waits, func(code int16, doubt bool) {
		a.open, a.dirty = a.open || doubt, a.dirty || doubt
		switch {
		case code == 0:
			a.since = p.s.w.now
			if p.s.w.opt.Mutant == OffsetsFirst {
				a.positions(0, a.write)
				return
			}
			a.write()
		case code == producerFenced || code == oldEpoch:
			a.fenced()
		default:
			a.abort()
		}
	})
}

// accuse refuses a batch now and then.
func (a *attempt) accuse(u *unit) bool {
	s := a.p.s
	if s.trouble == 0 || s.w.chance(0.5) {
		return false
	}
	s.trouble--
	s.w.note("%s: commit %d of %s is refused", s.name, u.commit, u.e.Task)
	a.blame(u, session.Result{Outcome: session.Refused, Code: protocol.CodeRecordTooLarge})
	return true
}

// blame ends a unit; the others are tried again without it.
func (a *attempt) blame(u *unit, r session.Result) {
	a.failed = true
	a.guilty[u] = r
	a.p.answer(u, r)
}

// batch is what a unit writes to one changelog.
type batch struct {
	u  *unit
	tw *tableWrites
}

// write sends all batches, to all changelogs at once, and in each one after the other.
func (a *attempt) write() {
	logs := a.p.logsOf(a.units)
	if a.left = len(logs); a.left == 0 {
		a.written()
	}
	for _, l := range logs {
		var list []batch
		for _, u := range a.units {
			for i := range u.writes {
				if a.p.s.w.kafka.tasks[u.e.Task].log(u.writes[i].table) == l {
					list = append(list, batch{u: u, tw: &u.writes[i]})
				}
			}
		}
		a.deliver(l, list, 0)
	}
}

// deliver repeats a batch with the same numbers until it is acknowledged.
func (a *attempt) deliver(l *changelog, list []batch, try int) {
	if len(list) == 0 || a.failed || !a.works() {
		a.failed = a.failed || !a.works()
		if a.left--; a.left == 0 {
			a.written()
		}
		return
	}
	p, b := a.p, list[0]
	if try == 0 && a.accuse(b.u) {
		a.deliver(l, nil, 0)
		return
	}
	number := p.next[l]
	a.produce(l, b, number, func(code int16, base int64, ok bool) {
		switch {
		case !ok:
			a.dirty = true
			p.s.after(min(50*time.Millisecond<<min(try, 4), time.Second), func() { a.deliver(l, list, try+1) })
		case code != 0:
			a.dirty, a.failed = true, true
			a.deliver(l, nil, 0)
		default:
			p.next[l] = number + len(b.tw.rows)
			next := base + int64(len(b.tw.rows))
			b.u.landed[b.tw.table] = session.Landed{Checkpoint: checkpoint(next), Next: next}
			if a.foreign(l, b.tw.head, base) {
				a.blame(b.u, session.Result{Outcome: session.Refused, Code: protocol.CodeForeignWrite})
			}
			a.deliver(l, list[1:], 0)
		}
	})
}

// foreign looks into what is between the place where a batch had to land and the one where it did: records of
// others that read_committed shows.
func (a *attempt) foreign(l *changelog, head, base int64) bool {
	if a.p.s.w.opt.Mutant == MarkersAreForeign {
		return head != base
	}
	return base < head || slices.ContainsFunc(l.recs[head:base], func(r rec) bool {
		return !r.marker && (r.txn == nil || r.txn.state != aborting) && r.by != a.p.life
	})
}

// produce is one request to a leader. It may come late, behind others that were sent after it.
func (a *attempt) produce(l *changelog, b batch, number int, done func(code int16, base int64, ok bool)) {
	p, s, w, ended := a.p, a.p.s, a.p.s.w, false
	epoch, rows := p.epoch, b.tw.rows
	finish := func(code int16, base int64, ok bool) {
		if !ended {
			ended = true
			s.run(p.proc, func() { done(code, base, ok) })
		}
	}
	away := max(w.kafka.leadersAway-w.now, 0)
	if s.lossy() || away > 0 && w.chance(0.3) {
		w.after([]time.Duration{10 * time.Millisecond, shortLimit}[w.rng.IntN(2)], func() { finish(0, 0, false) })
		return
	}
	delay := away + w.between(time.Millisecond, 15*time.Millisecond)
	if away > 0 || w.chance(w.drops) {
		delay = away + w.between(0, 3*shortLimit)
	}
	w.after(shortLimit, func() { finish(0, 0, false) })
	w.after(delay, func() {
		code, base := w.kafka.land(l, p.id, epoch, number, rows)
		if s.lossy() {
			return
		}
		w.after(w.between(0, 3*time.Millisecond), func() { finish(code, base, true) })
	})
	s.inTransaction()
}

// written: all is acknowledged, or it has failed.
func (a *attempt) written() {
	switch {
	case a.failed || !a.works():
		a.abort()
	case a.p.s.w.opt.Mutant == OffsetsFirst:
		a.commit()
	default:
		a.positions(0, a.commit)
	}
}

// positions are sent directly before the end: who is no member any more, or has another generation, is
// refused.
func (a *attempt) positions(i int, then func()) {
	switch {
	case a.failed || !a.works():
		a.abort()
		return
	case i == len(a.units):
		then()
		return
	}
	p, u := a.p, a.units[i]
	req, outcome := p.s.member.transactional(u, p.life)
	if outcome != session.OK {
		a.blame(u, result(outcome))
		a.abort()
		return
	}
	p.s.inTransaction()
	a.sendPositions(txnOffsets{p.id, p.epoch, u, req}, 0, func(code int16) {
		switch code {
		case groupmodel.OK:
			a.positions(i+1, then)
			return
		case groupmodel.IllegalGeneration, groupmodel.Rebalancing:
			p.s.member.hurry()
			a.blame(u, result(session.Rebalancing))
		case groupmodel.UnknownMember, groupmodel.FencedInstance:
			p.s.member.hurry()
			a.blame(u, result(session.FencedOut))
		default: // of the producer: the coordinator says what that is when it is aborted
			a.failed, a.dirty = true, true
		}
		a.abort()
	})
}

func (a *attempt) sendPositions(req txnOffsets, try int, done func(code int16)) {
	p := a.p
	p.s.toCoordinator(req, shortLimit, func(r groupmodel.Answer, ok bool) {
		if ok && r.Code != groupmodel.CoordinatorLoading && r.Code != groupmodel.CoordinatorAway && r.Code != groupmodel.NotCoordinator {
			done(r.Code)
			return
		}
		p.s.member.node = 0
		a.dirty = a.dirty || !ok && p.s.w.opt.Mutant != LatePositions
		if !a.works() {
			a.dirty = true
			done(invalidState)
			return
		}
		p.s.after(min(50*time.Millisecond<<min(try, 4), time.Second), func() { a.sendPositions(req, try+1, done) })
	})
}
