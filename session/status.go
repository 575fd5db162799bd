package session

// Status is what probes and metrics show of a session.
type Status struct {
	Worker     bool // a worker is attached and its declarations are checked
	Hung       bool
	Group      string // that we are a member of, or on the way to; empty: none
	Member     string // empty: no member
	Generation int32
	Draining   bool
	Waiting    string         // code of what is waited for; empty: nothing
	WaitingFor string         // the same in words
	Tasks      map[string]int // by state
	Commits    int            // outstanding
}

// Status takes the state as it is.
func (m *Machine) Status() Status {
	s := Status{
		Worker: m.worker != nil && m.worker.prepared, Group: m.joinedGroup(), Member: m.member, Generation: m.generation,
		Draining: m.draining, Waiting: m.waiting.Code, WaitingFor: m.waiting.Message, Tasks: map[string]int{},
	}
	s.Hung = m.worker != nil && m.worker.hung
	for _, t := range m.tasks {
		s.Tasks[t.state.String()]++
		s.Commits += len(t.commits)
	}
	return s
}
