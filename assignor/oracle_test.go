package assignor

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// price is what a plan of equal members costs, by rank: the first difference decides.
type price struct{ unequal, total, moves, grown, cold int }

func (p price) less(q price) bool {
	return cmp.Or(cmp.Compare(p.unequal, q.unequal), cmp.Compare(p.total, q.total), cmp.Compare(p.moves, q.moves),
		cmp.Compare(p.grown, q.grown), cmp.Compare(p.cold, q.cold)) < 0
}

// facts are what an oracle needs to know of an input, read off it without the package's own problem.
type facts struct {
	members []string
	old     map[string]bool
	tasks   []Task
	owner   map[Task]string
	copies  map[Task]map[string]bool
	growing bool
}

func factsOf(in Input) facts {
	f := facts{old: map[string]bool{}, owner: map[Task]string{}, copies: map[Task]map[string]bool{}}
	newest := map[Task]int32{}
	members := slices.Clone(in.Members)
	slices.SortFunc(members, func(a, b Member) int { return compareTasks(Task{Set: a.ID}, Task{Set: b.ID}) })
	for _, set := range in.Members[0].Sets {
		for p := range in.Counts[set.Sources[0]] {
			f.tasks = append(f.tasks, Task{set.Key(), p})
		}
	}
	for _, m := range members {
		f.members = append(f.members, m.ID)
		for _, t := range m.Owned {
			if g, ok := newest[t]; slices.Contains(f.tasks, t) && (!ok || g < m.Generation) {
				newest[t], f.owner[t] = m.Generation, m.ID
			}
		}
	}
	f.growing = len(f.owner) == len(f.tasks)
	for _, id := range f.owner {
		f.old[id] = true
	}
	for _, m := range members {
		for _, c := range m.Copies {
			if f.copies[c.Task] == nil {
				f.copies[c.Task] = map[string]bool{}
			}
			f.copies[c.Task][m.ID] = true
		}
	}
	return f
}

// price is that of giving task i to member at[i].
func (f facts) price(at []int) price {
	var p price
	bySet, all := map[string][]int{}, make([]int, len(f.members))
	for i, t := range f.tasks {
		m := at[i]
		if bySet[t.Set] == nil {
			bySet[t.Set] = make([]int, len(f.members))
		}
		bySet[t.Set][m]++
		all[m]++
		c := f.cost(i, m)
		p.moves, p.grown, p.cold = p.moves+c.moves, p.grown+c.grown, p.cold+c.cold
	}
	for _, counts := range bySet {
		for _, n := range counts {
			p.unequal += n * n
		}
	}
	for _, n := range all {
		p.total += n * n
	}
	return p
}

// cost is what a member as the active of a task adds to the price.
func (f facts) cost(i, m int) price {
	t, id := f.tasks[i], f.members[m]
	owner := f.owner[t]
	moves := boolInt(owner != "" && owner != id)
	return price{moves: moves, grown: moves * boolInt(f.growing && f.old[id]),
		cold: boolInt(owner != id && !f.copies[t][id] && (owner != "" || len(f.copies[t]) > 0))}
}

// best tries every way to give the tasks to the members.
func (f facts) best() price {
	costs := make([][]price, len(f.tasks))
	sets, keys := make([]int, len(f.tasks)), map[string]int{}
	for i, t := range f.tasks {
		if _, ok := keys[t.Set]; !ok {
			keys[t.Set] = len(keys)
		}
		sets[i] = keys[t.Set]
		for m := range f.members {
			costs[i] = append(costs[i], f.cost(i, m))
		}
	}
	best := price{unequal: 1 << 30}
	counts, totals := make([][]int, len(keys)), make([]int, len(f.members))
	for i := range counts {
		counts[i] = make([]int, len(f.members))
	}
	var try func(i int, p price)
	try = func(i int, p price) {
		if i == len(f.tasks) {
			if p.less(best) {
				best = p
			}
			return
		}
		for m := range f.members {
			q, c := p, costs[i][m]
			n := &counts[sets[i]][m]
			q.unequal += 2**n + 1
			q.total += 2*totals[m] + 1
			q.moves, q.grown, q.cold = q.moves+c.moves, q.grown+c.grown, q.cold+c.cold
			*n++
			totals[m]++
			try(i+1, q)
			counts[sets[i]][m]--
			totals[m]--
		}
	}
	try(0, price{})
	return best
}

func (f facts) placed(p Plan) []int {
	got, at := owners(p), make([]int, len(f.tasks))
	for i, t := range f.tasks {
		at[i] = slices.Index(f.members, got[t])
	}
	return at
}

// small is a group that can be searched through: any claims, any copies.
func small(seed uint64) *world {
	rnd := rand.New(rand.NewPCG(seed, 7))
	w := &world{rnd: rnd, in: Input{Counts: map[string]int32{}, Options: Options{Replicas: rnd.IntN(3)}}}
	members, left := 1+rnd.IntN(4), []int{9, 9, 9, 7, 6}[rnd.IntN(5)]
	if members == 4 {
		left = 6
	}
	var sets []Set
	for i := 0; left > 0 && i < 4; i++ {
		n := 1 + rnd.IntN(left)
		topic := fmt.Sprintf("topic-%d", i)
		w.in.Counts[topic] = int32(n)
		sets = append(sets, Set{Sources: []string{topic}})
		left -= n
	}
	for range members {
		w.join(sets)
	}
	return w
}

func (w *world) scatter() {
	for i := range w.in.Members {
		m := &w.in.Members[i]
		for _, s := range m.Sets {
			for p := range w.in.Counts[s.Sources[0]] {
				switch w.rnd.IntN(5) {
				case 0:
					m.Owned = append(m.Owned, Task{s.Key(), p})
				case 1:
					m.Copies = append(m.Copies, Copy{Task{s.Key(), p}, int64(w.rnd.IntN(3))})
				}
			}
		}
		m.Generation = int32(w.rnd.IntN(3))
	}
}

// Target is the best plan there is: compared with all plans of small groups.
func TestTargetIsTheBestPlan(t *testing.T) {
	for seed := range uint64(300) {
		w := small(seed)
		switch seed % 3 {
		case 0:
			w.scatter()
		case 1:
			w.settle(target(w.in), 1)
			w.join(w.in.Members[0].Sets)
		case 2:
			w.join(w.in.Members[0].Sets)
			w.settle(target(w.in), 1)
			w.leave()
		}
		f := factsOf(w.in)
		if p, best := f.price(f.placed(target(w.in))), f.best(); p != best {
			t.Fatalf("seed %d: got %+v, best is %+v", seed, p, best)
		}
	}
}
