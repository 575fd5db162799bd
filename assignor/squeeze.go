package assignor

import (
	"cmp"
	"slices"
)

// squeezer finds places for standbys of a set that fit none of the members with room, because these
// have the task already.
type squeezer struct {
	*shadows
	set  int
	room []int32 // what the flow has found room for and is not taken, by member
	held [][]int // tasks of which each member is a standby
	way  []step  // by member
}

// step is how a standby comes to a member: who hands it on, and of which task.
type step struct {
	from      int32 // nobody: it is the one that has to be placed
	partition int
}

func newSqueezer(w *shadows, set int, hands map[int32]*hand) *squeezer {
	q := &squeezer{shadows: w, set: set, room: make([]int32, len(w.p.members)), held: w.held(set), way: make([]step, len(w.p.members))}
	for _, h := range hands {
		h.rest(q.room)
	}
	return q
}

// place places one more standby of a task: others hand standbys of other tasks on, along the shortest
// way to a member with room. When there is no way, the member with fewest standbys takes it.
func (q *squeezer) place(partition int) {
	var queue, unseen []int32
	for _, m := range q.able[q.set] {
		if q.may(q.set, partition, m) {
			q.way[m] = step{nobody, partition}
			queue = append(queue, m)
		} else {
			unseen = append(unseen, m)
		}
	}
	starts := len(queue)
	for at := 0; at < len(queue); at++ {
		m := queue[at]
		if q.room[m] > 0 {
			q.room[m]--
			q.take(m)
			return
		}
		for _, other := range q.held[m] {
			if len(unseen) == 0 {
				break
			}
			left := unseen[:0]
			for _, to := range unseen {
				if !q.may(q.set, other, to) {
					left = append(left, to)
					continue
				}
				q.way[to] = step{m, other}
				queue = append(queue, to)
			}
			unseen = left
		}
	}
	q.squeezed = true
	q.take(slices.MinFunc(queue[:starts], func(a, b int32) int {
		return cmp.Or(cmp.Compare(len(q.held[a]), len(q.held[b])), cmp.Compare(q.b.flow.members[a], q.b.flow.members[b]), cmp.Compare(a, b))
	}))
}

// take lets all on the way to a member hand on.
func (q *squeezer) take(to int32) {
	for {
		s := q.way[to]
		q.held[to] = append(q.held[to], s.partition)
		if s.from == nobody {
			q.give(q.set, s.partition, to)
			return
		}
		list := q.at[q.set][s.partition]
		list[slices.Index(list, s.from)] = to
		at := slices.Index(q.held[s.from], s.partition)
		q.held[s.from] = slices.Delete(q.held[s.from], at, at+1)
		to = s.from
	}
}

// held are the standbys of a set, by member.
func (w *shadows) held(i int) [][]int {
	held := make([][]int, len(w.p.members))
	for partition, list := range w.at[i] {
		for _, m := range list {
			held[m] = append(held[m], partition)
		}
	}
	return held
}
