package assignor

import "slices"

// Transition is what to hand out in this generation on the way to the target.
//
// INVARIANT: a task goes to nobody but the holder of its newest claim while that one is in the
// group and has not let go. The holder sees that the task is not among its actives, finishes, and
// joins again without it.
//
// A later rule (a task moves to a cold member only after a warm-up) takes its place here.
func Transition(in Input, target Plan) Plan {
	p := newProblem(in)
	numbers := make(map[string]int32, len(p.members))
	for i, m := range p.members {
		numbers[m.ID] = int32(i)
	}
	at, to := p.blank(), p.placed(target, numbers)
	var waiting []Wait
	for i := range p.sets {
		s := &p.sets[i]
		for partition := range s.Partitions {
			goal, holder := to.active[i][partition], s.owner[partition]
			at.standby[i][partition] = slices.DeleteFunc(slices.Clone(to.standby[i][partition]), func(m int32) bool {
				return m == holder && holder != goal // it is still the active
			})
			if holder == nobody || holder == goal || goal == nobody {
				at.active[i][partition] = goal
				continue
			}
			waiting = append(waiting, Wait{Task{s.Key, partition}, p.members[holder].ID, p.members[goal].ID})
		}
	}
	plan := p.plan(at)
	plan.Waiting = waiting
	plan.Warnings = slices.Clone(target.Warnings)
	plan.sort()
	return plan
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
func (p *problem) placed(plan Plan, numbers map[string]int32) placement {
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
	for id, share := range plan.Members {
		m, ok := numbers[id]
		if !ok {
			continue
		}
		each(share.Active, func(set int, partition int32) { at.active[set][partition] = m })
		each(share.Standby, func(set int, partition int32) {
			at.standby[set][partition] = append(at.standby[set][partition], m)
		})
	}
	return at
}
