package assignor

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

const warmLag = 1000

// lab is a world whose copies take their time: a new one is unknown, then far behind, then warm.
type lab struct {
	*world
	t    *testing.T
	seed uint64
	lags map[string]map[Task]int64 // what each member has on disk without being its active
	gen  int32
	told []string

	holder map[Task]string // who has the newest claim
}

func newLab(t *testing.T, seed uint64) *lab {
	rnd := rand.New(rand.NewPCG(seed, 6))
	w := newWorld(seed, 1+rnd.IntN(6), 1+rnd.IntN(3), 1+rnd.IntN(12), rnd.IntN(3))
	for i := range w.in.Members[0].Sets { // the members share them
		if s := &w.in.Members[0].Sets[i]; len(s.Tables) == 0 && rnd.IntN(3) > 0 {
			s.Tables = []Table{{Name: "up", Changelog: fmt.Sprintf("upstream-%d", i), Source: true}}
		}
	}
	w.in.Options.MaxWarmups, w.in.Options.AcceptableLag = 1+rnd.IntN(4), warmLag
	l := &lab{world: w, t: t, seed: seed, lags: map[string]map[Task]int64{}}
	p := target(w.in)
	w.settle(p, 1)
	l.gen = 1
	for _, m := range w.in.Members {
		l.lags[m.ID] = map[Task]int64{}
		for _, c := range m.Copies {
			l.lags[m.ID][c.Task] = 0
		}
	}
	return l
}

// disturb lets members come, go, and come back with what they claimed a while ago.
func (l *lab) disturb() {
	sets := l.in.Members[0].Sets
	switch what := l.rnd.IntN(5); {
	case what < 2:
		id := l.join(sets)
		m := &l.in.Members[len(l.in.Members)-1]
		m.NoStandby = l.rnd.IntN(8) == 0
		l.lags[id] = map[Task]int64{}
	case what == 2 && len(l.in.Members) > 1:
		l.leave()
	case what == 3 && len(l.in.Members) > 1:
		m := &l.in.Members[l.rnd.IntN(len(l.in.Members))]
		m.Draining = true
	case what == 4: // what it says it owns is long somebody else's
		m := &l.in.Members[l.rnd.IntN(len(l.in.Members))]
		other := l.in.Members[l.rnd.IntN(len(l.in.Members))]
		m.Owned, m.Generation = append(slices.Clone(m.Owned), other.Owned...), max(0, l.gen-int32(l.rnd.IntN(3)))
	}
	if !slices.ContainsFunc(l.in.Members, func(m Member) bool { return !m.Draining }) {
		l.in.Members[0].Draining = false
	}
	for i := range l.in.Members {
		if m := &l.in.Members[i]; m.Draining && len(m.Owned) == 0 {
			l.in.Members = slices.Delete(l.in.Members, i, i+1)
			break
		}
	}
}

// generation is one plan and what the members make of it. It tells whether everything is where it
// should end up.
func (l *lab) generation() bool {
	goal := target(l.in)
	next := Transition(l.in, goal)
	l.told = append(l.told, fmt.Sprintf("\n%d: %+v\n  waiting %+v\n  warming %+v", l.gen+1, next.Members, next.Waiting, next.Warming))
	if err := ValidateNext(l.in, next); err != nil {
		l.t.Fatalf("seed %d generation %d: %v%v", l.seed, l.gen+1, err, l.told)
	}
	if again := Transition(l.shuffled(), target(l.shuffled())); !reflect.DeepEqual(again, next) {
		l.t.Fatalf("seed %d: another order gave another plan", l.seed)
	}
	l.check(next)
	l.gen++
	still := len(next.Waiting)+len(next.Warming) == 0
	if still && !reflect.DeepEqual(next.Members, goal.Members) {
		l.t.Fatalf("seed %d: nothing waits, and the target is not reached", l.seed)
	}
	for i := range l.in.Members {
		l.follow(&l.in.Members[i], next)
	}
	return still
}

// follow: a member takes what it is given, releases some of what it is not, and works on its copies.
func (l *lab) follow(m *Member, next Plan) {
	share := next.Members[m.ID]
	had, disk := m.Owned, map[Task]int64{}
	m.Owned = nil
	for _, task := range had {
		switch {
		case slices.Contains(share.Active, task):
		case l.holder[task] != m.ID: // somebody else has had it since; it finds that out at the sync
		case l.rnd.IntN(3) == 0:
			m.Owned = append(m.Owned, task)
		case l.rnd.IntN(4) > 0:
			disk[task] = 0 // the store is kept until the next sync
		}
	}
	m.Owned = append(m.Owned, share.Active...)
	for _, task := range share.Standby {
		if slices.Contains(m.Owned, task) {
			continue
		}
		lag, had := l.lags[m.ID][task]
		switch {
		case had && lag == 0:
			disk[task] = lag
		case !had:
			disk[task] = UnknownLag
		case lag < 0:
			disk[task] = CoarseLag(int64(l.rnd.IntN(1 << 20)))
		default:
			disk[task] = CoarseLag(int64(l.rnd.IntN(warmLag / 2)))
		}
	}
	l.lags[m.ID] = disk
	m.Copies = nil
	for task, lag := range disk {
		m.Copies = append(m.Copies, Copy{task, lag})
	}
	m.Generation = l.gen
}

// check looks at what a generation gives out, without the package's own words.
func (l *lab) check(next Plan) {
	holder, gen := map[Task]*Member{}, map[Task]int32{}
	for i := range l.in.Members {
		m := &l.in.Members[i]
		for _, task := range m.Owned {
			if h := holder[task]; h == nil || m.Generation > gen[task] || m.Generation == gen[task] && m.ID < h.ID {
				holder[task], gen[task] = m, m.Generation
			}
		}
	}
	l.holder = map[Task]string{}
	for task, m := range holder {
		l.holder[task] = m.ID
	}
	tables := map[string]bool{}
	for _, s := range l.in.Members[0].Sets {
		tables[s.Key()] = len(s.Tables) > 0
	}
	warm := func(m *Member, task Task) bool {
		return slices.ContainsFunc(m.Copies, func(c Copy) bool { return c.Task == task && c.Lag >= 0 && c.Lag <= warmLag })
	}
	actives := owners(next)
	for task, id := range actives {
		if h := holder[task]; h != nil && h.ID != id {
			l.t.Fatalf("seed %d: %s goes to %s and %s holds it%v", l.seed, task, id, h.ID, l.told)
		}
	}
	goes := map[Task]string{}
	for task, id := range actives {
		goes[task] = id
	}
	for _, w := range next.Waiting {
		if h := holder[w.Task]; h == nil || h.ID != w.For {
			l.t.Fatalf("seed %d: %+v waits for nobody%v", l.seed, w, l.told)
		}
		goes[w.Task] = w.To
	}
	for task, id := range goes {
		to := l.member(id)
		h := holder[task]
		if h == to || !tables[task.Set] || to.NoStandby || warm(to, task) {
			continue
		}
		for i := range l.in.Members {
			if m := &l.in.Members[i]; !m.Draining && (warm(m, task) || m == h) {
				l.t.Fatalf("seed %d: %s goes to %s, which is cold, and %s is warm%v", l.seed, task, id, m.ID, l.told)
			}
		}
	}
	copies, begun := 0, 0
	for _, s := range next.Members {
		copies += len(s.Standby)
	}
	for _, w := range next.Warming {
		begun += boolInt(!w.Later)
		if goes[w.Task] != w.From || actives[w.Task] == "" && holder[w.Task] == nil {
			l.t.Fatalf("seed %d: %+v, and the task is with %q%v", l.seed, w, goes[w.Task], l.told)
		}
	}
	if len(next.Warming) > 0 && begun == 0 {
		l.t.Fatalf("seed %d: copies wait for their turn, and none is made%v", l.seed, l.told)
	}
	if l.in.Options.Replicas == 0 && begun > l.in.Options.MaxWarmups {
		l.t.Fatalf("seed %d: %d warm-ups%v", l.seed, begun, l.told)
	}
}

func (l *lab) member(id string) *Member {
	i := slices.IndexFunc(l.in.Members, func(m Member) bool { return m.ID == id })
	if i < 0 {
		l.t.Fatalf("seed %d: %q is no member%v", l.seed, id, l.told)
	}
	return &l.in.Members[i]
}

// misplaced is how many tasks are not where the target says.
func (l *lab) misplaced() (n int) {
	held := map[Task]string{}
	for _, m := range l.in.Members {
		for _, task := range m.Owned {
			held[task] = m.ID
		}
	}
	for task, id := range owners(target(l.in)) {
		n += boolInt(held[task] != id)
	}
	return n
}

// From any state the group comes to where the target says, and stays there, whatever happens on the way.
func TestWarmUpsEndAtTheTarget(t *testing.T) {
	most, sum := 0, 0
	const seeds = 800
	for seed := range uint64(seeds) {
		l := newLab(t, seed)
		for range l.rnd.IntN(12) {
			if l.rnd.IntN(2) == 0 {
				l.disturb()
			}
			l.generation()
		}
		l.disturb()
		n, bound := 0, 10+5*l.misplaced()
		for !l.generation() {
			if n++; n > bound {
				t.Fatalf("seed %d: not at rest after %d generations%v", seed, n, l.told[max(0, len(l.told)-40):])
			}
		}
		most, sum = max(most, n), sum+n
		for range 3 {
			before := owners(target(l.in))
			if !l.generation() || !reflect.DeepEqual(owners(target(l.in)), before) {
				t.Fatalf("seed %d: a group at rest moved%v", seed, l.told[max(0, len(l.told)-4):])
			}
		}
	}
	t.Logf("at rest after %d generations at most, %.1f on average", most, float64(sum)/seeds)
}

// Whatever members declare, claim, hold and are about to do, and whatever claims in Kafka name: what a
// generation gives out is valid, so that the leader never has to refuse its own plan.
func TestWarmUpsOfAnyStateAreValid(t *testing.T) {
	warming, later := 0, 0
	for seed := range uint64(1500) {
		rnd := rand.New(rand.NewPCG(seed, 8))
		w := newWorld(seed, 1+rnd.IntN(6), 1+rnd.IntN(3), 1+rnd.IntN(8), rnd.IntN(5))
		w.in.Options.MaxWarmups, w.in.Options.AcceptableLag = rnd.IntN(4), int64(rnd.IntN(300))
		w.in.Claims = map[Task]Claim{}
		for i, s := range w.in.Members[0].Sets {
			w.in.Members[0].Sets[i].Tables = append(s.Tables, Table{Name: "u", Changelog: fmt.Sprintf("second-%d", i)})
		}
		sets := w.in.Members[0].Sets
		for i := range w.in.Members {
			m := &w.in.Members[i]
			m.NoStandby, m.Draining, m.Rack = rnd.IntN(6) == 0, rnd.IntN(6) == 0, []string{"", "r1", "r2"}[rnd.IntN(3)]
			m.Sets = nil
			for _, s := range sets {
				own := Set{Sources: s.Sources[:1+rnd.IntN(len(s.Sources))], Tables: s.Tables[:len(s.Tables)-rnd.IntN(2)]}
				if rnd.IntN(8) > 0 {
					m.Sets = append(m.Sets, own)
				}
			}
		}
		w.settle(target(w.in), 4)
		for range rnd.IntN(4) {
			if w.join(sets); rnd.IntN(3) == 0 {
				w.leave()
			}
		}
		if seed%2 == 0 {
			w.garble()
		}
		for _, s := range sets {
			for p := range w.in.Counts[s.Sources[0]] {
				if rnd.IntN(2) == 0 {
					claim := Claim{Sources: s.Sources}
					for _, table := range s.Tables {
						claim.Changelogs = append(claim.Changelogs, table.Changelog)
					}
					w.in.Claims[Task{s.Key(), p}] = claim
				}
			}
		}
		if w.in.Options.Capacity = int32(rnd.IntN(3) * rnd.IntN(8)); w.in.Options.Capacity > 0 {
			if _, err := Target(w.in); err != nil {
				w.in.Options.Capacity = 0
			}
		}
		next := Transition(w.in, target(w.in))
		if err := ValidateNext(w.in, next); err != nil {
			t.Fatalf("seed %d: %v\n%+v\n%+v", seed, err, next, w.in)
		}
		for _, u := range next.Warming {
			warming, later = warming+boolInt(!u.Later), later+boolInt(u.Later)
		}
	}
	if warming < 500 || later < 30 {
		t.Errorf("the cases see too little: %d warm-ups, %d later", warming, later)
	}
}
