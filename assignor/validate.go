package assignor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Validate tells what is wrong with a plan for this input: the oracle of the tests, and asked by the
// leader before a plan leaves it. Every task of a set that somebody declares must be active on
// exactly one member that declares it, or be named in Waiting; have exactly as many standbys as
// asked for and possible (fewer only while it waits); and none beside its active.
func Validate(in Input, plan Plan) error {
	v := newVerdict(in, plan)
	for i := range v.p.sets {
		v.checkSet(i)
	}
	return errors.Join(v.errs...)
}

// ValidateNext is Validate for what Transition gives out: nothing may go to a member while another
// holds the newest claim.
func ValidateNext(in Input, plan Plan) error {
	v := newVerdict(in, plan)
	for i := range v.p.sets {
		v.checkSet(i)
		s := &v.p.sets[i]
		for partition, holder := range s.owner {
			for _, m := range v.active[i][partition] {
				if holder != nobody && holder != m {
					v.refuse("task %s is given to %q while %q holds it", Task{s.Key, int32(partition)}, v.id(m), v.id(holder))
				}
			}
		}
	}
	return errors.Join(v.errs...)
}

type verdict struct {
	p       *problem
	active  [][][]int32
	standby [][][]int32
	waiting map[Task]Wait
	errs    []error
}

func (v *verdict) refuse(format string, args ...any) {
	if len(v.errs) < 10 {
		v.errs = append(v.errs, fmt.Errorf(format, args...))
	}
}

func (v *verdict) id(m int32) string { return v.p.members[m].ID }

func newVerdict(in Input, plan Plan) *verdict {
	p := newProblem(in)
	v := &verdict{p: p, active: make([][][]int32, len(p.sets)), standby: make([][][]int32, len(p.sets)), waiting: map[Task]Wait{}}
	index := map[string]int{}
	for i, s := range p.sets {
		index[s.Key] = i
		v.active[i] = make([][]int32, s.Partitions)
		v.standby[i] = make([][]int32, s.Partitions)
	}
	collect := func(m int32, what string, tasks []Task, into [][][]int32) {
		for _, t := range tasks {
			i, ok := index[t.Set]
			if !ok || t.Partition < 0 || t.Partition >= p.sets[i].Partitions {
				v.refuse("%q is given the %s %s, which does not exist", v.id(m), what, t)
				continue
			}
			if !p.sets[i].declaredBy(m) {
				v.refuse("%q is given the %s %s, which it has not declared", v.id(m), what, t)
			}
			into[i][t.Partition] = append(into[i][t.Partition], m)
		}
	}
	known := map[string]bool{}
	for i, m := range p.members {
		known[m.ID] = true
		share := plan.Members[m.ID]
		collect(int32(i), "active", share.Active, v.active)
		collect(int32(i), "standby", share.Standby, v.standby)
	}
	for _, id := range slices.Sorted(maps.Keys(plan.Members)) {
		if !known[id] {
			v.refuse("%q is in the plan and not in the group", id)
		}
	}
	for _, w := range plan.Waiting {
		v.waiting[w.Task] = w
	}
	return v
}

func (v *verdict) checkSet(i int) {
	s := &v.p.sets[i]
	able := v.p.able(s)
	for partition := range v.active[i] {
		t := Task{s.Key, int32(partition)}
		active, standby := v.active[i][partition], v.standby[i][partition]
		wait, waits := v.waiting[t]
		switch {
		case len(active) > 1:
			v.refuse("task %s is active on %q and %q", t, v.id(active[0]), v.id(active[1]))
		case len(active) == 0 && !waits && len(s.eligible) > 0:
			v.refuse("task %s is active on nobody", t)
		case len(active) == 1 && waits:
			v.refuse("task %s is active on %q and waits for %q", t, v.id(active[0]), wait.For)
		case waits && (s.owner[partition] == nobody || v.id(s.owner[partition]) != wait.For):
			v.refuse("task %s waits for %q, which does not hold it", t, wait.For)
		}
		unique := slices.Clone(standby)
		slices.Sort(unique)
		if len(slices.Compact(unique)) != len(standby) {
			v.refuse("task %s has two standbys on one member", t)
		}
		possible := len(able)
		for _, m := range active {
			if slices.Contains(standby, m) {
				v.refuse("task %s has a standby beside its active on %q", t, v.id(m))
			}
			possible -= boolInt(slices.Contains(able, m))
		}
		for _, m := range standby {
			if v.p.members[m].NoStandby {
				v.refuse("task %s has a standby on %q, which cannot hold one", t, v.id(m))
			}
		}
		want := min(max(v.p.replicas, 0), possible)
		if len(standby) > want || len(standby) < want && !waits {
			v.refuse("task %s has %d standbys, not %d", t, len(standby), want)
		}
	}
}
