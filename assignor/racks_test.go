package assignor

import (
	"fmt"
	"reflect"
	"testing"
)

// pairsOnARack counts copies of the same task on one rack: pairs.
func pairsOnARack(in Input, p Plan) (pairs int) {
	rack := map[string]string{}
	for _, m := range in.Members {
		rack[m.ID] = m.Rack
	}
	at := map[Task][]string{}
	for id, share := range p.Members {
		for _, list := range [][]Task{share.Active, share.Standby} {
			for _, task := range list {
				if rack[id] != "" {
					at[task] = append(at[task], rack[id])
				}
			}
		}
	}
	for _, racks := range at {
		for i := range racks {
			for j := range i {
				pairs += boolInt(racks[i] == racks[j])
			}
		}
	}
	return pairs
}

// With as many members on each rack, and racks enough, no two copies of a task share one. With several
// sets evenness over all of them goes first, and may leave a pair or two.
func TestCopiesAreOnDifferentRacks(t *testing.T) {
	each(cases/4, func(seed uint64, w *world) {
		racks := w.in.Options.Replicas + 1 + w.rnd.IntN(2)
		size := 1 + w.rnd.IntN(3)
		for len(w.in.Members) < racks*size {
			w.join(w.in.Members[0].Sets)
		}
		w.in.Members = w.in.Members[:racks*size]
		for i := range w.in.Members {
			w.in.Members[i].Rack = fmt.Sprint("rack-", i%racks)
		}
		for step := range int32(3) {
			p := target(w.in)
			checkPlan(t, seed, w.in, p)
			if pairs := pairsOnARack(w.in, p); step == 0 && pairs > 2*boolInt(len(p.Sets) > 1) {
				t.Fatalf("seed %d: %d pairs of copies share a rack", seed, pairs)
			}
			w.settle(p, step)
			if again := target(w.shuffled()); !reflect.DeepEqual(again, p) {
				t.Fatalf("seed %d: a settled plan moved", seed)
			}
			w.join(w.in.Members[0].Sets)
			w.in.Members[len(w.in.Members)-1].Rack = fmt.Sprint("rack-", w.rnd.IntN(racks+1))
		}
	})
}

// Racks never cost evenness, and members without one are as good as any.
func TestRacksAreAWish(t *testing.T) {
	each(cases/4, func(seed uint64, w *world) {
		for i := range w.in.Members {
			if w.rnd.IntN(3) > 0 {
				w.in.Members[i].Rack = fmt.Sprint(w.rnd.IntN(3))
			}
		}
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
