package assignor

import (
	"cmp"
	"container/heap"
	"slices"
)

// standbys gives each task of a set its shadows: copies stay where they are while that fits the
// share of their member, the old owner of a task that moves is a copy too, and the rest goes to
// those who shadow least. INVARIANT: no standby beside its active.
func (p *problem) standbys(s *set, active []int32, load []int32) [][]int32 {
	standby := make([][]int32, s.Partitions)
	able := p.able(s)
	if p.replicas <= 0 || len(able) == 0 {
		return standby
	}
	perTask := min(p.replicas, len(able))
	limit := (s.Partitions*int32(perTask) + int32(len(able)) - 1) / int32(len(able))
	own := make([]int32, len(p.members)) // standbys of this set
	take := func(partition int, m int32) {
		standby[partition] = append(standby[partition], m)
		own[m]++
		load[m]++
	}
	canTake := func(partition int, m int32) bool {
		return contains(able, m) && contains(s.may(partition), m) && active[partition] != m && !slices.Contains(standby[partition], m)
	}
	wanted := func(partition int) int {
		return p.standbysOf(s, partition, active[partition]) - len(standby[partition])
	}
	for partition := range standby {
		for _, m := range s.warm(partition) {
			if wanted(partition) > 0 && own[m] < limit && canTake(partition, m) {
				take(partition, m)
			}
		}
	}
	queue := &lightest{own: own, load: load, members: slices.Clone(able)}
	heap.Init(queue)
	for partition := range standby {
		var passed []int32
		for wanted(partition) > 0 {
			m := queue.members[0]
			if was := s.formerly(partition, own[m] >= limit, canTake); was != nobody {
				take(partition, was)
				heap.Init(queue)
				continue
			}
			passed = append(passed, heap.Pop(queue).(int32))
			if canTake(partition, m) {
				take(partition, m)
			}
		}
		for _, m := range passed {
			heap.Push(queue, m)
		}
	}
	return standby
}

// able are the members that can hold standbys of a set, ascending.
func (p *problem) able(s *set) []int32 {
	return slices.DeleteFunc(slices.Clone(s.eligible), func(m int32) bool { return p.members[m].NoStandby })
}

// standbysOf is how many standbys a task gets when its active is on a member.
func (p *problem) standbysOf(s *set, partition int, active int32) int {
	able := 0
	for _, m := range s.may(partition) {
		able += boolInt(!p.members[m].NoStandby && m != active)
	}
	return min(p.replicas, able)
}

// warm are the members with a copy of a task, the most caught-up first; its owner is one.
func (s *set) warm(partition int) []int32 {
	var warm []int32
	if m := s.owner[partition]; m != nobody {
		warm = append(warm, m)
	}
	for _, h := range s.copies[partition] {
		warm = append(warm, h.member)
	}
	return warm
}

// formerly is a member that has a copy already, for when everybody is full: a copy is not moved
// from one full member to another.
func (s *set) formerly(partition int, full bool, canTake func(int, int32) bool) int32 {
	if !full {
		return nobody
	}
	for _, m := range s.warm(partition) {
		if canTake(partition, m) {
			return m
		}
	}
	return nobody
}

// lightest is a heap of members by standbys of the set, then of all sets.
type lightest struct {
	own, load []int32
	members   []int32
}

func (l *lightest) Len() int { return len(l.members) }
func (l *lightest) Less(i, j int) bool {
	a, b := l.members[i], l.members[j]
	return cmp.Or(cmp.Compare(l.own[a], l.own[b]), cmp.Compare(l.load[a], l.load[b]), cmp.Compare(a, b)) < 0
}
func (l *lightest) Swap(i, j int) { l.members[i], l.members[j] = l.members[j], l.members[i] }
func (l *lightest) Push(m any)    { l.members = append(l.members, m.(int32)) }
func (l *lightest) Pop() any {
	last := len(l.members) - 1
	m := l.members[last]
	l.members = l.members[:last]
	return m
}
