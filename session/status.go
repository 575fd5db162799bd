package session

import "time"

// Status is what probes and metrics show of a session.
type Status struct {
	Worker     bool // a worker is attached and its declarations are checked
	Hung       bool
	Group      string // that we are a member of, or on the way to; empty: none
	Member     string // empty: no member
	Generation int32
	Draining   bool
	GaveUp     bool                 // the drain had its time: what was left is given up
	Waiting    string               // code of what is waited for; empty: nothing
	WaitingFor string               // the same in words
	Tasks      map[string]int       // by state
	Standbys   int                  // copies that we keep or are to keep
	Commits    int                  // outstanding
	TookOver   map[string]TookOvers // since the start: promoted, restored
}

// TookOvers are tasks that became ours: with a copy (promoted) or without (restored).
type TookOvers struct {
	Count   int64
	Records int64         // that had to be replayed since the sync
	Took    time.Duration // from the sync to the last of them
}

// Status takes the state as it is.
func (m *Machine) Status() Status {
	s := Status{
		Worker: m.worker != nil && m.worker.prepared, Group: m.joinedGroup(), Member: m.member, Generation: m.generation,
		Draining: m.draining, GaveUp: m.gaveUp, Waiting: m.waiting.Code, WaitingFor: m.waiting.Message, Tasks: map[string]int{},
		TookOver: m.tookOvers,
	}
	s.Hung = m.worker != nil && m.worker.hung
	for _, t := range m.tasks {
		s.Tasks[t.state.String()]++
		s.Commits += len(t.commits)
		if t.copyOnly() {
			s.Standbys++
		}
	}
	return s
}

// took counts a take-over. The map is replaced: whoever has a Status reads the one before.
func (m *Machine) took(how string, t *task) TookOvers {
	one := TookOvers{Count: 1, Took: m.now.Sub(t.began)}
	for _, tb := range t.tables {
		one.Records += tb.replayed
	}
	sum := m.tookOvers[how]
	all := make(map[string]TookOvers, len(m.tookOvers)+1)
	for name, n := range m.tookOvers {
		all[name] = n
	}
	all[how] = TookOvers{sum.Count + 1, sum.Records + one.Records, sum.Took + one.Took}
	m.tookOvers = all
	return one
}

// running says that the records of a task flow.
func (m *Machine) running(t *task) {
	took := TookOvers{Took: m.now.Sub(t.began)}
	for _, tb := range t.tables {
		took.Records += tb.replayed
	}
	if !t.promoted {
		took = m.took("restored", t)
	}
	m.log("info", "task running", "task", t.id.String(), "epoch", t.epoch, "generation", m.generation, "replayed", took.Records, "took", took.Took.String())
}
