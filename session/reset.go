package session

import "github.com/pillion/pillion/protocol"

// resetNeeded wipes one store: its frames stop, the worker is told, and the replay starts anew when
// it has answered. Tasks that read the table wait meanwhile, until the worker has said ready again.
func (m *Machine) resetNeeded(ev ResetNeeded) error {
	t, tb := m.tableOf(ev.Stream)
	if tb == nil {
		return nil
	}
	m.log("warn", "store reset", "task", t.id.String(), "table", tb.stream.Name, "code", ev.Code, "error", ev.Message)
	tb.reached, tb.resetting = false, m.nextID()
	m.do(CloseStream{Stream: ev.Stream})
	m.pauseReaders(t)
	if err := m.undoRestored(t); err != nil {
		return err
	}
	m.tell(t, protocol.Reset{
		ID: tb.resetting, Task: t.id.String(), Epoch: t.epoch, Table: tb.stream.Name,
		Stream: ev.Stream, NextOffset: ev.Start, Code: ev.Code, Message: ev.Message,
	})
	return nil
}

// undoRestored takes back what was said and is not answered yet: the tables are not whole any more. One
// that the worker has not been sent would end its waiting too early, so that it is dropped; its ready, if
// it comes, does not count.
func (m *Machine) undoRestored(t *task) error {
	if t.state < Restored || t.awaiting == 0 {
		return nil
	}
	if len(t.former) == 0 { // promoted is more than that, and stays
		m.do(DropInStream{Stream: t.firstStream()})
	}
	t.void, t.awaiting = t.awaiting, 0
	if t.state == Restored {
		return t.move(onReset)
	}
	return nil
}

// readable: every table that the task reads is whole, and the worker knows it.
func (m *Machine) readable(t *task) bool {
	if !t.steady() {
		return false
	}
	for _, g := range m.globals {
		if g.state != Running || !g.steady() {
			return false
		}
	}
	return true
}

func (m *Machine) pauseReaders(of *task) {
	for _, t := range m.readersOf(of) {
		for _, s := range t.sources {
			m.do(PauseStream{Stream: s.Stream})
		}
	}
}

func (m *Machine) resumeReaders(of *task) {
	for _, t := range m.readersOf(of) {
		if !m.readable(t) {
			continue
		}
		for _, s := range t.sources {
			m.do(ResumeStream{Stream: s.Stream})
		}
	}
}

// readersOf gives the running tasks that read a table of t.
func (m *Machine) readersOf(t *task) []*task {
	var readers []*task
	for _, r := range m.all() {
		if r.state == Running && !r.id.Global && (r == t || t.id.Global) {
			readers = append(readers, r)
		}
	}
	return readers
}
