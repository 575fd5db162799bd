package assignor

import (
	"cmp"
	"slices"
)

// squeeze finds a place for one more standby of a task that fits none of the members with room,
// because they have the task already: others hand standbys of other tasks on, along the shortest way
// to a member with room. Copies that have to be made are handed on before those that are there. When
// there is no way, the member with fewest standbys of the set takes it.
func (w *shadows) squeeze(i, partition int, room []int32) {
	w.squeezed = true
	held := w.held(i)
	type step struct {
		before    int32 // who hands on
		partition int   // which task
	}
	way := map[int32]step{}
	var queue []int32
	for _, m := range w.p.sets[i].may(partition) {
		if w.may(i, partition, m) {
			way[m] = step{nobody, partition}
			queue = append(queue, m)
		}
	}
	for at := 0; at < len(queue); at++ {
		m := queue[at]
		if room[m] > 0 {
			room[m]--
			for to := m; ; {
				s := way[to]
				if s.before == nobody {
					w.at[i][partition] = append(w.at[i][partition], to)
					return
				}
				list := w.at[i][s.partition]
				list[slices.Index(list, s.before)] = to
				to = s.before
			}
		}
		for _, other := range held[m] {
			for _, to := range w.able[i] {
				if _, seen := way[to]; !seen && w.may(i, other, to) {
					way[to] = step{m, other}
					queue = append(queue, to)
				}
			}
		}
	}
	w.at[i][partition] = append(w.at[i][partition], slices.MinFunc(queue, func(a, b int32) int {
		return cmp.Or(cmp.Compare(len(held[a]), len(held[b])), cmp.Compare(w.b.flow.members[a], w.b.flow.members[b]), cmp.Compare(a, b))
	}))
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
