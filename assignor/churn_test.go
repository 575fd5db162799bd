package assignor

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// churn is a group that members join and leave one after another, as in the simulation that Faust's
// assignor was measured with: 30 runs of 200 steps, 3 to 14 members, 16 to 100 partitions, the
// order of the members shuffled, everything warm again before the next step.
type churn struct {
	steps                       float64
	moves, least, orphans, cold int // actives that changed: in all, the least possible, of members that left, without a copy
	standbys                    int // copies made by members that had nothing of the task
	idle                        int // steps after which somebody has no active, though there are tasks enough
	spread, standbySpread       int // sums of most minus fewest
	most, mostStandby           int
}

func (c *churn) run(t testing.TB, seed uint64, replicas int) {
	rnd := rand.New(rand.NewPCG(seed, 11))
	w := faust(16+rnd.IntN(85), 3+rnd.IntN(12), replicas)
	before := target(w.in)
	for step := range int32(200) {
		w.settle(before, step)
		if n := len(w.in.Members); n == 3 || n < 14 && rnd.IntN(2) == 0 {
			w.join(w.sets())
		} else {
			w.leave()
		}
		w.in = w.shuffled()
		after := target(w.in)
		checkPlan(t, seed, w.in, after)
		c.count(w.in, before, after)
		before = after
	}
}

func (c *churn) count(in Input, before, after Plan) {
	c.steps++
	was := owners(before)
	had := func(id string, task Task) bool {
		return was[task] == id || slices.Contains(before.Members[id].Standby, task)
	}
	for task, id := range owners(after) {
		_, lives := after.Members[was[task]]
		c.moves += boolInt(was[task] != id)
		c.orphans += boolInt(!lives)
		c.cold += boolInt(!had(id, task))
	}
	c.least += leastMoves(before, after)
	idle := false
	for id, share := range after.Members {
		idle = idle || len(share.Active) == 0
		for _, task := range share.Standby {
			c.standbys += boolInt(!had(id, task))
		}
	}
	c.idle += boolInt(idle && len(was) >= len(in.Members))
	actives := spread(after, func(s Share) int { return len(s.Active) })
	standbys := spread(after, func(s Share) int { return len(s.Standby) })
	c.spread, c.standbySpread = c.spread+actives, c.standbySpread+standbys
	c.most, c.mostStandby = max(c.most, actives), max(c.mostStandby, standbys)
}

// leastMoves is how many actives have to change for even shares of one set: those who have most keep
// one more.
func leastMoves(before, after Plan) int {
	tasks, members := len(owners(before)), len(after.Members)
	var owned []int
	for id := range after.Members {
		owned = append(owned, len(before.Members[id].Active))
	}
	slices.Sort(owned)
	slices.Reverse(owned)
	moves := tasks
	for i, n := range owned {
		moves -= min(n, tasks/members+boolInt(i < tasks%members))
	}
	return moves
}

// Nobody is ever idle, no plan is uneven, and nothing moves that need not.
func TestChurn(t *testing.T) {
	for replicas := range 3 {
		var c churn
		for seed := range uint64(2) {
			c.run(t, seed, replicas)
		}
		t.Logf("R%d, a step: %.2f moves, least %.2f, %.2f orphans, %.2f cold, %.2f standbys made; idle %.1f %%; spread %.2f (most %d), of standbys %.2f (most %d)",
			replicas, float64(c.moves)/c.steps, float64(c.least)/c.steps, float64(c.orphans)/c.steps, float64(c.cold)/c.steps, float64(c.standbys)/c.steps,
			100*float64(c.idle)/c.steps, float64(c.spread)/c.steps, c.most, float64(c.standbySpread)/c.steps, c.mostStandby)
		if c.moves != c.least || c.idle > 0 || c.most > 1 || c.mostStandby > 1 {
			t.Errorf("R%d: %+v", replicas, c)
		}
	}
}

// The figures of TestChurn by replicas: what a step moves, and what of it is cold.
func BenchmarkChurn(b *testing.B) {
	for replicas := range 3 {
		b.Run(fmt.Sprintf("R%d", replicas), func(b *testing.B) {
			var c churn
			for b.Loop() {
				c.run(b, uint64(c.steps)/200%30, replicas)
			}
			b.ReportMetric(float64(c.moves)/c.steps, "moves/step")
			b.ReportMetric(float64(c.least)/c.steps, "least/step")
			b.ReportMetric(float64(c.cold)/c.steps, "cold/step")
			b.ReportMetric(float64(c.standbys)/c.steps, "standbys/step")
			b.ReportMetric(100*float64(c.idle)/c.steps, "%idle")
		})
	}
}
