package groupsim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pillion/pillion/assignor"
	"github.com/pillion/pillion/internal/groupmodel"
	"github.com/pillion/pillion/session"
)

// member is a sidecar's membership by the rules of groupclient, without its goroutines: one request of its
// loop at a time, take-overs and commits beside it.
type member struct {
	s    *sidecar
	w    *World
	busy bool
	turn int // answers and pauses of earlier turns do not count

	phase    phase
	nonce    uint64
	request  *groupmodel.JoinGroup // to repeat
	failures int
	warm     warming       // copies that warm up
	next     time.Duration // of the next heartbeat
	synced   int32
	joinedIn int32 // generation of the last JoinGroup that was answered
	syncedAs string
	leaving  func()
	quit     time.Duration // leaving is given up then

	want, joined *session.Prepared
	follow       time.Duration // wanted since; negative: not
	urgent       bool
	suspect      bool
	between      bool
	draining     bool
	differs      bool // from what its predecessor has declared
	id           identity
	owned        map[session.TaskID]*owned
	claimed      []session.TaskID
	unsure       map[session.TaskID]int32 // the generation of a plain commit that was not answered
	confirmed    time.Duration
	node         int32 // of the coordinator; 0: not known
}

type phase uint8

const (
	resting phase = iota
	joining
	stable
)

// identity is who we are to the coordinator.
type identity struct {
	member     string
	generation int32 // -1: none
	life       *life
}

// owned is a task from the sync that gave it until its release.
type owned struct {
	active, taken bool
	takeOver      int64
	position      int64
	tables        []string

	// Under exactly_once.
	claimed bool // an unreleased claim may be in Kafka
	doubt   bool // a transaction was begun whose end is not known: position may be behind
	parting bool // it is released, and then let go
}

const never = -time.Hour

func newMember(s *sidecar) *member {
	m := &member{s: s, w: s.w, synced: -1, joinedIn: -1, warm: coldAgain(), follow: never, confirmed: never, owned: map[session.TaskID]*owned{}, unsure: map[session.TaskID]int32{}}
	m.id = identity{generation: -1, life: m.newLife()}
	return m
}

func (m *member) newLife() *life {
	m.w.lives++
	l := &life{name: fmt.Sprintf("%s.%d", m.s.name, m.w.lives), doubt: map[session.TaskID]bool{}}
	m.w.kafka.lives[l.name] = l
	return l
}

// kick is the loop's next step, when none is under way.
func (m *member) kick() {
	if m.busy {
		return
	}
	m.turn++
	switch {
	case m.leaving != nil:
		m.leave()
	case m.phase == resting && m.want != nil:
		m.phase = joining
		m.join()
	case m.phase == joining:
		m.join()
	case m.phase == stable:
		m.beat()
	}
}

// wake: something has changed. A long request is only interrupted by a leave.
func (m *member) wake() { m.s.after(0, m.kick) }

func (m *member) pause(d time.Duration) {
	m.turn++
	turn := m.turn
	m.s.after(d, func() {
		if m.turn == turn {
			m.kick()
		}
	})
}

// again pauses before a request is repeated.
func (m *member) again() {
	m.failures++
	m.pause(min(50*time.Millisecond<<min(m.failures, 6), heartbeatEvery))
}

// send makes a request of the loop.
func (m *member) send(req groupmodel.Request, within time.Duration, done func(groupmodel.Answer, bool)) {
	m.busy = true
	m.turn++
	turn := m.turn
	m.s.toCoordinator(req, within, func(a groupmodel.Answer, ok bool) {
		if m.turn != turn {
			return // interrupted
		}
		m.busy = false
		if !ok {
			m.node = 0
		}
		done(a, ok)
	})
}

const (
	shortLimit = 1200 * time.Millisecond
	longLimit  = rebalanceTimeout + 5*time.Second
)

func (m *member) join() {
	if m.request == nil {
		if m.want == nil {
			m.phase = resting
			return
		}
		m.request = m.build()
	}
	m.send(*m.request, longLimit, func(a groupmodel.Answer, ok bool) {
		switch {
		case !ok:
			if m.w.opt.Mutant == RetryClaimsNothing {
				was := m.owned
				m.owned = map[session.TaskID]*owned{}
				m.request = m.build()
				m.owned = was
			}
			m.again()
		case a.Code == groupmodel.MemberIDRequired:
			m.id.member, m.request.Member = a.Member, a.Member
			m.kick()
		case a.Code != groupmodel.OK:
			m.obey(a.Code, onJoin)
		default:
			m.failures = 0
			if m.missed(a.Generation) {
				m.lose("generations were made without us", false)
				return
			}
			m.id.member = a.Member
			m.id.life.member = a.Member
			m.sync(a)
		}
	})
}

// missed tells that a generation was made without us, and notes that we have joined this one. Only a static
// member can miss one and still be answered.
func (m *member) missed(generation int32) bool {
	last := m.joinedIn
	m.joinedIn = generation
	return m.s.p.instance != "" && m.synced >= 0 && last >= 0 && generation > last+1
}

// build makes a JoinGroup: the subscription and the claims of this moment.
func (m *member) build() *groupmodel.JoinGroup {
	m.nonce++
	s := assignor.Subscription{Nonce: m.nonce, Generation: m.synced, Draining: m.draining}
	keys := map[string]string{}
	for _, p := range m.want.Sets {
		own := assignor.Set{Sources: p.Sources}
		for _, t := range p.Tables {
			own.Tables = append(own.Tables, assignor.Table{Name: t.Name, Changelog: t.Topic})
		}
		s.Sets = append(s.Sets, own)
		keys[p.Name] = own.Key()
	}
	m.claimed = slices.SortedFunc(maps.Keys(m.owned), compareTasks)
	for _, id := range m.claimed {
		if key, ok := keys[id.Set]; ok {
			s.Owned = append(s.Owned, assignor.Task{Set: key, Partition: id.Partition})
		}
	}
	for _, c := range m.s.copies() {
		if key, ok := keys[c.Task.Set]; ok && m.owned[c.Task] == nil {
			s.Copies = append(s.Copies, assignor.Copy{Task: assignor.Task{Set: key, Partition: c.Task.Partition}, Lag: c.Lag})
		}
	}
	m.joined = m.want
	m.follow, m.urgent = never, false
	// A static member that comes back gets its old share, whatever it declares: it has to join once more.
	p := m.s.p
	m.differs = m.synced < 0 && p.instance != "" && p.joined >= 0 && p.joined != p.worker.declares
	p.joined = p.worker.declares
	metadata, err := assignor.EncodeSubscription(s)
	if err != nil {
		m.w.fail("%s: %v", m.s.name, err)
	}
	return &groupmodel.JoinGroup{
		Member: m.id.member, Instance: m.s.p.instance, Session: sessionTimeout, Rebalance: rebalanceTimeout, Metadata: string(metadata), KnowsSkip: true,
	}
}

// sync is the SyncGroup of a generation; the leader plans before, which takes its time.
func (m *member) sync(joined groupmodel.Answer) {
	if m.w.opt.Record {
		m.w.note("%s: joined generation %d, led by %s", m.s.name, joined.Generation, joined.Leader)
	}
	req := groupmodel.SyncGroup{Member: joined.Member, Instance: m.s.p.instance, Generation: joined.Generation}
	if joined.Leader != joined.Member || joined.Skip || len(joined.Members) == 0 {
		m.sendSync(joined, req)
		return
	}
	if m.w.killPlanner && !m.w.calm {
		m.w.killPlanner = false
		m.s.kill()
		m.s.p.restartSidecar(m.w.between(100*time.Millisecond, 2*sessionTimeout))
		return
	}
	m.busy = true
	m.turn++
	turn := m.turn
	m.s.after(m.w.between(0, []time.Duration{20 * time.Millisecond, time.Second}[m.w.rng.IntN(8)/7]), func() {
		if m.turn != turn {
			return
		}
		m.busy = false
		plan, err := m.plan(joined)
		if err != nil {
			m.w.fail("%s: no plan for generation %d: %v", m.s.name, joined.Generation, err)
		}
		req.Plan = plan
		m.sendSync(joined, req)
	})
}

func (m *member) sendSync(joined groupmodel.Answer, req groupmodel.SyncGroup) {
	asked := m.w.now
	m.send(req, longLimit, func(a groupmodel.Answer, ok bool) {
		m.request = nil // a JoinGroup from here on is a new one
		switch {
		case !ok:
			m.joinedIn = m.synced
			m.again()
		case a.Code != groupmodel.OK:
			if a.Code != groupmodel.Rebalancing { // another coordinator has not heard of this generation
				m.joinedIn = m.synced
			}
			m.obey(a.Code, onSync)
		default:
			m.confirmed = max(m.confirmed, asked)
			m.settle(joined, a.Plan)
		}
	})
}

// plan is the leader's part of a generation: the assignor, for real.
func (m *member) plan(joined groupmodel.Answer) (map[string]string, error) {
	in := assignor.Input{Options: assignor.Options{Replicas: m.w.replicas, MaxWarmups: m.w.warmups, AcceptableLag: 3}, Counts: map[string]int32{}}
	for _, j := range joined.Members {
		s, err := assignor.DecodeSubscription([]byte(j.Metadata))
		if err != nil {
			return nil, err
		}
		in.Members = append(in.Members, assignor.Member{
			ID: j.ID, Generation: s.Generation, Sets: s.Sets, Owned: s.Owned, Copies: s.Copies,
			NoStandby: s.NoStandby, Draining: s.Draining,
		})
		for _, set := range s.Sets {
			for _, source := range set.Sources {
				in.Counts[source] = partitions
			}
		}
	}
	in.Claims = m.claimsOf(in)
	target, err := assignor.Target(in)
	if err != nil {
		return nil, err
	}
	if err := assignor.Validate(in, target); err != nil {
		return nil, fmt.Errorf("the target is not valid: %w", err)
	}
	next := assignor.Transition(in, target)
	if err := assignor.ValidateNext(in, next); err != nil {
		return nil, fmt.Errorf("the plan is not valid: %w", err)
	}
	plan := map[string]string{}
	for _, j := range joined.Members {
		b, err := assignor.EncodeAssignment(assignor.AssignmentOf(next, j.ID))
		if err != nil {
			return nil, err
		}
		plan[j.ID] = string(b)
	}
	m.warm.plan = next.Warming
	m.w.tally.Warmups += len(next.Warming)
	if m.w.opt.Record {
		m.w.note("%s: plans generation %d: %+v, waiting %+v, warming %+v", m.s.name, joined.Generation, next.Members, next.Waiting, next.Warming)
	}
	return plan, nil
}
