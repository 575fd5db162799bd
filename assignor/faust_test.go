package assignor

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// Faust's contract: what its own tests ask of its assignor, with their ranges, and the cases in which it
// is known to do otherwise. Members are named as there, by ascending numbers.

// faust is a group of one set.
func faust(partitions, members, replicas int) *world {
	w := &world{rnd: rand.New(rand.NewPCG(uint64(partitions), uint64(members))), in: Input{
		Counts: map[string]int32{"orders": int32(partitions)}, Options: Options{Replicas: replicas}}}
	for range members {
		w.join([]Set{{Sources: []string{"orders"}, Tables: []Table{{Name: "t", Changelog: "orders-log"}}}})
	}
	return w
}

func (w *world) sets() []Set { return w.in.Members[0].Sets }

// shape is "active|standby" of each member, in numbers.
func shape(p Plan) (counts []string) {
	for _, share := range p.Members {
		counts = append(counts, fmt.Sprintf("%d|%d", len(share.Active), len(share.Standby)))
	}
	slices.Sort(counts)
	return counts
}

// ranges are those of Faust's tests. Large groups are few: all of this is tried in seconds.
func ranges(n int, run func(seed uint64, rnd *rand.Rand, p, r, members int)) {
	for seed := range uint64(n) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		most := []int{8, 8, 32, 32, 128}[seed%5]
		if seed%100 == 0 {
			most = 1024
		}
		members := 1 + rnd.IntN(most)
		run(seed, rnd, rnd.IntN(257), rnd.IntN(min(65, members)), members)
	}
}

// Scenario 1: a fresh group.
func TestFaustFresh(t *testing.T) {
	ranges(101, func(seed uint64, _ *rand.Rand, p, r, members int) {
		w := faust(p, members, r)
		checkPlan(t, seed, w.in, target(w.in))
	})
}

// Scenario 2: 1 to 16 join. No old member gets an active that it did not have, with replicas or without;
// and where there are partitions enough nobody is idle, with replicas or without.
func TestFaustGrowth(t *testing.T) {
	ranges(101, func(seed uint64, rnd *rand.Rand, p, r, members int) {
		w := faust(p, members, r)
		before := target(w.in)
		w.settle(before, 1)
		for range 1 + rnd.IntN(16) {
			w.join(w.sets())
		}
		after := target(w.in)
		checkPlan(t, seed, w.in, after)
		for id, share := range before.Members {
			for _, task := range after.Members[id].Active {
				if !slices.Contains(share.Active, task) {
					t.Fatalf("seed %d: the old member %s gets %s", seed, id, task)
				}
			}
		}
		noneIdle(t, seed, w.in, after)
	})
}

func noneIdle(t *testing.T, seed uint64, in Input, p Plan) {
	t.Helper()
	tasks := 0
	for _, u := range p.Sets {
		tasks += int(u.Partitions)
	}
	for id, share := range p.Members {
		if tasks >= len(in.Members) && len(share.Active) == 0 {
			t.Fatalf("seed %d: %s is idle", seed, id)
		}
	}
}

// Scenario 3: some leave. The others keep what they have, and get only what those had.
func TestFaustShrink(t *testing.T) {
	ranges(101, func(seed uint64, rnd *rand.Rand, p, r, members int) {
		w := faust(p, members, r)
		before := target(w.in)
		w.settle(before, 1)
		for range rnd.IntN(members) {
			w.leave()
		}
		after := target(w.in)
		checkPlan(t, seed, w.in, after)
		for id, share := range after.Members {
			for _, task := range before.Members[id].Active {
				if !slices.Contains(share.Active, task) {
					t.Fatalf("seed %d: %s loses %s", seed, id, task)
				}
			}
		}
		noneIdle(t, seed, w.in, after)
	})
}

// Scenario 4: it comes to an end, whatever is claimed.
func TestFaustTerminates(t *testing.T) {
	ranges(101, func(seed uint64, rnd *rand.Rand, p, r, members int) {
		w := faust(p, members, r)
		for i := range w.in.Members {
			m := &w.in.Members[i]
			m.Generation = int32(rnd.IntN(3))
			for range rnd.IntN(20) {
				m.Owned = append(m.Owned, Task{"orders", int32(rnd.IntN(300) - 20)})
				m.Copies = append(m.Copies, Copy{Task{"orders", int32(rnd.IntN(300) - 20)}, int64(rnd.IntN(100))})
			}
		}
		checkPlan(t, seed, w.in, target(w.in))
	})
}

// The data cases: the numbers of actives and standbys of each member.
func TestFaustShapes(t *testing.T) {
	for _, c := range []struct {
		partitions, members, replicas int
		want                          []string
	}{
		{8, 3, 0, []string{"2|0", "3|0", "3|0"}},
		{8, 3, 2, []string{"2|6", "3|5", "3|5"}},
		{16, 4, 1, []string{"4|4", "4|4", "4|4", "4|4"}},
		{1, 3, 1, []string{"0|0", "0|1", "1|0"}},
		{1, 3, 5, []string{"0|1", "0|1", "1|0"}}, // as many standbys as there are others
		{3, 1, 4, []string{"3|0"}},
		{0, 2, 1, []string{"0|0", "0|0"}},
	} {
		w := faust(c.partitions, c.members, c.replicas)
		p := target(w.in)
		checkPlan(t, 0, w.in, p)
		if got := shape(p); !slices.Equal(got, c.want) {
			t.Errorf("%d partitions, %d members, %d replicas: %v, want %v", c.partitions, c.members, c.replicas, got, c.want)
		}
	}
}

// Faust leaves the third member without anything: R0 and R1.
func TestFaustFourPartitionsTwoToThreeMembers(t *testing.T) {
	for replicas := range 2 {
		w := faust(4, 2, replicas)
		w.settle(target(w.in), 1)
		w.join(w.sets())
		p := target(w.in)
		checkPlan(t, 0, w.in, p)
		if m := MovesOf(w.in, p); m.Active != 1 {
			t.Errorf("%d replicas: %d tasks move, not 1", replicas, m.Active)
		}
	}
}

func TestFaustLeaveAndRejoin(t *testing.T) {
	for replicas := range 2 {
		w := faust(100, 40, replicas)
		w.settle(target(w.in), 1)
		if again := target(w.in); MovesOf(w.in, again) != (Moves{}) {
			t.Error("a rebalance without a change moved something") // 21 of 100 with Faust
		}
		w.leave()
		w.settle(target(w.in), 2)
		w.join(w.sets())
		p := target(w.in)
		checkPlan(t, 0, w.in, p)
		noneIdle(t, 0, w.in, p)
	}
}

// Two members that believe to have the same; the newest generation is right, and nobody keeps a task
// that is given to another.
func TestFaustZombies(t *testing.T) {
	for replicas := range 2 {
		w := faust(4, 3, replicas)
		both := []Task{{"orders", 0}, {"orders", 1}}
		for i := range 2 {
			w.in.Members[i].Owned, w.in.Members[i].Generation = both, int32(i)
		}
		p := target(w.in)
		checkPlan(t, 0, w.in, p)
		if m := MovesOf(w.in, p); m.Active > 0 {
			t.Errorf("%d tasks of the newest claim move", m.Active)
		}
		next := Transition(w.in, p)
		if err := ValidateNext(w.in, next); err != nil {
			t.Error(err)
		}
		if !slices.Equal(next.Members[w.in.Members[1].ID].Active[:2], both) {
			t.Errorf("got %+v", next.Members)
		}
	}
}

// Topics that are made again with fewer or more partitions while members claim the old ones.
func TestFaustStalePartitions(t *testing.T) {
	w := faust(8, 3, 1)
	w.settle(target(w.in), 1)
	w.in.Counts["orders"] = 4 // an assertion of Faust's leader fails
	p := target(w.in)
	checkPlan(t, 0, w.in, p)

	w = faust(4, 3, 1)
	before := target(w.in)
	w.settle(before, 1)
	w.in.Counts["orders"] = 8
	p = target(w.in)
	checkPlan(t, 0, w.in, p)
	now := owners(p)
	for task, id := range owners(before) {
		if now[task] != id {
			t.Errorf("%s moved from %s to %s", task, id, now[task])
		}
	}

	w = faust(3, 2, 0)
	w.in.Members[0].Owned = []Task{{"orders", 0}, {"orders", 1}, {"orders", 99}} // Faust keeps 99
	checkPlan(t, 0, w.in, target(w.in))
}
