package assignor

import "slices"

// checkWarming looks at the warm-ups of a generation, and at what goes where it is cold.
func (v *verdict) checkWarming(o Options, warming []Warmup) {
	if v.extras > max(o.MaxWarmups, 0) {
		v.refuse("%d copies are made only for moves, and at most %d may be", v.extras, o.MaxWarmups)
	}
	index := map[string]int{}
	for i := range v.p.sets {
		index[v.p.sets[i].Key] = i
	}
	for _, w := range warming {
		i, ok := index[w.Task.Set]
		if !ok || o.MaxWarmups <= 0 || w.Task.Partition < 0 || w.Task.Partition >= v.p.sets[i].Partitions {
			v.refuse("task %s warms up: it does not exist, or warm-ups are off", w.Task)
			continue
		}
		v.checkWarmup(i, w)
	}
	for i := range v.p.sets {
		for partition := range v.active[i] {
			if o.MaxWarmups > 0 {
				v.checkCold(i, partition, o.Capacity)
			}
		}
	}
}

func (v *verdict) checkWarmup(i int, w Warmup) {
	s, partition := &v.p.sets[i], int(w.Task.Partition)
	to := slices.IndexFunc(v.p.members, func(m Member) bool { return m.ID == w.To })
	switch gets := v.gets(i, partition); {
	case gets == nobody || v.id(gets) != w.From || w.From == w.To:
		v.refuse("task %s warms up at %q while it is with %q, which is not so", w.Task, w.To, w.From)
	case to < 0 || !contains(s.may(partition), int32(to)):
		v.refuse("task %s warms up at %q, which may not have it", w.Task, w.To)
	case slices.Contains(v.standby[i][partition], int32(to)) == w.Later:
		v.refuse("task %s warms up at %q: that its turn is later is %t, and so is that it has a copy made", w.Task, w.To, w.Later)
	}
}

// gets is who is the active of a task, or will be once its holder has let go.
func (v *verdict) gets(i, partition int) int32 {
	if list := v.active[i][partition]; len(list) > 0 {
		return list[0]
	}
	to := v.waiting[Task{v.p.sets[i].Key, int32(partition)}].To
	return int32(slices.IndexFunc(v.p.members, func(m Member) bool { return m.ID == to }))
}

// checkCold: a task does not go to a cold member while another has it warm and can have it.
func (v *verdict) checkCold(i, partition int, capacity int32) {
	s, m := &v.p.sets[i], v.gets(i, partition)
	holder := s.owner[partition]
	if m == nobody || m == holder || !v.p.cold(s, partition, m) {
		return
	}
	t := Task{s.Key, int32(partition)}
	if holder != nobody && contains(s.may(partition), holder) {
		v.refuse("task %s goes to %q, which has no warm copy, and %q has to let go of it", t, v.id(m), v.id(holder))
	}
	for _, h := range s.copies[partition] {
		if v.p.warmLag(h.lag) && contains(s.may(partition), h.member) && (capacity <= 0 || v.tasks(i, h.member) < capacity) {
			v.refuse("task %s goes to %q, which has no warm copy, and %q has one", t, v.id(m), v.id(h.member))
		}
	}
}

// tasks are a member's tasks of a set, those that wait for their holders among them.
func (v *verdict) tasks(i int, m int32) (n int32) {
	for partition := range v.active[i] {
		n += int32(boolInt(v.gets(i, partition) == m))
	}
	return n
}
