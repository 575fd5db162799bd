package assignor

import (
	"cmp"
	"slices"
)

// A start is a placement to begin with: near the best, made in one go.

// part is what one set wants to give to its members.
type part struct {
	members []int32 // ascending
	count   int32
	dear    func(m, each int32) int32 // what it costs to give a member one more than each
}

// shares is how many of each part each member gets: all the same, and what is left over one each to
// those who have least so far, before all to those who need not move for it. Parts that fewest
// members share in come first, and the rest fill up.
//
// Of parts with the same members those come first that would take longest to fill up if members
// left. That makes it seldom that evenness over all sets asks for more moves than it must; see Target.
func shares(parts []part, members int) [][]int32 {
	totals := make([]int32, members)
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		n, m := len(parts[a].members), len(parts[b].members)
		return cmp.Or(cmp.Compare(n, m), cmp.Compare(parts[a].fullAt(), parts[b].fullAt()))
	})
	shares := make([][]int32, len(parts))
	for _, i := range order {
		shares[i] = parts[i].share(totals)
	}
	return shares
}

// fullAt is the number of members with which all would have one more than the least now.
func (p part) fullAt() float64 {
	return float64(p.count) / float64(int(p.count)/max(1, len(p.members))+1)
}

func (p part) share(totals []int32) []int32 {
	share := make([]int32, len(totals))
	n := int32(len(p.members))
	if n == 0 {
		return share
	}
	each, left := p.count/n, p.count%n
	dear := make([]int32, len(totals))
	for _, m := range p.members {
		dear[m] = p.dear(m, each)
	}
	order := slices.Clone(p.members)
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(totals[a], totals[b]), cmp.Compare(dear[a], dear[b]), cmp.Compare(a, b))
	})
	for at, m := range order {
		share[m] = each + int32(boolInt(int32(at) < left))
		totals[m] += share[m]
	}
	return share
}

// startShares are those of the actives.
func (p *problem) startShares() [][]int32 {
	parts := make([]part, len(p.sets))
	for i := range p.sets {
		s := &p.sets[i]
		owned, warm, orphans := s.holdings(len(p.members))
		parts[i] = part{s.eligible, s.Partitions, func(m, each int32) int32 {
			switch {
			case owned[m] > each:
				return 0
			case warm[m]:
				return 1
			case orphans || len(p.members[m].Owned) == 0:
				return 2
			default:
				return 3 // somebody would have to give it up
			}
		}}
	}
	return shares(parts, len(p.members))
}

// holdings tells how many tasks of a set each member owns, and who has a copy of one without an owner.
func (s *set) holdings(members int) (owned []int32, warm []bool, orphans bool) {
	owned, warm = make([]int32, members), make([]bool, members)
	for partition, m := range s.owner {
		if m != nobody && contains(s.may(partition), m) {
			owned[m]++
			continue
		}
		orphans = true
		for _, h := range s.copies[partition] {
			warm[h.member] = true
		}
	}
	return owned, warm, orphans
}

// place gives each task of a set to a member within its share: to its owner, else to the member with
// the most caught-up copy, else in turn.
func (s *set) place(share []int32) []int32 {
	d := dealer{free: share}
	active := slices.Repeat([]int32{nobody}, int(s.Partitions))
	for partition, m := range s.owner {
		if m != nobody && contains(s.may(partition), m) && d.take(m) {
			active[partition] = m
		}
	}
	for partition := range active {
		for _, h := range s.copies[partition] {
			if active[partition] != nobody {
				break
			}
			if contains(s.may(partition), h.member) && d.take(h.member) {
				active[partition] = h.member
			}
		}
	}
	for partition, m := range active {
		if may := s.may(partition); m == nobody && len(may) > 0 {
			active[partition] = d.next(may)
		}
	}
	return active
}
