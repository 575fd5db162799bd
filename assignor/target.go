package assignor

import (
	"cmp"
	"slices"
)

// Target is where everything should end up: each task active on one of the members that declare
// its set, in equal shares (of each set, and of all sets together, when declarations are equal), and
// shadowed by as many others as asked for. Owners keep what fits their share. The error is a
// *CapacityError.
func Target(in Input) (Plan, error) {
	p := newProblem(in)
	if err := p.capacity(in.Options.Capacity); err != nil {
		return Plan{}, err
	}
	return p.plan(p.target()), nil
}

func (p *problem) capacity(each int32) error {
	for i := range p.sets {
		s := &p.sets[i]
		if n := len(s.eligible); each > 0 && n > 0 && int64(n)*int64(each) < int64(s.Partitions) {
			return &CapacityError{s.Key, s.Partitions, n, each}
		}
	}
	return nil
}

func (p *problem) target() placement {
	at := placement{active: make([][]int32, len(p.sets)), standby: make([][][]int32, len(p.sets))}
	totals := make([]int32, len(p.members)) // shares given so far, over all sets
	order := p.order()
	for len(order) > 0 {
		n := 1
		for n < len(order) && slices.Equal(p.sets[order[n]].eligible, p.sets[order[0]].eligible) {
			n++
		}
		var sets []*set
		for _, i := range order[:n] {
			sets = append(sets, &p.sets[i])
		}
		for k, shares := range p.shares(sets, totals) {
			at.active[order[k]] = sets[k].place(shares, len(p.members))
		}
		order = order[n:]
	}
	load := make([]int32, len(p.members))
	for i := range p.sets {
		at.standby[i] = p.standbys(&p.sets[i], at.active[i], load)
	}
	return at
}

// order is that of sets: those that fewest members can have come first, and the rest fill up. Sets
// that the same members can have come together.
func (p *problem) order() []int {
	order := make([]int, len(p.sets))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(len(p.sets[a].eligible), len(p.sets[b].eligible)), slices.Compare(p.sets[a].eligible, p.sets[b].eligible))
	})
	return order
}

// shares is how many tasks of each set each member gets, for sets that the same members can have: all
// the same, and what is left over one each to those who have least so far, before all to those who
// need not move for it.
func (p *problem) shares(sets []*set, totals []int32) [][]int32 {
	shares := make([][]int32, len(sets))
	c := class{sets: sets, total: totals}
	members := sets[0].eligible
	for i, s := range sets {
		shares[i] = make([]int32, len(p.members))
		c.more = append(c.more, make([]bool, len(p.members)))
		if len(members) == 0 {
			continue
		}
		n := int32(len(members))
		each, left := s.Partitions/n, s.Partitions%n
		cost := p.cost(s, each)
		c.cost = append(c.cost, cost)
		order := slices.Clone(members)
		slices.SortFunc(order, func(a, b int32) int {
			return cmp.Or(cmp.Compare(totals[a], totals[b]), cmp.Compare(cost[a], cost[b]), cmp.Compare(a, b))
		})
		for at, m := range order {
			shares[i][m] = each
			totals[m] += each
			if int32(at) < left {
				c.more[i][m] = true
				totals[m]++
			}
		}
	}
	if len(sets) > 1 && len(members) > 0 {
		c.improve()
	}
	for i := range sets {
		for _, m := range members {
			if c.more[i][m] {
				shares[i][m]++
			}
		}
	}
	return shares
}

// cost is that of giving a member one task more than each: least if it has it already, then if it
// has a copy of a task without an owner, then if it is new and has nothing yet.
func (p *problem) cost(s *set, each int32) []int32 {
	owned := make([]int32, len(p.members))
	warm := make([]bool, len(p.members))
	orphans := false
	for partition, m := range s.owner {
		if m != nobody {
			owned[m]++
			continue
		}
		orphans = true
		for _, h := range s.copies[partition] {
			warm[h.member] = true
		}
	}
	cost := make([]int32, len(p.members))
	for _, m := range s.eligible {
		switch {
		case owned[m] > each:
			cost[m] = costKept
		case warm[m]:
			cost[m] = costWarm
		case len(p.members[m].Owned) == 0:
			cost[m] = costNew
		case !orphans:
			cost[m] = costGrown
		default:
			cost[m] = costOther
		}
	}
	return cost
}

// place gives each task of a set to a member within its share: to its owner, else to the member with
// the most caught-up copy, else in turn.
func (s *set) place(shares []int32, members int) []int32 {
	free := slices.Clone(shares)
	active := make([]int32, s.Partitions)
	give := func(partition int, m int32) bool {
		if m == nobody || free[m] <= 0 || !contains(s.may(partition), m) {
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
		if may := s.may(partition); active[partition] == nobody && len(may) > 0 {
			active[partition] = slices.MaxFunc(may, func(a, b int32) int { return cmp.Compare(free[a], free[b]) })
			free[active[partition]]--
		}
	}
	return active
}
