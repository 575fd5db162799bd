package groupclient

import (
	"slices"
	"time"

	"github.com/pillion/pillion/assignor"
)

// Warm-ups: a task does not move to a member without a warm copy; the plan gives that member a copy first,
// and names it as one that warms up. Nobody else sees when it is warm, so that the member looks at each
// heartbeat, and asks for one follow-up join when it is. The plan of that join lets the task go.
//
// INVARIANT: copies ask for at most one join in a generation, never while the group rebalances, and a copy
// for which a join was in vain asks again after a pause that doubles each time. So a copy that is warm
// now and then and never for long makes no storm.
//
// In case that nobody asks (a copy that never gets warm and should be another's by now, a member that did not
// see what was planned) the leader asks for a new plan once in a while, and so, later, does who warms up.

const (
	// warmLinger is how long a follow-up join waits for other copies that are about to be warm.
	warmLinger = 500 * time.Millisecond
	// vainPause is how long a copy for which a join was in vain asks for no other one, the first time.
	vainPause = 2 * time.Second
	// maxQuietProbes bounds how often the pause between two probes doubles while nothing changes.
	maxQuietProbes = 3
)

// warming is what a member knows of copies that warm up. Of Run's goroutine only.
type warming struct {
	plan []assignor.Warmup // of the plan that we made last, when we lead
	mine []Task            // what we warm up, by the last sync
	lag  int64             // records that a warm copy may be behind
	due  time.Time         // a join is due then, because copies are warm; zero: not
	warm []Task            // those
	vain map[Task]vain

	probe time.Time // a join is due then, because nothing has changed for long; zero: not
	quiet int       // probes in a row that have changed nothing
	seen  []Task    // what warmed up at the last sync
}

// vain is how often a join has changed nothing for a copy, and until when it asks for no other one.
type vain struct {
	times int
	until time.Time
}

// settleWarm takes over what warms up in a new generation.
func (g *Group) settleWarm(mine []Task, lag int64, leader bool) {
	w, now := &g.warm, time.Now()
	if !leader {
		w.plan = nil
	}
	before := w.vain
	w.vain = map[Task]vain{}
	for _, t := range mine {
		v := before[t]
		if slices.Contains(w.warm, t) { // it was warm when we joined, and that was not enough
			v.times++
			v.until = now.Add(min(vainPause<<min(v.times-1, 10), g.cfg.ProbingInterval))
		}
		w.vain[t] = v
	}
	w.mine, w.lag, w.due, w.warm = mine, lag, time.Time{}, nil
	g.settleProbe(now)
}

// settleProbe sets the time of the next probe: the leader's first.
func (g *Group) settleProbe(now time.Time) {
	w := &g.warm
	var seen []Task
	for _, p := range w.plan {
		seen = append(seen, Task{Set: p.Task.Set, Partition: p.Task.Partition})
	}
	leads := len(seen) > 0
	if !leads {
		seen = slices.SortedFunc(slices.Values(w.mine), compareTasks)
	}
	if slices.Equal(seen, w.seen) && !w.probe.IsZero() && !now.Before(w.probe) {
		w.quiet = min(w.quiet+1, maxQuietProbes)
	} else if !slices.Equal(seen, w.seen) {
		w.quiet = 0
	}
	w.seen, w.probe = seen, time.Time{}
	if len(seen) == 0 {
		return
	}
	pause := g.cfg.ProbingInterval << w.quiet
	if !leads {
		pause *= 2
	}
	w.probe = now.Add(pause)
}

// lookAtCopies asks for a follow-up join when a copy that warms up is warm. It is called after a heartbeat
// that was answered well: the group does not rebalance.
func (g *Group) lookAtCopies() {
	w, now := &g.warm, time.Now()
	if len(w.mine) == 0 || !w.due.IsZero() || g.cfg.Copies == nil {
		return
	}
	for _, c := range g.cfg.Copies() {
		if c.Lag < 0 || assignor.CoarseLag(c.Lag) > w.lag || !slices.Contains(w.mine, c.Task) {
			continue
		}
		if !now.Before(w.vain[c.Task].until) {
			w.due = now.Add(warmLinger)
		}
		w.warm = append(w.warm, c.Task)
	}
	if w.due.IsZero() {
		w.warm = nil
	}
}

// warmDue tells when copies want a join.
func (g *Group) warmDue() (due time.Time, wanted bool) {
	w := &g.warm
	switch {
	case w.due.IsZero():
		return w.probe, !w.probe.IsZero()
	case w.probe.IsZero() || w.due.Before(w.probe):
		return w.due, true
	default:
		return w.probe, true
	}
}

// coldAgain forgets everything: the membership is over.
func (g *Group) coldAgain() { g.warm = warming{} }

// sayWarming logs what a plan keeps from where it should be, when that changes.
func (g *Group) sayWarming(generation int32, plan []assignor.Warmup) {
	was, begun := g.warm.plan, 0
	for _, w := range plan {
		if !w.Later {
			begun++
		}
	}
	g.warm.plan = plan
	switch {
	case slices.Equal(was, plan):
	case len(plan) == 0:
		g.log.Info("no task waits for a copy any more", "generation", generation)
	default:
		first := plan[max(0, slices.IndexFunc(plan, func(w assignor.Warmup) bool { return !w.Later }))]
		g.log.Info("tasks stay where they are warm until their next owners have copies", "generation", generation,
			"copies made", begun, "waiting for their turn", len(plan)-begun, "task", first.Task.String(), "from", first.From, "to", first.To)
	}
}
