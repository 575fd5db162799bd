package groupsim

import (
	"time"

	"github.com/pillion/pillion/internal/groupmodel"
	"github.com/pillion/pillion/session"
)

// What a membership does under exactly_once beside all else.

// transactional is what a transaction commits for a task as of now. Between the answer to a JoinGroup and
// its sync that is under the generation of the answer: the coordinator has left the one before.
func (m *member) transactional(u *unit, l *life) (groupmodel.TxnOffsetCommit, session.Outcome) {
	t := m.owned[u.e.Task]
	if t == nil || !t.taken || t.parting || m.id.life != l || m.id.generation < 0 {
		return groupmodel.TxnOffsetCommit{}, session.FencedOut
	}
	truth := m.w.kafka.tasks[u.e.Task]
	t.doubt = true
	c := claim{by: l, takeOver: t.takeOver, tables: t.tables}
	return groupmodel.TxnOffsetCommit{
		Transaction: l.name, Member: m.id.member, Instance: m.s.p.instance, Generation: max(m.id.generation, m.joinedIn),
		Offsets: map[groupmodel.Partition]groupmodel.Offset{truth.source: {At: u.e.Next[truth.source.Topic], Metadata: c.text()}},
	}, session.OK
}

// loseFenced: the producer of this incarnation is fenced. The member id is kept; the next JoinGroup claims
// nothing.
func (m *member) loseFenced() {
	m.busy = false
	m.turn++
	m.lose("the producer is fenced", false)
}

// fence ends the transactions of a task's former owner, when it has not let go.
func (m *member) fence(c claim, who identity, then func(session.Outcome)) {
	if !m.w.exact || c.by == nil || c.by == who.life || c.released || m.w.opt.Mutant == NoFence {
		then(session.OK)
		return
	}
	p, k := m.s.producerOf(who.life), m.w.kafka
	of := k.producers[c.by]
	p.until(func() int16 {
		code, _ := k.initProducer(of, -1, who.life)
		return code
	}, func() bool { return m.id.life == who.life }, func(code int16, _ bool) {
		if code != 0 {
			then(session.FencedOut)
			return
		}
		then(session.OK)
	})
}

// stablePosition is where a task stands when no transaction can change that any more.
func (m *member) stablePosition(t *truth, alive func() bool, done func(session.Outcome, int64)) {
	m.repeat(0, func() (groupmodel.Request, bool) {
		return groupmodel.OffsetFetch{Partitions: []groupmodel.Partition{t.source}, Stable: true}, alive()
	}, func(o session.Outcome, a groupmodel.Answer) { done(o, max(a.Offsets[t.source].At, 0)) })
}

// releaseStable writes a release at the position that is committed, which is not known here.
func (m *member) releaseStable(id session.TaskID, done func(session.Outcome)) {
	t, l := m.owned[id], m.id.life
	mine := func() bool { return m.owned[id] == t && m.id.life == l }
	m.stablePosition(m.w.kafka.tasks[id], mine, func(o session.Outcome, at int64) {
		switch {
		case o != session.OK:
			done(o)
		case !mine():
			done(session.FencedOut)
		default:
			m.write(id, at, true, done)
		}
	})
}

// partWith releases a task whose claim may be in Kafka although its take-over has failed, and lets it go only then.
//
// INVARIANT: nobody finds an unreleased claim of a member that goes on: it would be fenced.
func (m *member) partWith(id session.TaskID) {
	t := m.owned[id]
	if t.parting {
		return
	}
	t.parting = true
	m.part(id, t)
}

func (m *member) part(id session.TaskID, t *owned) {
	if m.owned[id] != t {
		return
	}
	if m.renews(id, m.id) { // a claim that comes late would undo the release
		m.s.after(100*time.Millisecond, func() { m.part(id, t) })
		return
	}
	m.releaseStable(id, func(o session.Outcome) {
		if m.owned[id] != t {
			return
		}
		if o == session.Rebalancing {
			m.s.after(100*time.Millisecond, func() { m.part(id, t) })
			return
		}
		delete(m.owned, id)
		if m.follow == never {
			m.follow = m.w.now
		}
		m.wake()
	})
}

// unanswered notes that a plain commit of this generation may lie somewhere, and be taken after a later one.
func (m *member) unanswered(req groupmodel.Request) {
	commit, ok := req.(groupmodel.OffsetCommit)
	if !ok || !m.w.exact || m.w.opt.Mutant == LateClaims {
		return
	}
	for p := range commit.Offsets {
		m.unsure[session.TaskID{Set: p.Topic, Partition: p.Index}] = commit.Generation
	}
}

// renews asks for a new generation where a commit of the present one may be late: there it is refused.
//
// INVARIANT: no transaction of a task begins while a plain commit may put its position back.
func (m *member) renews(id session.TaskID, who identity) bool {
	if generation, ok := m.unsure[id]; !ok || generation != who.generation {
		return false
	}
	if m.follow == never {
		m.follow = m.w.now
	}
	m.wake()
	return true
}
