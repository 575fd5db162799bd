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

// hand deals copies so that members with most left come first. Of those it takes one that shares few
// tasks with the active, so that when this one dies its tasks go to many.
type hand struct {
	levels [][]int32 // by how many a member has left
	at     uint32
}

// handTries is how many members are looked at for one copy.
const handTries = 16

func newHand(members, n []int32) *hand {
	h := &hand{levels: make([][]int32, slices.Max(n)+1)}
	for i, m := range members {
		h.levels[n[i]] = append(h.levels[n[i]], m)
	}
	return h
}

// draw takes one from a member that may have it; nobody when there is none.
func (h *hand) draw(may func(int32) bool, shared func(int32) int32) int32 {
	for left := len(h.levels) - 1; left > 0; left-- {
		members := h.levels[left]
		best, tries, least := -1, 0, int32(0)
		h.at = h.at*1664525 + 1013904223 // any way to go on to others will do
		for k := range members {
			i := (int(h.at>>8) + k) % len(members)
			if !may(members[i]) {
				continue
			}
			if n := shared(members[i]); best < 0 || n < least {
				best, least = i, n
			}
			if tries++; least == 0 || tries == handTries {
				break
			}
		}
		if best >= 0 {
			m := members[best]
			h.levels[left] = slices.Delete(members, best, best+1)
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
