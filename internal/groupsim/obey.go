package groupsim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pillion/pillion/internal/groupmodel"
	"github.com/pillion/pillion/session"
)

// rule is what a member does about a code; they are groupclient's.
type rule uint8

const (
	ruleOK rule = iota
	ruleRetry
	ruleFindCoordinator
	ruleRejoin
	ruleNewID
	ruleLost
	ruleRebalancing
	ruleFatal
)

type request uint8

const (
	onJoin request = iota
	onSync
	onHeartbeat
	onOffsets
)

var rules = map[int16][4]rule{
	groupmodel.OK:                 {ruleOK, ruleOK, ruleOK, ruleOK},
	groupmodel.CoordinatorLoading: {ruleRetry, ruleRejoin, ruleRetry, ruleRetry},
	groupmodel.CoordinatorAway:    {ruleFindCoordinator, ruleRejoin, ruleFindCoordinator, ruleFindCoordinator},
	groupmodel.NotCoordinator:     {ruleFindCoordinator, ruleRejoin, ruleFindCoordinator, ruleFindCoordinator},
	groupmodel.IllegalGeneration:  {ruleRejoin, ruleRejoin, ruleLost, ruleRebalancing},
	groupmodel.UnknownMember:      {ruleNewID, ruleNewID, ruleNewID, ruleLost},
	groupmodel.Rebalancing:        {ruleRejoin, ruleRejoin, ruleRejoin, ruleRebalancing},
	groupmodel.FencedInstance:     {ruleFatal, ruleFatal, ruleFatal, ruleLost},
	groupmodel.UnstableOffset:     {ruleRetry, ruleRetry, ruleRetry, ruleRetry},
}

func (m *member) ruleOf(code int16, on request) rule {
	row, ok := rules[code]
	if !ok {
		m.w.fail("%s: nobody expects code %d", m.s.name, code)
	}
	return row[on]
}

// obey does what the table says about a code of JoinGroup, SyncGroup or Heartbeat.
func (m *member) obey(code int16, on request) {
	switch m.ruleOf(code, on) {
	case ruleRetry:
		m.again()
	case ruleFindCoordinator:
		m.node = 0
		m.again()
	case ruleRejoin:
		m.rejoin()
		if code == groupmodel.CoordinatorLoading || code == groupmodel.CoordinatorAway || code == groupmodel.NotCoordinator {
			m.node = 0
			m.again()
			return
		}
		m.kick()
	case ruleNewID:
		m.lose(fmt.Sprintf("code %d", code), true)
	case ruleFatal:
		if m.id.member != "" && m.id.member != m.syncedAs { // a coordinator that has moved does not know it yet
			m.lose("the id was forgotten", true)
			return
		}
		m.w.fail("%s: code %d, and nobody else has its name", m.s.name, code)
	case ruleLost:
		m.lose(fmt.Sprintf("code %d", code), false)
	}
}

// subscribe, as the session asks for it.
func (m *member) subscribe(p *session.Prepared) {
	m.want = p
	m.follow, m.urgent = m.w.now, true
	if m.joined != nil {
		for _, id := range slices.SortedFunc(maps.Keys(m.owned), compareTasks) {
			set := setOf(p, id.Set)
			if set == nil || !declares(m.joined, *set) {
				if m.owned[id].claimed && m.w.opt.Mutant != NoLateRelease {
					m.partWith(id)
					continue
				}
				m.w.kafka.told[m.owned[id].takeOver] = false // it is let go without a release
				delete(m.owned, id)
			}
		}
	}
	m.wake()
}

// leaveGroup, as the session asks for it: whatever is under way is interrupted.
func (m *member) leaveGroup(done func()) {
	m.want, m.leaving, m.quit = nil, done, m.w.now+sessionTimeout
	m.busy = false
	m.turn++
	m.wake()
}

func (m *member) leave() {
	if m.id.member == "" {
		m.left(true)
		return
	}
	m.send(groupmodel.LeaveGroup{Member: m.id.member, Instance: m.s.p.instance}, shortLimit, func(a groupmodel.Answer, ok bool) {
		retry := !ok || a.Code == groupmodel.CoordinatorLoading || a.Code == groupmodel.CoordinatorAway || a.Code == groupmodel.NotCoordinator
		if retry && m.w.now < m.quit {
			m.node = 0
			m.again()
			return
		}
		m.left(ok && a.Code == groupmodel.OK)
	})
}

// left: no member any more. When the coordinator did not know us, we were none before.
func (m *member) left(clean bool) {
	done := m.leaving
	m.id.life.left, m.id.life.over = clean, !clean
	m.id = identity{generation: -1, life: m.newLife()}
	clear(m.owned)
	m.request, m.synced, m.phase, m.leaving, m.draining, m.warm = nil, -1, resting, nil, false, coldAgain()
	m.w.note("%s: left the group", m.s.name)
	done()
	m.kick()
}
