package assignor

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// world is a generated group: what every member declares, and what it claims at the moment.
type world struct {
	rnd  *rand.Rand
	in   Input
	next int
}

func newWorld(seed uint64, members, sets, partitions, replicas int) *world {
	w := &world{rnd: rand.New(rand.NewPCG(seed, 1)), in: Input{Counts: map[string]int32{}, Options: Options{Replicas: replicas}}}
	var declared []Set
	for i := range sets {
		count := int32(1 + w.rnd.IntN(partitions))
		var s Set
		for j := range 1 + w.rnd.IntN(2) {
			topic := fmt.Sprintf("topic-%d-%d", i, j)
			s.Sources = append(s.Sources, topic)
			w.in.Counts[topic] = count
		}
		if w.rnd.IntN(2) == 0 {
			s.Tables = append(s.Tables, Table{Name: "t", Changelog: fmt.Sprintf("log-%d", i)})
		}
		declared = append(declared, s)
	}
	for range members {
		w.join(declared)
	}
	return w
}

func (w *world) join(sets []Set) string {
	w.next++
	id := fmt.Sprintf("member-%04d", w.next)
	w.in.Members = append(w.in.Members, Member{ID: id, Generation: -1, Sets: sets})
	return id
}

func (w *world) leave() {
	i := w.rnd.IntN(len(w.in.Members))
	w.in.Members = slices.Delete(w.in.Members, i, i+1)
}

// settle lets every member claim what the plan gives it: its actives, and its standbys as copies.
func (w *world) settle(p Plan, generation int32) {
	for i := range w.in.Members {
		m := &w.in.Members[i]
		share := p.Members[m.ID]
		m.Generation = generation
		m.Owned = slices.Clone(share.Active)
		m.Copies = nil
		for _, t := range share.Standby {
			m.Copies = append(m.Copies, Copy{t, 0})
		}
	}
}

// shuffled is the same input in another order.
func (w *world) shuffled() Input {
	in := w.in
	in.Members = slices.Clone(in.Members)
	for i := range in.Members {
		m := &in.Members[i]
		m.Owned, m.Copies, m.Sets = slices.Clone(m.Owned), slices.Clone(m.Copies), slices.Clone(m.Sets)
		w.rnd.Shuffle(len(m.Owned), func(a, b int) { m.Owned[a], m.Owned[b] = m.Owned[b], m.Owned[a] })
		w.rnd.Shuffle(len(m.Copies), func(a, b int) { m.Copies[a], m.Copies[b] = m.Copies[b], m.Copies[a] })
		w.rnd.Shuffle(len(m.Sets), func(a, b int) { m.Sets[a], m.Sets[b] = m.Sets[b], m.Sets[a] })
	}
	w.rnd.Shuffle(len(in.Members), func(a, b int) { in.Members[a], in.Members[b] = in.Members[b], in.Members[a] })
	return in
}

// garble makes claims that no honest group has: double, out of range, of unknown sets.
func (w *world) garble() {
	for i := range w.in.Members {
		m := &w.in.Members[i]
		m.Generation = int32(w.rnd.IntN(4))
		for range w.rnd.IntN(8) {
			set := "no-such-topic"
			if len(m.Sets) > 0 && w.rnd.IntN(5) > 0 {
				set = m.Sets[w.rnd.IntN(len(m.Sets))].Key()
			}
			t := Task{set, int32(w.rnd.IntN(40) - 2)}
			if w.rnd.IntN(2) == 0 {
				m.Owned = append(m.Owned, t)
			} else {
				m.Copies = append(m.Copies, Copy{t, CoarseLag(int64(w.rnd.IntN(1000) - 1))})
			}
		}
	}
}

// each runs a property over generated groups.
func each(n int, run func(seed uint64, w *world)) {
	for seed := range uint64(n) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		partitions := []int{1, 3, 16, 64, 256}[rnd.IntN(5)]
		w := newWorld(seed, 1+rnd.IntN(12), 1+rnd.IntN(4), partitions, rnd.IntN(4))
		run(seed, w)
	}
}

// target is Target where the capacity is not set, so that there is no error.
func target(in Input) Plan {
	p, err := Target(in)
	if err != nil {
		panic(err)
	}
	return p
}
