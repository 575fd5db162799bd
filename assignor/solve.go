package assignor

import "slices"

// residual is the graph of what could be changed about a flow, and the state of the search in it.
type residual struct {
	labels  []label
	queue   []int32 // nodes whose edges have to be tried
	spare   []int32
	queued  []bool
	changed []int32 // nodes with a new label in this round
	seen    []int32
	round   int32

	first, next, before []int32   // lists of the tasks at each node
	cellsOf             [][]int32 // by member
	poolsOf             [][]place // by cell
}

// label is a node's distance, in both parts of the price, and where the way to it comes from.
type label struct {
	balance, wishes int64
	from, by        int32 // the node before, and the task that goes from there or noTask
}

type place struct {
	node int32 // of a pool
	at   int32 // in its list of cells
}

// farBelow is where labels are begun anew, long before they overflow.
const farBelow = -1 << 61

// solve makes the flow the cheapest: it looks for a cycle of negative price in the residual graph,
// sends a task around, and so on until there is none.
//
// The search is Bellman's and Ford's with a queue. Labels stay from one cycle to the next: any labels
// will do, as long as each edge that offers a better one begins at a node in the queue. A cycle among
// the nodes' predecessors is of negative price, whatever labels it began with.
//
// INVARIANT: what is left is of the least price, whatever the flow began with: a flow without a negative
// cycle is, as the price of each cell and member is convex. It ends, because the price is whole, bounded,
// and lower after each cycle.
func (f *flow) solve() {
	f.prepare()
	f.restart()
	for len(f.queue) > 0 {
		round := f.queue
		f.queue = f.spare[:0]
		f.spare = round
		f.changed = f.changed[:0]
		for _, node := range round {
			f.queued[node] = false
			f.try(node)
		}
		f.turn()
	}
}

func (f *flow) prepare() {
	f.ground = int32(len(f.cells) + len(f.members))
	f.firstPool = f.ground + 1
	nodes := int(f.firstPool) + len(f.pools)
	f.labels, f.queued, f.seen = make([]label, nodes), make([]bool, nodes), make([]int32, nodes)
	f.first = slices.Repeat([]int32{noTask}, nodes)
	f.next, f.before = make([]int32, len(f.tasks)), make([]int32, len(f.tasks))
	for t := range f.tasks {
		f.link(int32(t))
	}
	f.cellsOf, f.poolsOf = make([][]int32, len(f.members)), make([][]place, len(f.cells))
	for i, c := range f.cells {
		f.cellsOf[c.member] = append(f.cellsOf[c.member], int32(i))
	}
	for q := range f.pools {
		for at, c := range f.pools[q].cells {
			f.poolsOf[c] = append(f.poolsOf[c], place{f.firstPool + int32(q), int32(at)})
		}
	}
}

// restart begins with labels of nothing: every edge has to be tried.
func (f *flow) restart() {
	for node := range f.labels {
		f.labels[node] = label{from: noNode, by: noTask}
		f.push(int32(node))
	}
}

func (f *flow) push(node int32) {
	if !f.queued[node] {
		f.queued[node] = true
		f.queue = append(f.queue, node)
	}
}

func (f *flow) link(task int32) {
	at := f.tasks[task].at
	f.next[task], f.before[task] = f.first[at], noTask
	if f.first[at] != noTask {
		f.before[f.first[at]] = task
	}
	f.first[at] = task
}

func (f *flow) unlink(task int32) {
	next, before := f.next[task], f.before[task]
	if before == noTask {
		f.first[f.tasks[task].at] = next
	} else {
		f.next[before] = next
	}
	if next != noTask {
		f.before[next] = before
	}
}

// relax offers node b a way through a. A task on the way is by.
func (f *flow) relax(a, b int32, balance, wishes int64, by int32) {
	from, to := &f.labels[a], &f.labels[b]
	balance += from.balance
	wishes += from.wishes
	if balance > to.balance || balance == to.balance && wishes >= to.wishes {
		return
	}
	*to = label{balance, wishes, a, by}
	f.changed = append(f.changed, b)
	f.push(b)
}

// try offers all edges of the residual graph that begin at a node.
func (f *flow) try(node int32) {
	members := int32(len(f.cells))
	switch {
	case node < members:
		f.tryTasks(node)
		c := &f.cells[node]
		f.relax(node, members+c.member, f.more(c), 0, noTask)
		for _, p := range f.poolsOf[node] {
			if pool := &f.pools[p.node-f.firstPool]; pool.n[p.at] > 0 {
				f.relax(node, p.node, 0, -pool.price[p.at], noTask)
			}
		}
	case node < f.ground:
		m := node - members
		f.relax(node, f.ground, int64(2*f.members[m]+1)-f.even, 0, noTask)
		for _, i := range f.cellsOf[m] {
			if c := &f.cells[i]; c.n > 0 {
				f.relax(node, i, 2*f.weight-f.more(c), 0, noTask)
			}
		}
	case node == f.ground:
		for m, n := range f.members {
			if n > 0 {
				f.relax(node, members+int32(m), f.even-int64(2*n-1), 0, noTask)
			}
		}
	default:
		f.tryTasks(node)
		pool := &f.pools[node-f.firstPool]
		for at, c := range pool.cells {
			f.relax(node, c, 0, pool.price[at], noTask)
		}
	}
}

func (f *flow) tryTasks(node int32) {
	for task := f.first[node]; task != noTask; task = f.next[task] {
		t := &f.tasks[task]
		for _, o := range f.options[t.start:t.stop] {
			if o.node != node {
				f.relax(node, o.node, 0, o.price-t.price, task)
			}
		}
	}
}

// turn sends tasks around the cycles among the predecessors of the changed nodes. Cycles have no node
// in common. After that all predecessors are forgotten, and what the cycles have touched is tried again.
func (f *flow) turn() {
	first, found, deep := f.round+1, false, false
	for _, start := range f.changed {
		f.round++
		deep = deep || f.labels[start].wishes < farBelow || f.labels[start].balance < farBelow
		at := start
		for at != noNode && f.seen[at] < first {
			f.seen[at] = f.round
			at = f.labels[at].from
		}
		if at != noNode && f.seen[at] == f.round {
			f.send(at)
			for b := f.labels[at].from; ; b = f.labels[b].from {
				f.push(b)
				if b == at {
					break
				}
			}
			found = true
		}
	}
	switch {
	case deep:
		f.restart()
	case found:
		for node := range f.labels {
			f.labels[node].from = noNode
		}
	}
}
