package assignor

// Target is where everything should end up: each task active on one of the members that may have it,
// in equal shares, and shadowed by as many others as asked for. The error is a *CapacityError.
//
// Each rule goes before the next:
//
//  1. A task is active on exactly one member that may have it: that declares its set, is not about to
//     leave, and declares the tables that the task's claim names (see entitled).
//  2. The tasks of each set are as even over those members as they can be: where all may have all of
//     them, nobody has two more than another.
//  3. So are the tasks of all sets together.
//  4. As few tasks as possible move away from the holder of their newest claim. So a settled group
//     that did not change stays as it is, and when a member leaves only its tasks move.
//  5. When members join and none leaves, no old member gets a task of another.
//  6. As few tasks as possible go to a member without a copy while there is one with a copy; and
//     to the most caught-up copy.
//
// With one set, 4 and 5 never give way: all orphans and no others move when the group shrinks, and
// all that move go to the new ones when it grows. With several, 3 may ask for one task more now
// and then; TestEvennessGoesBeforeGrowth shows the smallest group where it does.
//
// Of what is left open the order of the members' IDs decides, never that of the input.
func Target(in Input) (Plan, error) {
	p := newProblem(in)
	if err := p.fits(in.Options.Capacity); err != nil {
		return Plan{}, err
	}
	at := placement{active: p.actives()}
	if err := p.within(in.Options.Capacity, at.active); err != nil {
		return Plan{}, err
	}
	at.standby = p.standbys(at.active)
	return p.plan(at), nil
}

// fits compares each set with what its members can hold together.
func (p *problem) fits(capacity int32) error {
	for i := range p.sets {
		s := &p.sets[i]
		if n := len(s.eligible); capacity > 0 && n > 0 && int64(n)*int64(capacity) < int64(s.Partitions) {
			return &CapacityError{s.Key, s.Partitions, n, capacity}
		}
	}
	return nil
}

// within looks for a member with too much of a set: only where claims leave tasks to a few members,
// as the actives are as even as they can be.
func (p *problem) within(capacity int32, active [][]int32) error {
	if capacity <= 0 {
		return nil
	}
	for i := range p.sets {
		s := &p.sets[i]
		count := make([]int32, len(p.members))
		for partition, m := range active[i] {
			if m == nobody {
				continue
			}
			if count[m]++; count[m] > capacity {
				return &CapacityError{s.Key, s.Partitions, len(s.may(partition)), capacity}
			}
		}
	}
	return nil
}
