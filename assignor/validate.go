package assignor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Validate tells what is wrong with a target for this input: the oracle of the tests, and asked by the
// leader before a plan leaves it. Every task of a set that somebody declares must be active on
// exactly one member that may have it, or be named in Waiting when none may; have exactly as many
// standbys as asked for and possible; none beside its active; and each of its sources that its active
// does not declare must be named in Waiting.
func Validate(in Input, plan Plan) error {
	v := newVerdict(in, plan)
	for i := range v.p.sets {
		v.checkSet(i, in.Options.Capacity)
	}
	return errors.Join(v.errs...)
}

// ValidateNext is Validate for what Transition gives out: nothing may go to a member while another
// holds the newest claim. Such a task is named in Waiting; it may have fewer standbys than asked for,
// and its holder may be one of them, beyond their number. With warm-ups it may not take a task to where it
// is cold while somebody has it warm, and gives copies beyond the number of standbys only to those who
// warm up.
func ValidateNext(in Input, plan Plan) error {
	v := newVerdict(in, plan)
	v.next = true
	for i := range v.p.sets {
		v.checkSet(i, 0)
	}
	v.checkWarming(in.Options, plan.Warming)
	return errors.Join(v.errs...)
}

type verdict struct {
	p       *problem
	active  [][][]int32
	standby [][][]int32
	waiting map[Task]Wait            // those that have no active
	unread  map[Task]map[string]bool // sources that wait
	warming map[Task]Warmup
	able    map[ableKey]int // how many can hold standbys of some tasks
	extras  int             // copies made only for moves
	next    bool
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
	v := &verdict{p: p, active: make([][][]int32, len(p.sets)), standby: make([][][]int32, len(p.sets)), waiting: map[Task]Wait{}, unread: map[Task]map[string]bool{}, warming: map[Task]Warmup{}, able: map[ableKey]int{}}
	for _, w := range plan.Warming {
		v.warming[w.Task] = w
	}
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
		if !w.Runs() {
			v.waiting[w.Task] = w
			continue
		}
		if v.unread[w.Task] == nil {
			v.unread[w.Task] = map[string]bool{}
		}
		v.unread[w.Task][w.Source] = true
	}
	return v
}

func (v *verdict) checkSet(i int, capacity int32) {
	s := &v.p.sets[i]
	shares := map[int32]int32{}
	for partition := range v.active[i] {
		t := Task{s.Key, int32(partition)}
		active := v.active[i][partition]
		wait, waits := v.waiting[t]
		switch {
		case len(active) > 1:
			v.refuse("task %s is active on %q and %q", t, v.id(active[0]), v.id(active[1]))
		case len(active) == 0 && !waits:
			v.refuse("task %s is active on nobody, and does not wait", t)
		case len(active) == 1 && waits:
			v.refuse("task %s is active on %q and waits for %q", t, v.id(active[0]), wait.For)
		case waits:
			v.checkWait(s, partition, wait)
		}
		for _, m := range active {
			shares[m]++
			v.checkActive(s, partition, m)
		}
		v.checkStandbys(i, partition, waits)
	}
	for m, n := range shares {
		if capacity > 0 && n > capacity {
			v.refuse("%q has %d tasks of set %q and may have %d", v.id(m), n, s.Key, capacity)
		}
	}
}

// checkWait looks at a task without an active.
func (v *verdict) checkWait(s *set, partition int, wait Wait) {
	t, holder := wait.Task, v.p.name(s.owner[partition])
	switch {
	case wait.For != holder:
		v.refuse("task %s waits for %q, and %q holds it", t, wait.For, holder)
	case wait.To == "" && len(s.may(partition)) > 0:
		v.refuse("task %s waits for nothing: there are members that may have it", t)
	case wait.To != "" && (!v.next || holder == ""):
		v.refuse("task %s waits to go to %q, and nobody has to let go of it", t, wait.To)
	case wait.To != "" && !slices.ContainsFunc(s.may(partition), func(m int32) bool { return v.id(m) == wait.To }):
		v.refuse("task %s waits to go to %q, which may not have it", t, wait.To)
	}
}

func (v *verdict) checkActive(s *set, partition int, m int32) {
	t, holder := Task{s.Key, int32(partition)}, s.owner[partition]
	if !contains(s.may(partition), m) {
		v.refuse("task %s is active on %q, which is leaving or lacks a table that the task's claim names", t, v.id(m))
	}
	if v.next && holder != nobody && holder != m {
		v.refuse("task %s is given to %q while %q holds it", t, v.id(m), v.id(holder))
	}
	for _, source := range s.Sources {
		if _, reads := slices.BinarySearch(s.sayOf(m).sources, source); reads == v.unread[t][source] {
			v.refuse("task %s is active on %q: that nobody reads its source %q there is %t, that it waits %t", t, v.id(m), source, !reads, v.unread[t][source])
		}
	}
}

func (v *verdict) checkStandbys(i, partition int, waits bool) {
	s, active, standby := &v.p.sets[i], nobody, v.standby[i][partition]
	t := Task{s.Key, int32(partition)}
	if len(v.active[i][partition]) > 0 {
		active = v.active[i][partition][0]
	}
	unique := slices.Clone(standby)
	slices.Sort(unique)
	if len(slices.Compact(unique)) != len(standby) {
		v.refuse("task %s has two standbys on one member", t)
	}
	n := len(standby)
	for _, m := range standby {
		switch {
		case m == active:
			v.refuse("task %s has a standby beside its active on %q", t, v.id(m))
		case v.p.members[m].NoStandby:
			v.refuse("task %s has a standby on %q, which cannot hold one", t, v.id(m))
		case !contains(s.may(partition), m):
			v.refuse("task %s has a standby on %q, which is leaving or lacks a table that the task's claim names", t, v.id(m))
		}
		n -= boolInt(v.next && waits && (m == s.owner[partition] || v.p.warmups > 0 && v.id(m) == v.waiting[t].To && s.hasCopy(partition, m)))
	}
	want := v.standbysOf(s, partition, active)
	if w, ok := v.warming[t]; ok && !w.Later && n == want+1 && slices.ContainsFunc(standby, func(m int32) bool { return v.id(m) == w.To }) {
		v.extras++
		n--
	}
	if n > want || n < want && !(v.next && waits) {
		v.refuse("task %s has %d standbys, not %d", t, n, want)
	}
}

type ableKey struct {
	set  string
	only *entitled
}

// standbysOf is how many standbys a task gets when its active is on a member.
func (v *verdict) standbysOf(s *set, partition int, active int32) int {
	key := ableKey{s.Key, s.only[partition]}
	able, ok := v.able[key]
	if !ok {
		able = len(v.p.canShadow(s.may(partition)))
		v.able[key] = able
	}
	if active != nobody && !v.p.members[active].NoStandby && contains(s.may(partition), active) {
		able--
	}
	return min(v.p.replicas, able)
}
