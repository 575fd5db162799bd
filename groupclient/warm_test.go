package groupclient

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// disk is what a worker keeps of tasks that it is not the active of: a copy is unknown at first, then far
// behind, and warm after a while.
type disk struct {
	mu    sync.Mutex
	warms func() int64 // the lag of a copy that has had its time
	takes time.Duration
	since map[Task]time.Time
	asked int    // how often it was looked at
	group *Group // whose copies they are
}

func newDisk(takes time.Duration) *disk {
	return &disk{takes: takes, since: map[Task]time.Time{}, warms: func() int64 { return 3 }}
}

func (d *disk) copies() (list []Copy) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	for t, since := range d.since {
		c := Copy{Task: t, Lag: -1}
		if had := time.Since(since); had >= d.takes {
			c.Lag = d.warms()
		} else if had > 300*time.Millisecond {
			c.Lag = 1 << 30
		}
		list = append(list, c)
	}
	return list
}

// given: the standbys are followed from now on, others are gone.
func (d *disk) given(standby []Task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for t := range d.since {
		if !slices.Contains(standby, t) {
			delete(d.since, t)
		}
	}
	for _, t := range standby {
		if _, ok := d.since[t]; !ok {
			d.since[t] = time.Now()
		}
	}
}

// warmer is a worker of the simulation with a disk.
type warmer struct {
	*worker
	disk *disk
	mu   sync.Mutex
	gens []Assignment
}

func (w *warmer) Assigned(a Assignment) {
	w.disk.given(a.Standby)
	w.mu.Lock()
	w.gens = append(w.gens, a)
	w.mu.Unlock()
	w.worker.Assigned(a)
}

func (w *warmer) generations() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.gens)
}

func (w *warmer) last() Assignment {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gens[len(w.gens)-1]
}

func (s *simulation) warmer(declared Prepared, d *disk, change ...func(*Config)) *warmer {
	w := &warmer{worker: idleWorker(s.rnd.Uint64()), disk: d}
	w.line = &line{model: s.model}
	cfg := Config{Group: "g", MaxWarmups: 2, AcceptableLag: 100, Copies: d.copies}
	for _, c := range change {
		c(&cfg)
	}
	w.Group = newGroup(cfg, w.line, w)
	d.group = w.Group
	w.busy.Go(func() { _ = w.Run(w.ctx) })
	w.Join(declared)
	s.workers = append(s.workers, w.worker)
	return w
}

// inWarmth runs a test with a group that one member has for itself, and ends its members.
func inWarmth(t *testing.T, run func(t *testing.T, s *simulation, first *warmer)) {
	onFakeClock(t, func(t *testing.T, _ *bench) {
		s := newSimulation(t, 1)
		first := s.warmer(orders(8), newDisk(time.Second))
		pass(20 * time.Second)
		run(t, s, first)
		for _, w := range s.workers {
			w.kill()
		}
		s.workers = nil
	})
}

// A new member gets its tasks once it has warm copies of them, two at a time, and no task is without an
// owner longer than a hand-over takes.
func TestANewMemberWarmsUp(t *testing.T) {
	inWarmth(t, func(t *testing.T, s *simulation, first *warmer) {
		second := s.warmer(orders(8), newDisk(5*time.Second))
		pass(4 * time.Second)
		if a := second.last(); len(a.Active) != 0 || len(a.Standby) != 2 || len(first.last().Active) != 8 {
			t.Fatalf("at first: %+v, %+v", a, first.last())
		}
		pass(40 * time.Second)
		if a := second.last(); len(a.Active) != 4 || len(a.Standby) != 0 || len(first.last().Active) != 4 {
			t.Errorf("in the end: %+v, %+v", a, first.last())
		}
		if n := second.generations(); n > 8 {
			t.Errorf("%d generations", n)
		}
		second.mu.Lock()
		for at, a := range second.gens[1:] {
			for _, task := range a.Active {
				if before := second.gens[at]; !slices.Contains(before.Active, task) && !slices.Contains(before.Standby, task) {
					t.Errorf("%s came without a copy", task)
				}
			}
		}
		second.mu.Unlock()
		before := second.generations()
		pass(10 * time.Minute)
		if n := second.generations() - before; n > 0 {
			t.Errorf("%d generations of a group that is where it should be", n)
		}
		s.check("in the end")
	})
}

// A copy that never gets warm, or is warm whenever somebody looks and not any more when the group plans,
// makes no storm of rebalances, and the leader plans anew now and then.
func TestACopyWithoutProgressMakesNoStorm(t *testing.T) {
	for name, warm := range map[string]func(*Group) bool{
		"never warm":       func(*Group) bool { return false },
		"warm when looked": func(g *Group) bool { return g.phase == stable },
	} {
		inWarmth(t, func(t *testing.T, s *simulation, first *warmer) {
			d := newDisk(time.Second)
			d.warms = func() int64 {
				if warm(d.group) {
					return 0
				}
				return 1 << 20
			}
			second := s.warmer(orders(8), d)
			pass(time.Minute)
			early := second.generations()
			pass(time.Hour)
			n := second.generations() - early
			t.Logf("%s: %d generations in the first minute, %d in the hour after it", name, early, n)
			if early > 8 || n > 70 || n < 5 {
				t.Errorf("%s: %d generations in the first minute, %d in the hour after it", name, early, n)
			}
			if len(first.last().Active) != 8 {
				t.Errorf("%s: %+v", name, first.last())
			}
			s.check(name)
		})
	}
}

// When the leader that has planned is gone, who warms up still asks.
func TestWarmUpsOutliveTheLeader(t *testing.T) {
	inWarmth(t, func(t *testing.T, s *simulation, first *warmer) {
		second := s.warmer(orders(8), newDisk(8*time.Second))
		third := s.warmer(orders(8), newDisk(8*time.Second))
		pass(5 * time.Second)
		i := s.leader()
		lost := s.remove(i)
		lost.kill()
		pass(2 * time.Minute)
		for _, w := range []*warmer{first, second, third} {
			if w.worker != lost && len(w.last().Active) != 4 {
				t.Errorf("%+v", w.last())
			}
		}
		s.check("in the end")
	})
}

// Nothing is looked at, and no join asked for, when nothing warms up.
func TestCopiesAreNotLookedAtForNothing(t *testing.T) {
	inWarmth(t, func(t *testing.T, s *simulation, first *warmer) {
		off := func(c *Config) { c.MaxWarmups = 0 }
		first.kill()
		s.workers = nil
		pass(15 * time.Second)
		one, other := s.warmer(orders(8), newDisk(time.Second), off), s.warmer(orders(8), newDisk(time.Second), off)
		pass(time.Minute)
		if len(one.last().Active) != 4 || len(other.last().Active) != 4 {
			t.Errorf("%+v, %+v", one.last(), other.last())
		}
		looked := other.disk.asked
		pass(time.Minute)
		if other.disk.asked != looked {
			t.Error("copies are looked at at each heartbeat")
		}
	})
}
