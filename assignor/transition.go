package assignor

import "slices"

// Transition is what to hand out in this generation on the way to the target.
//
// INVARIANT: a task goes to nobody but the holder of its newest claim while that one is in the
// group and has not let go. The holder sees that the task is not among its actives, finishes, and
// joins again without it. Where the target makes the holder a standby, it is a standby of its own task
// meanwhile, so that it can keep its tables. The next active keeps the copy that it has.
//
// With Options.MaxWarmups a task whose goal is cold stays where it is warm, and the goal warms up; see
// warmup.go.
func Transition(in Input, target Plan) Plan {
	p := newProblem(in)
	t := transition{problem: p, to: p.placed(target), at: p.blank(), load: make([]int32, len(p.members)), limit: in.Options.Capacity}
	for range p.sets {
		t.share = append(t.share, make([]int32, len(p.members)))
	}
	t.at.goal = t.next()
	for i := range p.sets {
		s := &p.sets[i]
		for partition, next := range t.at.goal[i] {
			holder, goal, standby := s.owner[partition], t.to.active[i][partition], t.to.standby[i][partition]
			gives := holder == nobody || holder == next
			if gives {
				t.at.active[i][partition] = next
			}
			switch {
			case next != goal:
				standby = t.beside(i, partition)
			case !gives:
				standby = p.meanwhile(s, partition, goal, standby)
			}
			t.at.standby[i][partition] = standby
		}
	}
	t.warmUp()
	return p.plan(t.at)
}

// meanwhile are the standbys of a task that waits for its holder: the goal, if it has a copy, the
// holder, if it is one in the target, and of the others as many as are asked for besides the holder,
// which is still the active. A copy that was made for the move stays even where no standbys are asked for.
func (p *problem) meanwhile(s *set, partition int, goal int32, standby []int32) []int32 {
	room := p.replicas
	var list []int32
	if goal != nobody && s.hasCopy(partition, goal) && !p.members[goal].NoStandby && (room > 0 || p.warmups > 0) {
		list = append(list, goal)
		room--
	}
	for _, m := range standby {
		if m == s.owner[partition] {
			list = append(list, m)
		} else if room > 0 {
			list = append(list, m)
			room--
		}
	}
	return list
}

// blank is a placement of nothing.
func (p *problem) blank() placement {
	at := placement{active: make([][]int32, len(p.sets)), standby: make([][][]int32, len(p.sets))}
	for i := range p.sets {
		at.active[i] = slices.Repeat([]int32{nobody}, int(p.sets[i].Partitions))
		at.standby[i] = make([][]int32, p.sets[i].Partitions)
	}
	return at
}

// placed puts a plan back into numbers. Tasks that the problem does not have are left out.
func (p *problem) placed(plan Plan) placement {
	at := p.blank()
	of := p.setOf()
	byKey := make(map[string]int, len(plan.Sets))
	for _, u := range plan.Sets {
		if len(u.Sources) > 0 {
			if i, ok := of[u.Sources[0]]; ok {
				byKey[u.Key] = i
			}
		}
	}
	each := func(tasks []Task, place func(set int, partition int32)) {
		for _, t := range tasks {
			if i, ok := byKey[t.Set]; ok && t.Partition >= 0 && t.Partition < p.sets[i].Partitions {
				place(i, t.Partition)
			}
		}
	}
	for i := range p.members { // in order: the lists of standbys depend on it
		m, share := int32(i), plan.Members[p.members[i].ID]
		each(share.Active, func(set int, partition int32) { at.active[set][partition] = m })
		each(share.Standby, func(set int, partition int32) {
			at.standby[set][partition] = append(at.standby[set][partition], m)
		})
	}
	return at
}
