package assignor

import (
	"cmp"
	"slices"
)

// Warm-ups: a task does not go to a member that would have to restore it while somebody has it warm. That
// one keeps it, or gets it, and the member it is for makes a copy first. Once the copy is warm, that
// member asks for another generation, in which the task is told to go.
//
// A goal is cold when it declares tables with the set, could hold a copy, and has none that is known to be
// within the acceptable lag. Who cannot hold copies (NoStandby) gets a task at once, cold or not, and so
// does everybody when warm-ups are off.
//
// INVARIANT: a task moves to a cold member only if nobody who may have it has it warm.
// INVARIANT: no task is without an active because of a warm-up.
// INVARIANT: at most MaxWarmups copies are made only for a move, beside the standbys asked for.
//
// Each generation begins with the target anew, and nothing but the members' claims and copies is known of
// the one before. It comes to an end all the same: a target moves as little as it can, and of that
// as little to those without a copy, so that a copy once begun makes its task the one to move; what has
// begun and gets on goes before anything new; and each move makes the rest shorter.

// muchLess is by which factor an orphan's best copy must be ahead of its goal's, when neither is warm.
const muchLess = 8

// warmup is a task whose goal is not its active yet.
type warmup struct {
	set, partition int
	from, to       int32
	later          bool
	begun          bool // the goal has a copy already
	lag            uint64
	turn           int // among those of the same goal
}

// transition is the step to one generation.
type transition struct {
	*problem
	to, at placement
	load   []int32   // tasks of each member in this generation, over all sets
	share  [][]int32 // and by set
	limit  int32     // most of a set; 0: none
}

func (p *problem) warmLag(lag int64) bool { return lag >= 0 && lag <= p.acceptable }

// lagOf is unknown, too, where the member has no copy.
func (s *set) lagOf(partition int, m int32) (lag int64, has bool) {
	for _, h := range s.copies[partition] {
		if h.member == m {
			return h.lag, true
		}
	}
	return UnknownLag, false
}

// cold tells whether a member should have a copy of a task before it gets it.
func (p *problem) cold(s *set, partition int, m int32) bool {
	if p.warmups <= 0 || p.members[m].NoStandby || len(s.sayOf(m).logs) == 0 {
		return false
	}
	lag, _ := s.lagOf(partition, m)
	return !p.warmLag(lag)
}

// next finds who is to be the active of each task in this generation, or once its holder has let go.
func (t *transition) next() [][]int32 {
	next := make([][]int32, len(t.sets))
	type orphan struct{ set, partition int }
	var orphans []orphan
	for i := range t.sets {
		s := &t.sets[i]
		next[i] = slices.Clone(t.to.active[i])
		for partition, goal := range next[i] {
			holder := s.owner[partition]
			switch {
			case goal == nobody:
				continue
			case goal == holder || !t.cold(s, partition, goal):
			case holder != nobody && contains(s.may(partition), holder):
				next[i][partition] = holder
			default:
				orphans = append(orphans, orphan{i, partition})
				continue
			}
			t.give(i, next[i][partition])
		}
	}
	for _, o := range orphans {
		m := t.warmest(o.set, o.partition)
		next[o.set][o.partition] = m
		t.give(o.set, m)
	}
	return next
}

func (t *transition) give(i int, m int32) {
	t.load[m]++
	t.share[i][m]++
}

// warmest is who gets an orphan whose goal is cold: of those with a warm copy the one with fewest tasks,
// else the one with the best copy if that is much better than the goal's, else the goal.
func (t *transition) warmest(i, partition int) int32 {
	s, best := &t.sets[i], nobody
	goal := t.to.active[i][partition]
	behind, known := s.lagOf(partition, goal)
	known = known && behind >= 0
	for _, h := range s.copies[partition] {
		if !contains(s.may(partition), h.member) || t.limit > 0 && t.share[i][h.member] >= t.limit {
			continue
		}
		if t.warmLag(h.lag) {
			if best == nobody || t.load[h.member] < t.load[best] {
				best = h.member
			}
			continue
		}
		if best == nobody && h.lag >= 0 && (!known || h.lag <= behind/muchLess) {
			best = h.member
		}
		break // those that follow are further behind
	}
	if best == nobody {
		return goal
	}
	return best
}

// beside are the standbys of a task whose goal is not its active: those that have a copy stay, so that none
// is thrown away for one that has to be made; then the goal, whose copy is wanted anyway.
func (t *transition) beside(i, partition int) []int32 {
	s, next, goal := &t.sets[i], t.at.goal[i][partition], t.to.active[i][partition]
	var list []int32
	want := t.standbysOf(s, partition, next)
	add := func(m int32) {
		if len(list) < want && m != next && !t.members[m].NoStandby && contains(s.may(partition), m) && !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	if t.at.active[i][partition] == nobody && !t.members[next].NoStandby { // it has a copy, and waits for the holder
		list, want = append(list, next), max(want, 1)
	}
	for _, m := range t.to.standby[i][partition] {
		if s.hasCopy(partition, m) {
			add(m)
		}
	}
	for _, h := range s.copies[partition] {
		if h.member != goal {
			add(h.member)
		}
	}
	add(goal)
	for _, m := range t.to.standby[i][partition] {
		add(m)
	}
	return list
}

// standbysOf is how many standbys a task gets beside its active.
func (p *problem) standbysOf(s *set, partition int, active int32) int {
	able := 0
	for _, m := range s.may(partition) {
		able += boolInt(m != active && !p.members[m].NoStandby)
	}
	return min(p.replicas, able)
}

// warmUp names the tasks that are not with their goals, and lets as many of these make a copy as may.
func (t *transition) warmUp() {
	var queue []warmup
	for i := range t.sets {
		s := &t.sets[i]
		for partition, goal := range t.to.active[i] {
			next := t.at.goal[i][partition]
			if next == goal {
				continue
			}
			w := warmup{set: i, partition: partition, from: next, to: goal}
			if slices.Contains(t.at.standby[i][partition], goal) {
				t.at.warming = append(t.at.warming, w)
				continue
			}
			lag, has := s.lagOf(partition, goal)
			w.begun, w.lag = has, uint64(lag) // unknown is the largest
			queue = append(queue, w)
		}
	}
	queued(queue)
	for n := range queue {
		w := &queue[n]
		if w.later = n >= t.warmups; !w.later {
			t.at.standby[w.set][w.partition] = append(t.at.standby[w.set][w.partition], w.to)
		}
	}
	t.at.warming = append(t.at.warming, queue...)
}

// queued puts warm-ups into the order in which they are allowed: those that are getting on, the most
// caught-up first; then one for each goal, a second for each, and so on, and in each turn those that have
// begun. A copy of unknown lag has no first claim: it may be one that its member cannot open, and others
// would wait for it for ever.
func queued(queue []warmup) {
	slices.SortStableFunc(queue, func(a, b warmup) int {
		return cmp.Or(boolInt(b.begun)-boolInt(a.begun), cmp.Compare(a.lag, b.lag), cmp.Compare(a.set, b.set), cmp.Compare(a.partition, b.partition))
	})
	turns := map[int32]int{}
	for n := range queue {
		w := &queue[n]
		w.turn = turns[w.to]
		turns[w.to]++
	}
	slices.SortStableFunc(queue, func(a, b warmup) int {
		if a.known() || b.known() {
			return boolInt(b.known()) - boolInt(a.known())
		}
		return cmp.Or(cmp.Compare(a.turn, b.turn), boolInt(b.begun)-boolInt(a.begun))
	})
}

// known tells whether the goal's copy is somewhere already.
func (w *warmup) known() bool { return w.begun && int64(w.lag) >= 0 }
