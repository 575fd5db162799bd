package assignor

import "slices"

// actives is the best placement of actives.
func (p *problem) actives() [][]int32 {
	start := p.startShares()
	for i := range p.sets {
		start[i] = p.sets[i].place(start[i])
	}
	b := newBuilder(p, func(s *set) []int32 { return s.eligible })
	b.old = p.growing()
	if b.old != nil {
		for q := range b.flow.pools {
			pool := &b.flow.pools[q]
			for i, c := range pool.cells {
				pool.price[i] = b.wishes.grown * int64(boolInt(b.old[b.flow.cells[c].member]))
			}
		}
	}
	parts, tasks := make([]part, len(p.sets)), 0
	for i := range p.sets {
		tasks += len(start[i])
	}
	b.flow.tasks, b.flow.options = make([]choice, 0, tasks), make([]option, 0, 3*tasks)
	for i := range p.sets {
		b.addTasks(i, start[i])
		parts[i] = part{members: p.sets[i].eligible, count: p.sets[i].Partitions}
	}
	b.balance(parts)
	b.flow.solve()
	return b.result()
}

// builder turns a problem into a flow and back.
type builder struct {
	p       *problem
	flow    flow
	cellOf  [][]int32 // by set and member; noNode
	poolsOf []span    // by set
	poolOf  [][]int32 // by set and partition: the node of its pool; noNode where nobody may have it
	task    [][]int32 // by set and partition: its number in the flow; noTask for one that has no choice
	wishes  wishes
	old     []bool // members that own something, when nothing is without an owner
}

type span struct{ start, stop int32 }

// newBuilder makes a flow without tasks. able are the members that may have tasks of a set, as far as
// that is the same for all its partitions.
func newBuilder(p *problem, able func(*set) []int32) *builder {
	b := &builder{p: p, cellOf: make([][]int32, len(p.sets)), poolOf: make([][]int32, len(p.sets)), task: make([][]int32, len(p.sets))}
	b.flow.members = make([]int32, len(p.members))
	for i := range p.sets {
		b.cellOf[i] = slices.Repeat([]int32{noNode}, len(p.members))
		for _, m := range able(&p.sets[i]) {
			b.cellOf[i][m] = int32(len(b.flow.cells))
			b.flow.cells = append(b.flow.cells, cell{set: int32(i), member: m})
		}
	}
	b.flow.firstPool = int32(len(b.flow.cells) + len(p.members) + 1)
	for i := range p.sets {
		b.addPools(i)
	}
	b.wishes = newWishes(int(b.flow.firstPool) + len(b.flow.pools))
	return b
}

// balance sets the prices of uneven shares.
func (b *builder) balance(parts []part) {
	total, able := int64(0), map[int32]bool{}
	for _, p := range parts {
		total += int64(p.count)
		b.flow.base = append(b.flow.base, 2*int64(p.count/int32(max(len(p.members), 1)))+1)
		for _, m := range p.members {
			able[m] = true
		}
	}
	b.flow.weight = 4 * (total + 1)
	b.flow.even = 2*(total/int64(max(len(able), 1))) + 1
}

// membersOf are those that a pool flows to.
func (b *builder) membersOf(node int32) []int32 { return b.flow.pools[node-b.flow.firstPool].members }

// growing tells who owns something, if no task is without an owner that may keep it: only then does a
// member that gets a task of another's take it from a living one. Nil: the rule does not apply.
func (p *problem) growing() []bool {
	old := make([]bool, len(p.members))
	for i := range p.sets {
		s := &p.sets[i]
		for partition, m := range s.owner {
			if m == nobody || !contains(s.may(partition), m) {
				return nil
			}
			old[m] = true
		}
	}
	return old
}

// addPools makes a pool for all tasks of a set that the same members may have.
func (b *builder) addPools(i int) {
	s := &b.p.sets[i]
	b.poolOf[i] = make([]int32, s.Partitions)
	first := int32(len(b.flow.pools))
	known := map[*entitled]int32{}
	for partition := range b.poolOf[i] {
		e := s.only[partition]
		node, ok := known[e]
		if !ok {
			node = noNode
			var q pool
			for _, m := range s.may(partition) {
				if c := b.cellOf[i][m]; c != noNode {
					q.cells, q.members = append(q.cells, c), append(q.members, m)
				}
			}
			if len(q.cells) > 0 {
				node = b.flow.firstPool + int32(len(b.flow.pools))
				q.price, q.n = make([]int64, len(q.cells)), make([]int32, len(q.cells))
				b.flow.pools = append(b.flow.pools, q)
			}
			known[e] = node
		}
		b.poolOf[i][partition] = node
	}
	b.poolsOf = append(b.poolsOf, span{first, int32(len(b.flow.pools))})
}

// addTasks puts the tasks of a set where they start. Those that nobody has anything of have no choice
// but their pool.
func (b *builder) addTasks(i int, start []int32) {
	s, f := &b.p.sets[i], &b.flow
	b.task[i] = slices.Repeat([]int32{noTask}, int(s.Partitions))
	for partition, m := range start {
		q := b.poolOf[i][partition]
		if q == noNode {
			continue
		}
		home := b.cellOf[i][m]
		if n := b.options(i, partition); n > 1 {
			stop := int32(len(f.options))
			b.task[i][partition] = int32(len(f.tasks))
			f.lay(choice{start: stop - int32(n), stop: stop}, home)
		} else {
			f.arrive(q, home)
		}
	}
}

// options appends where a task may be, and at what price; the last one is its pool. It tells how many
// they are. A task of which nobody has anything gets none.
func (b *builder) options(i, partition int) int {
	s, f, before := &b.p.sets[i], &b.flow, len(b.flow.options)
	may, owner := s.may(partition), s.owner[partition]
	if owner == nobody && len(s.copies[partition]) == 0 {
		return 0
	}
	move := int64(0)
	if owner != nobody && contains(may, owner) {
		f.options = append(f.options, option{b.cellOf[i][owner], 0})
		move = b.wishes.move
	}
	for _, h := range s.copies[partition] {
		if h.member == owner || !contains(may, h.member) {
			continue
		}
		price := move + b.wishes.lagPrice(h.lag)
		if b.old != nil && b.old[h.member] {
			price += b.wishes.grown
		}
		f.options = append(f.options, option{b.cellOf[i][h.member], price})
	}
	f.options = append(f.options, option{b.poolOf[i][partition], move + b.wishes.cold})
	return len(f.options) - before
}

// result is who has each task. The tasks of a pool are dealt in turn to those that it flows to.
func (b *builder) result() [][]int32 {
	active := make([][]int32, len(b.p.sets))
	turn := make([]int, len(b.flow.pools))
	for i := range b.p.sets {
		active[i] = make([]int32, b.p.sets[i].Partitions)
		for partition, q := range b.poolOf[i] {
			active[i][partition] = nobody
			if q == noNode {
				continue
			}
			at := q
			if t := b.task[i][partition]; t != noTask {
				at = b.flow.tasks[t].at
			}
			if at == q {
				at = b.flow.pools[q-b.flow.firstPool].deal(&turn[q-b.flow.firstPool])
			}
			active[i][partition] = b.flow.cells[at].member
		}
	}
	return active
}

func (q *pool) deal(turn *int) int32 {
	for q.n[*turn] == 0 {
		*turn = (*turn + 1) % len(q.n)
	}
	q.n[*turn]--
	at := q.cells[*turn]
	*turn = (*turn + 1) % len(q.n)
	return at
}
