package assignor

import (
	"cmp"
	"slices"
)

// Target is where everything should end up: each task active on one of the members that declare
// its set, in equal shares (of each set, and of all sets together, when declarations are equal), and
// shadowed by as many others as asked for. Owners keep what fits their share.
func Target(in Input) Plan {
	p := newProblem(in)
	return p.plan(p.target())
}

func (p *problem) target() placement {
	at := placement{active: make([][]int32, len(p.sets)), standby: make([][][]int32, len(p.sets))}
	totals := make([]int32, len(p.members)) // shares given so far, over all sets
	for _, i := range p.order() {
		s := &p.sets[i]
		at.active[i] = s.place(p.shares(s, totals), len(p.members))
	}
	load := make([]int32, len(p.members))
	for i := range p.sets {
		at.standby[i] = p.standbys(&p.sets[i], at.active[i], load)
	}
	return at
}

// order is that of sets: those that fewest members can have come first, and the rest fill up.
func (p *problem) order() []int {
	order := make([]int, len(p.sets))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(len(p.sets[a].eligible), len(p.sets[b].eligible))
	})
	return order
}

// shares is how many tasks of a set each member gets: all the same, and what is left over one each
// to those who have least so far, before all to those who need not move for it.
func (p *problem) shares(s *set, totals []int32) []int32 {
	shares := make([]int32, len(p.members))
	n := int32(len(s.eligible))
	if n == 0 {
		return shares
	}
	each, left := s.Partitions/n, s.Partitions%n
	rank := p.rank(s, each)
	order := slices.Clone(s.eligible)
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(totals[a], totals[b]), cmp.Compare(rank[a], rank[b]), cmp.Compare(a, b))
	})
	for i, m := range order {
		shares[m] = each
		if int32(i) < left {
			shares[m]++
		}
		totals[m] += shares[m]
	}
	return shares
}

// rank says what one task more than each would cost a member: 0 it has it already, 1 it has a copy
// of a task without an owner, 2 it is new and has nothing yet, 3 anything else.
func (p *problem) rank(s *set, each int32) []uint8 {
	owned := make([]int32, len(p.members))
	warm := make([]bool, len(p.members))
	for partition, m := range s.owner {
		if m != nobody {
			owned[m]++
			continue
		}
		for _, h := range s.copies[partition] {
			warm[h.member] = true
		}
	}
	rank := make([]uint8, len(p.members))
	for _, m := range s.eligible {
		switch {
		case owned[m] > each:
			rank[m] = 0
		case warm[m]:
			rank[m] = 1
		case len(p.members[m].Owned) == 0:
			rank[m] = 2
		default:
			rank[m] = 3
		}
	}
	return rank
}

// place gives each task of a set to a member within its share: to its owner, else to the member with
// the most caught-up copy, else in turn.
func (s *set) place(shares []int32, members int) []int32 {
	free := slices.Clone(shares)
	active := make([]int32, s.Partitions)
	give := func(partition int, m int32) bool {
		if m == nobody || free[m] == 0 {
			return false
		}
		free[m]--
		active[partition] = m
		return true
	}
	for partition, m := range s.owner {
		if !give(partition, m) {
			active[partition] = nobody
		}
	}
	for partition := range active {
		for _, h := range s.copies[partition] {
			if active[partition] != nobody || give(partition, h.member) {
				break
			}
		}
	}
	turn := 0
	for partition := range active {
		for tries := 0; active[partition] == nobody && tries < members; tries++ {
			give(partition, int32(turn))
			turn = (turn + 1) % members
		}
	}
	return active
}
