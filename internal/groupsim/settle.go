package groupsim

import (
	"cmp"
	"slices"
	"time"

	"github.com/pillion/pillion/assignor"
	"github.com/pillion/pillion/internal/groupmodel"
	"github.com/pillion/pillion/session"
)

func compareTasks(a, b session.TaskID) int {
	return cmp.Or(cmp.Compare(a.Set, b.Set), cmp.Compare(a.Partition, b.Partition))
}

// settle takes over what a generation gives, and says so. What it gives is claimed from now on.
func (m *member) settle(joined groupmodel.Answer, plan string) {
	given, err := assignor.DecodeAssignment([]byte(plan))
	if err != nil {
		m.w.fail("%s: the plan cannot be read: %v", m.s.name, err)
	}
	ev := session.Assigned{Generation: joined.Generation, MemberID: joined.Member}
	var warming []session.TaskID
	m.id.generation = joined.Generation
	m.between = false
	if m.want != nil {
		for _, p := range m.want.Sets {
			if !declares(m.joined, p) {
				continue // declared since
			}
			active, standby := given.Own(p.Sources)
			for _, n := range given.OwnWarming(p.Sources) {
				warming = append(warming, session.TaskID{Set: p.Name, Partition: n})
			}
			for _, n := range active {
				ev.Active = append(ev.Active, session.TaskID{Set: p.Name, Partition: n})
			}
			for _, n := range standby {
				ev.Standby = append(ev.Standby, session.TaskID{Set: p.Name, Partition: n})
			}
		}
	}
	m.w.kafka.planned(joined.Generation, cmp.Or(m.s.p.instance, joined.Member), ev.Active)
	if m.w.opt.Record {
		m.w.note("%s: assigned in generation %d: active %v, standby %v", m.s.name, ev.Generation, ev.Active, ev.Standby)
	}
	m.adopt(ev.Active)
	if m.differs {
		m.differs, m.follow, m.urgent = false, m.w.now, true
	}
	m.request, m.failures = nil, 0
	m.synced, m.syncedAs, m.phase = joined.Generation, joined.Member, stable
	m.next = m.w.now + heartbeatEvery
	m.settleWarm(warming, given.WarmLag, joined.Leader == joined.Member && !joined.Skip)
	m.s.post(ev)
	m.kick()
}

func declares(p *session.Prepared, set session.PreparedSet) bool {
	return p != nil && slices.ContainsFunc(p.Sets, func(s session.PreparedSet) bool { return sameSet(s, set) })
}

func sameSet(a, b session.PreparedSet) bool {
	return a.Name == b.Name && a.Partitions == b.Partitions && slices.Equal(a.Sources, b.Sources) && slices.Equal(a.Tables, b.Tables)
}

func (m *member) adopt(active []session.TaskID) {
	for _, t := range m.owned {
		t.active = false
	}
	for _, id := range active {
		if m.owned[id] == nil {
			m.owned[id] = &owned{}
		}
		m.owned[id].active = true
	}
	if m.w.opt.Mutant == LetsGoAtOnce {
		for id, t := range m.owned {
			if !t.active {
				delete(m.owned, id)
				m.follow = m.w.now
			}
		}
	}
	released := slices.ContainsFunc(m.claimed, func(id session.TaskID) bool { return m.owned[id] == nil })
	if !m.urgent && !released {
		m.follow = never
	}
}

// beat sends the next heartbeat, unless something else is due before.
func (m *member) beat() {
	due, wanted := m.followUp()
	if warm, ok := m.warmDue(); ok && (!wanted || warm < due) {
		due, wanted = warm, true
	}
	if wanted && due <= m.w.now {
		m.rejoin()
		m.kick()
		return
	}
	wait := m.next - m.w.now
	if m.suspect {
		m.suspect, wait = false, 0
	}
	if wanted {
		wait = min(wait, due-m.w.now)
	}
	if wait > 0 {
		m.pause(wait)
		return
	}
	m.next = m.w.now + heartbeatEvery
	m.sendBeat(func(code int16, ok bool) {
		switch {
		case !ok:
			m.next = m.w.now
			m.again()
		case code != groupmodel.OK:
			m.next = m.w.now
			m.obey(code, onHeartbeat)
		default:
			m.failures = 0
			m.lookAtCopies()
			m.kick()
		}
	})
}

// sendBeat is a heartbeat. Where its 0 tells nothing, because the answers before are long ago, a SyncGroup
// asks once more.
func (m *member) sendBeat(done func(code int16, ok bool)) {
	asked, who := m.w.now, m.id
	m.send(m.heartbeat(who), shortLimit, func(a groupmodel.Answer, ok bool) {
		if !ok || a.Code != groupmodel.OK || m.fresh() {
			if ok && a.Code == groupmodel.OK {
				m.confirmed = max(m.confirmed, asked)
			}
			done(a.Code, ok)
			return
		}
		asked := m.w.now
		m.send(groupmodel.SyncGroup{Member: who.member, Instance: m.s.p.instance, Generation: who.generation}, shortLimit, func(a groupmodel.Answer, ok bool) {
			if ok && a.Code == groupmodel.OK {
				m.confirmed = max(m.confirmed, asked)
			}
			done(a.Code, ok)
		})
	})
}

func (m *member) fresh() bool { return m.w.now-m.confirmed < sessionTimeout/2 }

func (m *member) heartbeat(id identity) groupmodel.Heartbeat {
	return groupmodel.Heartbeat{Member: id.member, Instance: m.s.p.instance, Generation: id.generation}
}

const releaseLinger = 100 * time.Millisecond

// followUp tells when a follow-up join is due.
func (m *member) followUp() (due time.Duration, wanted bool) {
	if m.follow == never {
		return 0, false
	}
	revoking := false
	for _, t := range m.owned {
		revoking = revoking || !t.active
	}
	if m.urgent || !revoking {
		return m.follow, true
	}
	return m.follow + releaseLinger, true
}

func (m *member) rejoin() {
	m.request, m.between, m.phase = nil, true, joining
}

// lose ends the membership and with it every task.
func (m *member) lose(why string, forget bool) {
	had := m.id.generation >= 0
	id := m.id.member
	if forget {
		id = ""
	}
	m.id.life.over = true
	m.id = identity{member: id, generation: -1, life: m.newLife()}
	m.id.life.member = id
	clear(m.owned)
	m.between, m.request, m.synced, m.phase, m.warm = true, nil, -1, joining, coldAgain()
	if had {
		m.w.note("%s: membership lost: %s", m.s.name, why)
		m.s.post(session.GroupLost{Code: "fenced", Message: why})
	}
	m.kick()
}
