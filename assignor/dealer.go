package assignor

import "slices"

// dealer gives out shares in turn.
type dealer struct {
	free []int32 // left of each member's share
	turn int
}

// take is for a wish: true if the member has room.
func (d *dealer) take(m int32) bool {
	if d.free[m] <= 0 {
		return false
	}
	d.free[m]--
	return true
}

// next is the next of these members in turn that has room, or the least full when none has.
func (d *dealer) next(members []int32) int32 {
	for range members {
		m := members[d.turn%len(members)]
		d.turn++
		if d.take(m) {
			return m
		}
	}
	m := slices.MaxFunc(members, func(a, b int32) int { return int(d.free[a]) - int(d.free[b]) })
	d.free[m]--
	return m
}

// hand deals copies of tasks so that members with most left come first, and in turn.
type hand struct {
	levels [][]int32 // by how many a member has left
}

func newHand(members, n []int32) *hand {
	h := &hand{levels: make([][]int32, slices.Max(n)+1)}
	for i, m := range members {
		h.levels[n[i]] = append(h.levels[n[i]], m)
	}
	return h
}

// draw takes one from the first member that may have it; nobody when there is none.
func (h *hand) draw(may func(int32) bool) int32 {
	for left := len(h.levels) - 1; left > 0; left-- {
		if i := slices.IndexFunc(h.levels[left], may); i >= 0 {
			m := h.levels[left][i]
			h.levels[left] = slices.Delete(h.levels[left], i, i+1)
			h.levels[left-1] = append(h.levels[left-1], m)
			return m
		}
	}
	return nobody
}

// rest adds what is left of each member.
func (h *hand) rest(room []int32) {
	for left, members := range h.levels {
		for _, m := range members {
			room[m] += int32(left)
		}
	}
}
