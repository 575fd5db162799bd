package groupsim

import (
	"slices"
	"time"

	"github.com/pillion/pillion/internal/groupmodel"
	"github.com/pillion/pillion/session"
)

// What a session asks of its membership beside the loop. Each ends in one call of done.

const offsetsLimit = 5 * time.Second

// verdict of a request for offsets.
func (m *member) verdict(code int16) session.Outcome {
	switch m.ruleOf(code, onOffsets) {
	case ruleOK:
		return session.OK
	case ruleRebalancing:
		m.hurry()
		return session.Rebalancing
	case ruleLost:
		m.hurry()
		return session.FencedOut
	default:
		return session.Failed // again
	}
}

// hurry makes the loop ask the coordinator now.
func (m *member) hurry() {
	m.suspect = true
	m.wake()
}

// repeat makes a request until it is answered for good. try says who we are, or that it is over.
func (m *member) repeat(attempt int, try func() (groupmodel.Request, bool), done func(session.Outcome, groupmodel.Answer)) {
	req, ok := try()
	if !ok {
		done(session.FencedOut, groupmodel.Answer{})
		return
	}
	m.s.toCoordinator(req, offsetsLimit, func(a groupmodel.Answer, ok bool) {
		outcome := session.Failed
		if ok {
			outcome = m.verdict(a.Code)
		} else {
			m.unanswered(req)
		}
		if outcome != session.Failed {
			done(outcome, a)
			return
		}
		m.node = 0
		m.s.after(min(50*time.Millisecond<<min(attempt, 5), time.Second), func() { m.repeat(attempt+1, try, done) })
	})
}

// takeOver: the claims, the generation, the positions, our claim, the ends, in this order.
func (m *member) takeOver(id session.TaskID, done func(session.Outcome, session.TakeOver)) {
	t, who := m.owned[id], m.id
	switch {
	case m.want == nil || who.generation < 0:
		done(session.FencedOut, session.TakeOver{})
		return
	case t == nil && (m.between || m.follow != never):
		done(session.Rebalancing, session.TakeOver{})
		return
	case t == nil:
		done(session.FencedOut, session.TakeOver{})
		return
	case t.parting || m.renews(id, who):
		done(session.Rebalancing, session.TakeOver{})
		return
	}
	truth := m.w.kafka.tasks[id]
	tables := tableNames(setOf(m.want, id.Set))
	step := func(req groupmodel.Request, next func(groupmodel.Answer)) {
		m.repeat(0, func() (groupmodel.Request, bool) { return req, m.id.life == who.life },
			func(outcome session.Outcome, a groupmodel.Answer) {
				if outcome != session.OK {
					done(outcome, session.TakeOver{})
					return
				}
				next(a)
			})
	}
	o := &takingOver{m: m, id: id, t: t, who: who, truth: truth, tables: tables, done: done, step: step}
	o.begin()
}

// takingOver is a take-over under way. Each step begins the next one.
type takingOver struct {
	m      *member
	id     session.TaskID
	t      *owned
	who    identity
	truth  *truth
	tables []string
	former claim
	at     int64
	ends   map[string]int64 // EndFirst
	step   func(groupmodel.Request, func(groupmodel.Answer))
	done   func(session.Outcome, session.TakeOver)
}

// then goes on unless a step has ended otherwise.
func (o *takingOver) then(next func()) func(session.Outcome) {
	return func(outcome session.Outcome) {
		if outcome != session.OK {
			o.done(outcome, session.TakeOver{})
			return
		}
		next()
	}
}

func (o *takingOver) begin() {
	m := o.m
	check := func(next func()) func() {
		return func() { m.checkGeneration(o.who, o.then(next)) }
	}
	fence := func() {
		if m.w.opt.Mutant == EndFirst {
			o.ends = map[string]int64{}
			for _, table := range o.tables {
				o.ends[table] = o.truth.log(table).end()
			}
		}
		m.fence(o.former, o.who, o.then(o.stable))
	}
	switch m.w.opt.Mutant {
	case NoCheck:
		o.claims(fence)
	case ClaimsLate:
		check(func() { o.claims(fence) })()
	default:
		o.claims(check(fence))
	}
}

// claims reads who has the task. INVARIANT: the generation is checked behind that, so that nobody of a later
// one has written them.
func (o *takingOver) claims(next func()) {
	o.step(groupmodel.OffsetFetch{Partitions: []groupmodel.Partition{o.truth.source}}, func(a groupmodel.Answer) {
		if text := a.Offsets[o.truth.source].Metadata; text != "" {
			o.former = o.m.w.kafka.parse(text)
		}
		next()
	})
}

// stable reads the positions, and claims the task at them.
func (o *takingOver) stable() {
	m := o.m
	fetch := groupmodel.OffsetFetch{Partitions: []groupmodel.Partition{o.truth.source}, Stable: m.w.exact && m.w.opt.Mutant != PlainPositions}
	o.step(fetch, func(a groupmodel.Answer) {
		if m.hole(o.truth, a, o.tables) {
			o.done(session.Refused, session.TakeOver{})
			return
		}
		o.at = max(a.Offsets[o.truth.source].At, 0)
		if !m.w.exact {
			o.claim()
			return
		}
		m.s.producerOf(o.who.life).begin(func(ready bool) {
			if !ready {
				o.done(session.FencedOut, session.TakeOver{})
				return
			}
			o.claim()
		})
	})
}

func (o *takingOver) claim() {
	m, who := o.m, o.who
	if m.owned[o.id] != o.t || o.t.parting {
		o.done(session.Rebalancing, session.TakeOver{})
		return
	}
	m.w.takeOvers++
	c := claim{by: who.life, takeOver: m.w.takeOvers, tables: o.tables}
	if m.w.exact {
		o.t.claimed, o.t.takeOver, o.t.tables = true, c.takeOver, c.tables
	}
	o.step(groupmodel.OffsetCommit{
		Member: who.member, Instance: m.s.p.instance, Generation: who.generation,
		Offsets: map[groupmodel.Partition]groupmodel.Offset{o.truth.source: {At: o.at, Metadata: c.text()}},
	}, func(groupmodel.Answer) {
		if m.renews(o.id, who) {
			o.done(session.Rebalancing, session.TakeOver{})
			return
		}
		o.captured(c)
	})
}

// hole: a declared table has rows, and the claim does not name it: the task was worked on without it.
func (m *member) hole(t *truth, a groupmodel.Answer, tables []string) bool {
	text := a.Offsets[t.source].Metadata
	if text == "" {
		return false
	}
	named := m.w.kafka.parse(text).tables
	return slices.ContainsFunc(tables, func(table string) bool {
		return !slices.Contains(named, table) && t.log(table).end() > 0
	})
}

// captured: the claim is there; nobody else writes any more. The ends are asked for.
func (o *takingOver) captured(c claim) {
	m := o.m
	m.s.toLeader(func(ok bool) {
		switch {
		case m.id.life != o.who.life:
			o.done(session.FencedOut, session.TakeOver{})
			return
		case !ok:
			m.s.after(100*time.Millisecond, func() { o.captured(c) })
			return
		case m.owned[o.id] != o.t || o.t.parting:
			o.done(session.Rebalancing, session.TakeOver{})
			return
		}
		over := session.TakeOver{Positions: map[string]int64{o.truth.source.Topic: o.at}, Ends: map[string]int64{}}
		for _, table := range c.tables {
			over.Ends[table] = o.truth.log(table).end()
			if m.w.opt.Mutant == StableEnd {
				over.Ends[table] = o.truth.log(table).stable()
			}
		}
		if o.ends != nil {
			over.Ends = o.ends
		}
		m.w.kafka.told[c.takeOver] = true
		t := o.t
		t.taken, t.takeOver, t.position, t.tables, t.doubt = true, c.takeOver, o.at, c.tables, false
		o.done(session.OK, over)
	})
}

// checkGeneration asks whether our generation is the newest: 0, or 27 when a next one is only being built. A
// coordinator that is loading answers 0 to any heartbeat, so that a SyncGroup has to say it, too.
func (m *member) checkGeneration(who identity, done func(session.Outcome)) {
	alive := func(req groupmodel.Request) func() (groupmodel.Request, bool) {
		return func() (groupmodel.Request, bool) { return req, m.id.life == who.life }
	}
	m.ask(0, alive(m.heartbeat(who)), func(code int16) {
		if code != groupmodel.OK {
			done(m.standing(who, code))
			return
		}
		m.ask(0, alive(groupmodel.SyncGroup{Member: who.member, Instance: m.s.p.instance, Generation: who.generation}), func(code int16) {
			done(m.standing(who, code))
		})
	})
}

// standing is what a code says of our membership.
func (m *member) standing(who identity, code int16) session.Outcome {
	switch {
	case code == groupmodel.OK || code == groupmodel.Rebalancing:
		return session.OK
	case code == groupmodel.IllegalGeneration && (m.between || m.id != who):
		return session.Rebalancing
	default:
		m.hurry()
		return session.FencedOut
	}
}

// ask is repeat for what tells only a code.
func (m *member) ask(attempt int, try func() (groupmodel.Request, bool), done func(int16)) {
	req, ok := try()
	if !ok {
		done(groupmodel.UnknownMember)
		return
	}
	m.s.toCoordinator(req, offsetsLimit, func(a groupmodel.Answer, ok bool) {
		if ok && a.Code != groupmodel.CoordinatorLoading && a.Code != groupmodel.CoordinatorAway && a.Code != groupmodel.NotCoordinator {
			done(a.Code)
			return
		}
		m.node = 0
		m.s.after(min(50*time.Millisecond<<min(attempt, 5), time.Second), func() { m.ask(attempt+1, try, done) })
	})
}

// commit stores the position of a task, with its claim.
func (m *member) commit(id session.TaskID, next map[string]int64, released bool, done func(session.Outcome)) {
	t := m.owned[id]
	if t == nil || !t.taken || t.parting {
		done(session.FencedOut)
		return
	}
	if m.w.exact && (next == nil || t.doubt) && m.w.opt.Mutant != OldRelease {
		m.releaseStable(id, done)
		return
	}
	position := t.position
	if at, ok := next[m.w.kafka.tasks[id].source.Topic]; ok {
		position = at
	}
	m.write(id, position, released, done)
}

// write is a plain commit of a position, beside the claim.
func (m *member) write(id session.TaskID, position int64, released bool, done func(session.Outcome)) {
	t, l, truth := m.owned[id], m.id.life, m.w.kafka.tasks[id]
	c := claim{by: l, takeOver: t.takeOver, released: released, tables: t.tables}
	m.repeat(0, func() (groupmodel.Request, bool) {
		if m.owned[id] != t || m.id.life != l {
			return nil, false
		}
		return groupmodel.OffsetCommit{ // the generation is that of the moment of sending
			Member: m.id.member, Instance: m.s.p.instance, Generation: m.id.generation,
			Offsets: map[groupmodel.Partition]groupmodel.Offset{truth.source: {At: position, Metadata: c.text()}},
		}, true
	}, func(outcome session.Outcome, _ groupmodel.Answer) {
		if outcome == session.OK {
			t.position, t.claimed = position, t.claimed && !released
		}
		done(outcome)
	})
}

// confirm answers whether a task is still ours, before something is written that Kafka does not fence.
func (m *member) confirm(id session.TaskID, done func(bool)) { m.confirmAs(id, m.owned[id], 0, done) }

func (m *member) confirmAs(id session.TaskID, mine *owned, attempt int, done func(bool)) {
	switch {
	case mine == nil || m.owned[id] != mine || !mine.taken:
		done(false)
		return
	case m.fresh():
		done(true)
		return
	}
	asked := m.w.now
	m.checkGeneration(m.id, func(outcome session.Outcome) {
		switch outcome {
		case session.OK:
			m.confirmed = max(m.confirmed, asked)
			m.confirmAs(id, mine, 0, done)
		case session.Rebalancing:
			m.s.after(min(50*time.Millisecond<<min(attempt, 5), time.Second), func() { m.confirmAs(id, mine, attempt+1, done) })
		default:
			done(false)
		}
	})
}

// release lets go of tasks, and has a follow-up join made.
func (m *member) release(ids []session.TaskID) {
	changed := false
	for _, id := range ids {
		switch t := m.owned[id]; {
		case t == nil:
		case t.claimed && m.w.opt.Mutant != NoLateRelease:
			m.partWith(id)
		default:
			delete(m.owned, id)
			changed = true
		}
	}
	if changed && m.follow == never {
		m.follow = m.w.now
	}
	if changed {
		m.wake()
	}
}

func setOf(p *session.Prepared, name string) *session.PreparedSet {
	for i := range p.Sets {
		if p.Sets[i].Name == name {
			return &p.Sets[i]
		}
	}
	return nil
}

func tableNames(set *session.PreparedSet) []string {
	var names []string
	if set != nil {
		for _, t := range set.Tables {
			names = append(names, t.Name)
		}
	}
	return names
}
