package assignor

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// network is a plain flow of least cost, one shortest path after another: as different from the
// package's own as can be, and slow.
type network struct{ edges [][]edge }

type edge struct {
	to, back, room int
	cost           int64
}

func (g *network) node() int {
	g.edges = append(g.edges, nil)
	return len(g.edges) - 1
}

func (g *network) edge(a, b, room int, cost int64) {
	g.edges[a] = append(g.edges[a], edge{b, len(g.edges[b]), room, cost})
	g.edges[b] = append(g.edges[b], edge{a, len(g.edges[a]) - 1, 0, -cost})
}

// send sends one unit along the cheapest way; false when there is none.
func (g *network) send(from, to int) (cost int64, ok bool) {
	const far = 1 << 62
	distance := make([]int64, len(g.edges))
	by := make([][2]int, len(g.edges))
	for i := range distance {
		distance[i] = far
	}
	distance[from] = 0
	for again := true; again; {
		again = false
		for a := range g.edges {
			for i, e := range g.edges[a] {
				if distance[a] < far && e.room > 0 && distance[a]+e.cost < distance[e.to] {
					distance[e.to], by[e.to], again = distance[a]+e.cost, [2]int{a, i}, true
				}
			}
		}
	}
	if distance[to] == far {
		return 0, false
	}
	for at := to; at != from; {
		e := &g.edges[by[at][0]][by[at][1]]
		e.room--
		g.edges[at][e.back].room++
		at = by[at][0]
	}
	return distance[to], true
}

// least is the price of the best plan with even shares, found by the network: (task) to (member, set) to
// member. A share up to the even part earns so much that it is always filled.
func (f facts) least() price {
	const cold, grown, move, filled, total = 1, 1 << 10, 1 << 20, 1 << 30, 1 << 40
	g := &network{}
	source, sink := g.node(), g.node()
	var members []int
	each := len(f.tasks) / len(f.members)
	for range f.members {
		m := g.node()
		members = append(members, m)
		g.edge(m, sink, each, -filled)
		g.edge(m, sink, 1, 0)
	}
	counts, cells := map[string]int{}, map[string][]int{}
	for _, t := range f.tasks {
		counts[t.Set]++
	}
	for set, n := range counts {
		for _, m := range members {
			c := g.node()
			cells[set] = append(cells[set], c)
			g.edge(c, m, n/len(members), -total)
			g.edge(c, m, 1, 0)
		}
	}
	for i, t := range f.tasks {
		node := g.node()
		g.edge(source, node, 1, 0)
		for m := range members {
			c := f.cost(i, m)
			g.edge(node, cells[t.Set][m], 1, int64(c.moves*move+c.grown*grown+c.cold*cold))
		}
	}
	sum := int64(0)
	for range f.tasks {
		cost, ok := g.send(source, sink)
		if !ok {
			panic("a task has no place")
		}
		sum += cost
	}
	sum += filled * int64(each*len(members))
	for _, n := range counts {
		sum += total * int64(n/len(members)*len(members))
	}
	return price{moves: int(sum / move), grown: int(sum % move / grown), cold: int(sum % grown)}
}

func TestTheOraclesAgree(t *testing.T) {
	for seed := range uint64(200) {
		w := small(seed)
		w.scatter()
		f := factsOf(w.in)
		best := f.best()
		if got := f.least(); got.moves != best.moves || got.grown != best.grown || got.cold != best.cold {
			t.Fatalf("seed %d: %+v and %+v", seed, got, best)
		}
	}
}

// Several sets together, larger than what can be searched through, changed again and again. There is no
// tolerance: every plan is the best.
func TestTargetIsTheBestPlanOfLargerGroups(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		w := &world{rnd: rnd, in: Input{Counts: map[string]int32{}, Options: Options{Replicas: rnd.IntN(3)}}}
		var sets []Set
		for i := range 1 + rnd.IntN(5) {
			topic := fmt.Sprintf("topic-%d", i)
			w.in.Counts[topic] = int32(1 + rnd.IntN(24))
			sets = append(sets, Set{Sources: []string{topic}})
		}
		for range 2 + rnd.IntN(7) {
			w.join(sets)
		}
		if seed%4 == 0 {
			w.scatter()
		}
		for step := range int32(4) {
			p := target(w.in)
			checkPlan(t, seed, w.in, p)
			f := factsOf(w.in)
			got, least := f.price(f.placed(p)), f.least()
			if got.moves != least.moves || got.grown != least.grown || got.cold != least.cold {
				t.Fatalf("seed %d step %d: got %+v, least is %+v", seed, step, got, least)
			}
			w.settle(p, step+5)
			for range rnd.IntN(3) {
				w.join(sets)
			}
			for range min(rnd.IntN(3), len(w.in.Members)-1) {
				w.leave()
			}
		}
	}
}

// The smallest groups in which evenness over all sets and another rule cannot both be kept: evenness
// goes first, and everything else is as good as it can be then.
func TestEvennessGoesBeforeGrowth(t *testing.T) {
	group := func(counts []int32, owned ...[]Task) Input {
		in := Input{Counts: map[string]int32{}}
		var sets []Set
		for i, n := range counts {
			topic := string(rune('a' + i))
			in.Counts[topic] = n
			sets = append(sets, Set{Sources: []string{topic}})
		}
		for i, tasks := range owned {
			in.Members = append(in.Members, Member{ID: fmt.Sprint("m", i), Generation: 1, Sets: sets, Owned: tasks})
		}
		return in
	}
	for name, c := range map[string]struct {
		in    Input
		moves int
		grown int
	}{
		// m0 with c/1 has left. Whoever gets c/1 must be m2, for the sake of c; then m2 has three and m1 one.
		"three members to two": {group([]int32{1, 1, 2}, nil, []Task{{"c", 0}}, []Task{{"a", 0}, {"b", 0}}), 1, 0},
		// m3 is new: everybody is to have two, one of them of d. m1 loses one of d, and all that it could be
		// given instead is m0's or m2's.
		"three members to four": {group([]int32{1, 1, 2, 4}, []Task{{"b", 0}, {"c", 0}, {"d", 1}}, []Task{{"d", 0}, {"d", 3}},
			[]Task{{"a", 0}, {"c", 1}, {"d", 2}}, nil), 3, 1},
	} {
		if name == "three members to two" {
			c.in.Members = c.in.Members[1:]
		}
		f := factsOf(c.in)
		p := target(c.in)
		checkPlan(t, 0, c.in, p)
		got, best := f.price(f.placed(p)), f.best()
		if got != best || best.moves != c.moves || best.grown != c.grown {
			t.Errorf("%s: got %+v, the best is %+v", name, got, best)
		}
	}
}
