package groupsim

import (
	"slices"
	"time"

	"github.com/pillion/pillion/assignor"
	"github.com/pillion/pillion/session"
)

// Warm-ups by the rules of groupclient (its warm.go).

const (
	warmLinger      = 500 * time.Millisecond
	vainPause       = 2 * time.Second
	probingInterval = 20 * time.Second
)

// warming is what a member knows of copies that warm up.
type warming struct {
	plan  []assignor.Warmup // of the plan that we made last, when we lead
	mine  []session.TaskID
	lag   int64
	due   time.Duration // a join because copies are warm; never: not
	warm  []session.TaskID
	vain  map[session.TaskID]vain
	probe time.Duration // a join because nothing has changed for long; never: not
}

type vain struct {
	times int
	until time.Duration
}

func coldAgain() warming { return warming{due: never, probe: never} }

// settleWarm takes over what warms up in a new generation.
func (m *member) settleWarm(mine []session.TaskID, lag int64, leads bool) {
	w, before := &m.warm, m.warm.vain
	w.vain = map[session.TaskID]vain{}
	for _, t := range mine {
		v := before[t]
		if slices.Contains(w.warm, t) {
			v.times++
			v.until = m.w.now + min(vainPause<<min(v.times-1, 10), probingInterval)
		}
		w.vain[t] = v
	}
	w.mine, w.lag, w.due, w.warm, w.probe = mine, lag, never, nil, never
	if !leads {
		w.plan = nil
	}
	switch {
	case len(w.plan) > 0:
		w.probe = m.w.now + probingInterval
	case len(mine) > 0:
		w.probe = m.w.now + 2*probingInterval
	}
}

// lookAtCopies asks for a join when a copy that warms up is warm.
func (m *member) lookAtCopies() {
	w := &m.warm
	if len(w.mine) == 0 || w.due != never {
		return
	}
	for _, c := range m.s.copies() {
		id := session.TaskID{Set: c.Task.Set, Partition: c.Task.Partition}
		if c.Lag < 0 || assignor.CoarseLag(c.Lag) > w.lag || !slices.Contains(w.mine, id) {
			continue
		}
		if m.w.now >= w.vain[id].until {
			w.due = m.w.now + warmLinger
		}
		w.warm = append(w.warm, id)
	}
	if w.due == never {
		w.warm = nil
	}
}

// warmDue tells when copies want a join.
func (m *member) warmDue() (due time.Duration, wanted bool) {
	w := &m.warm
	switch {
	case w.due == never:
		return w.probe, w.probe != never
	case w.probe == never:
		return w.due, true
	default:
		return min(w.due, w.probe), true
	}
}
