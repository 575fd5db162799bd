package assignor

import (
	"math/bits"
	"slices"
)

// flow is who has what, as a flow of minimum cost:
//
//	task → cell of its owner ─────┐
//	     → cell of a copy ────────┼→ cell (member, set) → member → ground
//	     → pool → any cell of set ┘
//
// A task goes straight to the cell of its owner or of a member with a copy, or through the pool of
// those who may have it to any of their cells. It is always somewhere: what changes is where. The
// price has two parts, the first before the second:
//
//   - balance: a member's tasks of a set, and then of all sets, cost their number squared. The cheapest
//     is as even as can be; with equal declarations nobody has two more than another.
//   - wishes, each before the next: few moves; on growth nothing new to old members; no task to a
//     member without a copy while there is one; the copy with the least lag.
//
// See solve for how the cheapest is found.
type flow struct {
	cells   []cell
	members []int32 // tasks of each member, over all sets
	pools   []pool
	tasks   []choice
	options []option // of all tasks, one run each
	base    []int64  // by set: the price of one more in an even share, taken off everywhere
	even    int64    // the same of members
	weight  int64    // of a set's balance against that of all sets

	ground, firstPool int32
	residual
}

// cell is one member's part of one set.
type cell struct{ set, member, n int32 }

// pool is where tasks go that may be with anybody of a list.
type pool struct {
	cells, members []int32
	price          []int64 // of a task that goes to that cell
	n              []int32 // tasks that do
}

// choice is a task and its options.
type choice struct {
	at          int32 // the node where it is: a cell or a pool
	price       int64 // there
	start, stop int32 // its options
}

type option struct {
	node  int32
	price int64
}

const (
	noNode = int32(-1)
	noTask = int32(-1)
)

// wishes are the prices of what should not be: one of each weighs more than all that follow together.
type wishes struct {
	move, grown, cold, lag int64
	classes                int // of lag
}

// newWishes are for a flow of so many nodes. No cycle holds more tasks than nodes.
func newWishes(nodes int) wishes {
	n := min(bits.Len(uint(nodes+2)), 19)
	lagBits := max(0, min(6, 60-4*n))
	w := wishes{lag: 1, classes: 1<<lagBits - 1}
	if lagBits == 0 {
		w.cold = 1
	} else {
		w.cold = 1 << (n + lagBits)
	}
	w.grown = w.cold << n
	w.move = w.grown << n
	return w
}

// lagPrice grows with the lag.
func (w wishes) lagPrice(lag int64) int64 {
	return w.lag * int64(min(bits.Len64(uint64(lag)), w.classes)) // an unknown lag is the largest
}

// lay puts a task where it begins: at its option for a cell, or else in its pool, the last option,
// and on from there to the cell.
func (f *flow) lay(t choice, home int32) {
	last := f.options[t.stop-1]
	t.at, t.price = last.node, last.price
	for _, o := range f.options[t.start:t.stop] {
		if o.node == home {
			t.at, t.price = o.node, o.price
		}
	}
	f.arrive(t.at, home)
	f.tasks = append(f.tasks, t)
}

// arrive counts a task of a cell that is at a node: in the cell, or in a pool that flows to it.
func (f *flow) arrive(node, home int32) {
	if node != home {
		f.pour(node, home, 1)
	}
	f.cells[home].n++
	f.members[f.cells[home].member]++
}

func (f *flow) pour(node, cell, n int32) {
	pool := &f.pools[node-f.firstPool]
	i, _ := slices.BinarySearch(pool.cells, cell)
	pool.n[i] += n
}

// more is the price of one more task in a cell.
func (f *flow) more(c *cell) int64 { return f.weight * (int64(2*c.n+1) - f.base[c.set]) }

// send moves one task along each edge of the cycle that ends at a node.
func (f *flow) send(end int32) {
	members := int32(len(f.cells))
	for b := end; ; {
		a, task := f.labels[b].from, f.labels[b].by
		switch {
		case task != noTask:
			f.unlink(task)
			f.choose(&f.tasks[task], b)
			f.link(task)
		case a >= f.firstPool:
			f.pour(a, b, 1)
		case b >= f.firstPool:
			f.pour(b, a, -1)
		case b == f.ground:
			f.members[a-members]++
		case a == f.ground:
			f.members[b-members]--
		case a < members:
			f.cells[a].n++
		default:
			f.cells[b].n--
		}
		if b = a; b == end {
			return
		}
	}
}

func (f *flow) choose(t *choice, node int32) {
	for _, o := range f.options[t.start:t.stop] {
		if o.node == node {
			t.at, t.price = o.node, o.price
			return
		}
	}
}
