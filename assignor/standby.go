package assignor

import (
	"cmp"
	"slices"
)

// shadows finds the standbys of all sets. Which copies stay is a flow like that of the actives: as
// even as can be, first each set and then all together, and with that as many copies as possible
// where they are, the most caught-up first; the former owner of a task that moves is one. Copies that
// have to be made are then dealt out to the members that the flow has found for them.
//
// INVARIANT: a task has exactly as many standbys as asked for and possible, none beside its active and
// no two on one member. This goes before their evenness.
type shadows struct {
	p        *problem
	b        *builder
	active   [][]int32
	rack     []int32     // of each member; nil where racks make no difference
	able     [][]int32   // by set: members that can hold standbys
	want     [][]int32   // by set and partition
	warm     [][][]holds // by set and partition: copies that may be its standbys, the best first
	kept     [][]span    // by set and partition: the tasks in the flow, one for each copy that may stay
	at       [][][]int32 // by set and partition: the result
	shared   map[pair]int32
	squeezed bool // the flow could not be dealt out as it was
}

// nearby is how much rather a standby shares many tasks with the active than its rack.
const nearby = 1 << 16

// pair is an active and a standby of the same task.
type pair struct{ active, standby int32 }

// standbyRounds bounds how often standbys are looked for again, each time from what was found.
const standbyRounds = 4

func (p *problem) standbys(active [][]int32) [][][]int32 {
	if p.replicas == 0 {
		return p.blank().standby
	}
	w := &shadows{p: p, active: active, rack: p.racks()}
	w.count()
	w.copies()
	best := w.asTheyAre()
	for range standbyRounds {
		w.find()
		found := w.at
		if best != nil && !w.worth(found).less(w.worth(best)) {
			break // INVARIANT: nothing moves for nothing
		}
		best = found
		if !w.squeezed {
			break // there is nothing better
		}
		w.settle(best)
	}
	return best
}

// find makes a placement out of the copies there are.
func (w *shadows) find() {
	w.b = newBuilder(w.p, func(s *set) []int32 { return w.p.canShadow(s.eligible) })
	w.at, w.squeezed = w.blank(), false
	n := w.total()
	w.b.flow.tasks, w.b.flow.options = make([]choice, 0, n), make([]option, 0, 3*n)
	w.start()
	w.b.flow.solve()
	w.shared = make(map[pair]int32, w.total())
	for i := range w.p.sets {
		w.keep(i)
	}
	for i := range w.p.sets {
		w.deal(i)
	}
	w.scatter()
}

// blank is a placement of nothing, with room for as many standbys as are wanted.
func (w *shadows) blank() [][][]int32 {
	at := make([][][]int32, len(w.want))
	for i := range at {
		at[i] = lists(w.want[i])
	}
	return at
}

// total is how many standbys there are.
func (w *shadows) total() (n int) {
	for _, want := range w.want {
		for _, k := range want {
			n += int(k)
		}
	}
	return n
}

// lists are empty ones with room for so many each.
func lists(room []int32) [][]int32 {
	total := int32(0)
	for _, n := range room {
		total += n
	}
	all, of := make([]int32, total), make([][]int32, len(room))
	for i, n := range room {
		of[i], all = all[:0:n], all[n:]
	}
	return of
}

// asTheyAre is the placement of the copies there are; nil when it is none.
func (w *shadows) asTheyAre() [][][]int32 {
	at := w.blank()
	for i := range w.warm {
		for partition, list := range w.warm[i] {
			if len(list) < int(w.want[i][partition]) {
				return nil
			}
			for _, h := range list[:w.want[i][partition]] {
				at[i][partition] = append(at[i][partition], h.member)
			}
		}
	}
	return at
}

// settle makes a placement the copies there are.
func (w *shadows) settle(at [][][]int32) {
	for i := range at {
		for partition, list := range at[i] {
			warm := make([]holds, 0, len(list))
			for _, m := range list {
				warm = append(warm, holds{m, 0})
			}
			w.warm[i][partition] = warm
		}
	}
}

// worth is how uneven a placement of standbys is: within the sets, then over all of them together; and
// then how many copies of a task share a rack.
type worth struct{ sets, all, near int64 }

func (a worth) less(b worth) bool {
	return cmp.Or(cmp.Compare(a.sets, b.sets), cmp.Compare(a.all, b.all), cmp.Compare(a.near, b.near)) < 0
}

func (w *shadows) worth(at [][][]int32) (v worth) {
	w.at = at
	for i := range at {
		own := make([]int64, len(w.p.members))
		for partition, list := range at[i] {
			for _, m := range list {
				own[m]++
				v.near += int64(w.near(i, partition, m, nobody))
			}
		}
		for _, n := range own {
			v.sets += n * n
		}
	}
	for _, n := range w.loads(at) {
		v.all += int64(n) * int64(n)
	}
	return v
}

func (w *shadows) loads(at [][][]int32) []int32 {
	load := make([]int32, len(w.p.members))
	for i := range at {
		for _, list := range at[i] {
			for _, m := range list {
				load[m]++
			}
		}
	}
	return load
}

// count finds how many standbys each task gets.
func (w *shadows) count() {
	for i := range w.p.sets {
		s := &w.p.sets[i]
		able := w.p.canShadow(s.eligible)
		w.able = append(w.able, able)
		known := map[*entitled]int{nil: len(able)}
		want := make([]int32, s.Partitions)
		for partition, m := range w.active[i] {
			e := s.only[partition]
			if _, ok := known[e]; !ok {
				known[e] = len(w.p.canShadow(e.members))
			}
			n := known[e]
			if m != nobody {
				n -= boolInt(!w.p.members[m].NoStandby)
			}
			want[partition] = int32(min(w.p.replicas, n))
		}
		w.want = append(w.want, want)
	}
}

// canShadow are those members that can hold standbys.
func (p *problem) canShadow(members []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(members), func(m int32) bool { return p.members[m].NoStandby })
}

// warmFor appends the members with a copy of a task that may be its standbys, the most caught-up first.
func (w *shadows) warmFor(warm []holds, i, partition int) []holds {
	s, active := &w.p.sets[i], w.active[i][partition]
	add := func(h holds) {
		if h.member != active && !w.p.members[h.member].NoStandby && contains(s.may(partition), h.member) {
			warm = append(warm, h)
		}
	}
	owner := s.owner[partition]
	if owner != nobody {
		add(holds{owner, 0})
	}
	for _, h := range s.copies[partition] {
		if h.member != owner {
			add(h)
		}
	}
	return warm
}

// copies finds what each task has.
func (w *shadows) copies() {
	w.warm = make([][][]holds, len(w.p.sets))
	for i := range w.p.sets {
		s := &w.p.sets[i]
		w.warm[i] = make([][]holds, s.Partitions)
		most := int(s.Partitions)
		for _, copies := range s.copies {
			most += len(copies)
		}
		all := make([]holds, 0, most)
		for partition := range w.warm[i] {
			before := len(all)
			all = w.warmFor(all, i, partition)
			w.warm[i][partition] = all[before:len(all):len(all)]
		}
	}
}

// start lays out the flow: copies stay while that fits an equal share of their member.
func (w *shadows) start() {
	parts := make([]part, len(w.p.sets))
	for i := range w.p.sets {
		copies, actives := make([]int32, len(w.p.members)), make([]int32, len(w.p.members))
		for partition, want := range w.want[i] {
			parts[i].count += want
			for _, h := range w.warm[i][partition] {
				copies[h.member]++
			}
			if m := w.active[i][partition]; m != nobody {
				actives[m]++
			}
		}
		parts[i].members = w.able[i]
		parts[i].dear = func(m, each int32) int32 { return int32(len(w.active[i])*boolInt(copies[m] <= each)) + actives[m] }
		w.crowd(i, actives)
	}
	w.kept = make([][]span, len(w.p.sets))
	for i, free := range shares(parts, len(w.p.members)) {
		w.kept[i] = make([]span, w.p.sets[i].Partitions)
		w.lay(i, dealer{free: free})
	}
	w.b.balance(parts)
}

// crowd makes members dearer that have more actives of a set than others: the standbys of these cannot
// go there.
func (w *shadows) crowd(i int, actives []int32) {
	least := int32(0)
	for at, m := range w.able[i] {
		if at == 0 || actives[m] < least {
			least = actives[m]
		}
	}
	for q := w.b.poolsOf[i].start; q < w.b.poolsOf[i].stop; q++ {
		pool := &w.b.flow.pools[q]
		for at, m := range pool.members {
			pool.price[at] = w.b.wishes.lag * int64(boolInt(actives[m] > least))
		}
	}
}

// lay puts the standbys of a set where they begin: each at a copy whose member has room for it, or
// else in the pool. Copies beyond the number wanted are other places, for one standby each.
func (w *shadows) lay(i int, d dealer) {
	warm := w.warm[i]
	homes := lists(w.want[i])
	for partition, list := range warm {
		for range w.want[i][partition] {
			homes[partition] = append(homes[partition], nobody)
		}
		for at, h := range list {
			if n := len(homes[partition]); n > 0 && homes[partition][at%n] == nobody && d.take(h.member) {
				homes[partition][at%n] = h.member
			}
		}
	}
	for partition, units := range homes {
		q, list, f := w.b.poolOf[i][partition], warm[partition], &w.b.flow
		w.kept[i][partition].start = int32(len(f.tasks))
		for unit, home := range units {
			if home == nobody {
				home = d.next(w.b.membersOf(q))
			}
			start := int32(len(f.options))
			for at := unit; at < len(list); at += len(units) {
				f.options = append(f.options, option{w.b.cellOf[i][list[at].member], w.b.wishes.lagPrice(list[at].lag)})
			}
			if unit < len(list) {
				f.options = append(f.options, option{q, w.b.wishes.cold})
				f.lay(choice{start: start, stop: int32(len(f.options))}, w.b.cellOf[i][home])
			} else {
				f.arrive(q, w.b.cellOf[i][home])
			}
		}
		w.kept[i][partition].stop = int32(len(f.tasks))
	}
}

// keep takes the copies that stay out of the flow.
func (w *shadows) keep(i int) {
	f := &w.b.flow
	for partition, k := range w.kept[i] {
		for _, t := range f.tasks[k.start:k.stop] {
			if t.at < int32(len(f.cells)) {
				w.give(i, partition, f.cells[t.at].member)
			}
		}
	}
}

func (w *shadows) give(i, partition int, m int32) {
	w.at[i][partition] = append(w.at[i][partition], m)
	w.shared[pair{w.active[i][partition], m}]++
}

// may tells whether a member can be one more standby of a task.
func (w *shadows) may(i, partition int, m int32) bool {
	return m != w.active[i][partition] && !slices.Contains(w.at[i][partition], m) &&
		!w.p.members[m].NoStandby && contains(w.p.sets[i].may(partition), m)
}

// deal gives the copies that have to be made to the members that the flow has found room at.
func (w *shadows) deal(i int) {
	hands := map[int32]*hand{}
	for partition, q := range w.b.poolOf[i] {
		if q == noNode {
			continue
		}
		h := hands[q]
		if h == nil {
			h = newHand(w.b.membersOf(q), w.b.flow.pools[q-w.b.flow.firstPool].n)
			hands[q] = h
		}
		for len(w.at[i][partition]) < int(w.want[i][partition]) {
			active := w.active[i][partition]
			m := h.draw(func(m int32) bool { return w.may(i, partition, m) }, func(m int32) int32 {
				return w.shared[pair{active, m}] + nearby*int32(w.near(i, partition, m, nobody))
			})
			if m == nobody {
				break
			}
			w.give(i, partition, m)
		}
	}
	var q *squeezer
	for partition, want := range w.want[i] {
		for len(w.at[i][partition]) < int(want) {
			if q == nil {
				q = newSqueezer(w, i, hands)
			}
			q.place(partition)
		}
	}
}
