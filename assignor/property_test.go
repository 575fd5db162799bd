package assignor

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// The whole ranges: partitions 0..256, replicas 0..64, members 1..1,024; mostly small, some large.
func wide(n int, run func(seed uint64, w *world)) {
	for seed := range uint64(n) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		members, partitions, replicas := 1+rnd.IntN(8), rnd.IntN(24), rnd.IntN(4)
		if seed%8 == 0 {
			members, partitions, replicas = 1+rnd.IntN(48), rnd.IntN(257), rnd.IntN(65)
		}
		if seed%128 == 0 {
			members = 1 + rnd.IntN(1024)
		}
		w := newWorld(seed, members, 1+rnd.IntN(3), 1, replicas)
		for _, s := range w.in.Members[0].Sets {
			count := int32(rnd.IntN(partitions + 1))
			for _, topic := range s.Sources {
				w.in.Counts[topic] = count
			}
		}
		run(seed, w)
	}
}

func perSet(set string) func(tasks []Task) int {
	return func(tasks []Task) (n int) {
		for _, t := range tasks {
			n += boolInt(t.Set == set)
		}
		return n
	}
}

// checkPlan is what holds for every plan of members that declare the same. It does not ask Validate.
func checkPlan(t testing.TB, seed uint64, in Input, p Plan) {
	t.Helper()
	active, standby := map[Task]int{}, map[Task]int{}
	for id, share := range p.Members {
		for _, task := range share.Active {
			active[task]++
		}
		for _, task := range share.Standby {
			standby[task]++
			if slices.Contains(share.Active, task) {
				t.Fatalf("seed %d: %s has a standby beside its active on %s", seed, task, id)
			}
		}
		if len(slices.Compact(slices.Clone(share.Standby))) != len(share.Standby) {
			t.Fatalf("seed %d: %s has two standbys of one task", seed, id)
		}
	}
	tasks := 0
	for _, u := range p.Sets {
		tasks += int(u.Partitions)
		for partition := range u.Partitions {
			task := Task{u.Key, partition}
			if want := min(in.Options.Replicas, len(in.Members)-1); active[task] != 1 || standby[task] != want {
				t.Fatalf("seed %d: %s has %d actives and %d standbys, not 1 and %d", seed, task, active[task], standby[task], want)
			}
		}
		count := perSet(u.Key)
		if got := spread(p, func(s Share) int { return count(s.Standby) }); got > 1 {
			t.Fatalf("seed %d: standbys of %s differ by %d", seed, u.Key, got)
		}
	}
	if len(active) != tasks || len(p.Members) != len(in.Members) {
		t.Fatalf("seed %d: %d tasks of %d, %d members of %d", seed, len(active), tasks, len(p.Members), len(in.Members))
	}
	checkBalance(t, seed, p)
}

func TestWideFreshPlansAndFixedPoints(t *testing.T) {
	wide(150, func(seed uint64, w *world) {
		p := target(w.in)
		checkPlan(t, seed, w.in, p)
		w.settle(p, 1)
		if again := target(w.shuffled()); !reflect.DeepEqual(again, p) {
			t.Fatalf("seed %d: a settled plan moved", seed)
		}
		if next := Transition(w.in, p); !reflect.DeepEqual(next, p) {
			t.Fatalf("seed %d: the transition of a settled plan is another", seed)
		}
	})
}

func TestWideGarbledClaims(t *testing.T) {
	wide(150, func(seed uint64, w *world) {
		w.garble()
		p := target(w.in)
		checkPlan(t, seed, w.in, p)
		if err := Validate(w.in, p); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if again := target(w.shuffled()); !reflect.DeepEqual(again, p) {
			t.Fatalf("seed %d: another order gave another plan", seed)
		}
	})
}

// With one set: growing gives no old member anything new, shrinking moves only orphans, and what is
// found can be found again.
func TestWideGrowthAndShrink(t *testing.T) {
	wide(150, func(seed uint64, w *world) {
		sets := w.in.Members[0].Sets[:1]
		for i := range w.in.Members {
			w.in.Members[i].Sets = sets
		}
		for step := range 3 {
			before := target(w.in)
			checkPlan(t, seed, w.in, before)
			w.settle(before, int32(step))
			if w.rnd.IntN(2) == 0 {
				for range 1 + w.rnd.IntN(16) {
					w.join(sets)
				}
			} else {
				for range w.rnd.IntN(len(w.in.Members)) {
					w.leave()
				}
			}
			after := target(w.in)
			was, now := owners(before), owners(after)
			for task, id := range now {
				_, old := before.Members[id]
				_, lives := after.Members[was[task]]
				if was[task] != id && lives && old {
					t.Fatalf("seed %d: %s moved from %s to %s", seed, task, was[task], id)
				}
			}
		}
	})
}

// An orphan does not go cold while one of its standbys was given a task that it had nothing of.
func TestNoOrphanGoesColdWhileItsStandbyHasRoom(t *testing.T) {
	wide(150, func(seed uint64, w *world) {
		before := target(w.in)
		w.settle(before, 1)
		for range w.rnd.IntN(len(w.in.Members)) {
			w.leave()
		}
		after := target(w.in)
		now := owners(after)
		holds := func(id string, task Task) bool {
			return slices.Contains(before.Members[id].Active, task) || slices.Contains(before.Members[id].Standby, task)
		}
		for task, id := range now {
			if holds(id, task) {
				continue
			}
			for other, share := range after.Members {
				if !slices.Contains(before.Members[other].Standby, task) {
					continue
				}
				for _, got := range share.Active {
					if got.Set == task.Set && !holds(other, got) {
						t.Fatalf("seed %d: %s went cold to %s, while its standby %s got %s cold", seed, task, id, other, got)
					}
				}
			}
		}
	})
}

// A standby that becomes the active is no copy any more; all other copies that fit stay.
func TestAStandbyIsPromotedInPlace(t *testing.T) {
	w := newWorld(1, 3, 1, 1, 1)
	for topic := range w.in.Counts {
		w.in.Counts[topic] = 6
	}
	before := target(w.in)
	w.settle(before, 1)
	gone := w.in.Members[0].ID
	w.in.Members = w.in.Members[1:]
	after := target(w.in)
	cold := 0
	for _, task := range before.Members[gone].Active {
		cold += boolInt(!slices.Contains(before.Members[owners(after)[task]].Standby, task))
	}
	if cold > 0 {
		t.Errorf("%d orphans went cold", cold)
	}
	checkPlan(t, 0, w.in, after)
}

func TestCapacity(t *testing.T) {
	w := newWorld(1, 3, 1, 1, 1)
	for topic := range w.in.Counts {
		w.in.Counts[topic] = 10
	}
	for capacity, fits := range map[int32]bool{0: true, 1: false, 3: false, 4: true, 5: true, 100: true} {
		w.in.Options.Capacity = capacity
		p, err := Target(w.in)
		if fits != (err == nil) {
			t.Errorf("capacity %d: %v", capacity, err)
		}
		if refused, ok := err.(*CapacityError); !fits && (!ok || refused.Partitions != 10 || refused.Members != 3 || refused.Capacity != capacity) {
			t.Errorf("capacity %d: %v", capacity, err)
		}
		if fits {
			checkPlan(t, 0, w.in, p)
			if err := Validate(w.in, p); err != nil {
				t.Error(err)
			}
		}
	}
}
