package session

import "github.com/pillion/pillion/protocol"

// A copy: the worker keeps the tables of a task whose active is elsewhere. Nothing of it is claimed, so
// that it needs no take-over, commits nothing and ends at once.

// copy begins to keep the tables of a task, when that can be.
func (m *Machine) copy(id TaskID) {
	set := m.prepared.set(id.Set)
	if m.tasks[id] != nil || m.leaving || set == nil || m.prepared.NoStandby {
		return
	}
	m.addTask(&task{id: id, set: set, state: Idle, want: beStandby, waitsSync: m.joinDue})
}

// shadow gives the copy to the worker.
func (m *Machine) shadow(t *task) error {
	if err := t.move(onShadow); err != nil {
		return err
	}
	m.assign(t)
	return nil
}

// unshadowed: the worker has the copy no more. One that the group has made us the active of since is
// opened as such.
func (t *task) unshadowed() error {
	if t.state != Idle || !t.claimed {
		return nil
	}
	return t.move(onGiven)
}

// endCopy drops a copy whose epoch is over.
func (m *Machine) endCopy(t *task, code string) error {
	if err := t.move(onRevoke); err != nil {
		return err
	}
	m.dropTask(t.id)
	if t.claimed && (!m.leaving || m.draining) {
		m.do(ReleaseTasks{Tasks: []TaskID{t.id}})
	}
	if t.whole && m.worker != nil && t.conn == m.worker.conn {
		m.kept[t.id] = true
	}
	m.log("info", "copy ended", "task", t.id.String(), "code", code)
	return nil
}

// catchUp: the take-over has captured the ends. INVARIANT: a copy is promoted when each of its tables has
// reached the end that was captured after our claim, and not before.
func (m *Machine) catchUp(t *task) error {
	for _, tb := range t.tables {
		if tb.stream.Kind != protocol.TableChangelog {
			continue
		}
		tb.reached = false
		if t.awaiting == 0 && tb.resetting == 0 { // else it is started with its end
			m.do(FinishRestore{Stream: tb.stream.Stream, End: t.ends[tb.stream.Name]})
		}
	}
	return m.maybePromoted(t)
}

// maybePromoted makes the copy the active, behind its last restore frame: a new epoch with new streams.
// Tables that others write go on where they are.
func (m *Machine) maybePromoted(t *task) error {
	if t.awaiting != 0 || !t.reached() {
		return nil
	}
	if err := t.move(onReached); err != nil {
		return err
	}
	before := m.newEpoch(t)
	m.addStreams(t)
	t.awaiting = m.nextID()
	m.tell(t, protocol.Promoted{
		ID: t.awaiting, Task: t.id.String(), Epoch: t.epoch, Sources: t.sources, Tables: t.tableList(), Outputs: t.outputs,
	})
	t.promoted = true
	for i, tb := range t.tables {
		was := before[i]
		tb.reached, tb.replayed = true, was.replayed
		if tb.stream.Kind != protocol.TableChangelog {
			m.goOn(t, tb, was.stream.Stream, "")
			continue
		}
		m.do(KeepPlace{Stream: tb.stream.Stream, From: was.stream.Stream})
	}
	took := m.took("promoted", t)
	m.log("info", "task promoted", "task", t.id.String(), "epoch", t.epoch, "generation", m.generation, "replayed", took.Records, "took", took.Took.String())
	return nil
}

// demote makes a running active a copy. INVARIANT: only with nothing delivered that is not committed and
// no commit under way, so that there is nothing for the worker to lose. The group may hand the task on
// when the release is written.
func (m *Machine) demote(t *task) error {
	if err := t.move(onDemote); err != nil {
		return err
	}
	for _, s := range t.sources {
		m.do(CloseStream{Stream: s.Stream})
	}
	before := m.newEpoch(t)
	t.sources, t.outputs = nil, nil
	m.addTables(t)
	t.want, t.revokeCode = beStandby, protocol.CodeRebalance
	m.tell(t, protocol.Demoted{Task: t.id.String(), Epoch: t.epoch, Tables: t.tableList()})
	t.ends = nil // the copy follows
	for i, tb := range t.tables {
		m.goOn(t, tb, before[i].stream.Stream, before[i].checkpoint)
	}
	m.log("info", "task demoted", "task", t.id.String(), "epoch", t.epoch)
	m.writeRelease(t)
	return nil
}

// newEpoch ends the present epoch in the stream: what is queued of it still goes out, and nothing more enters.
// What tells the worker of the new epoch comes next, before anything of that one is started. It returns the
// tables that the task had.
func (m *Machine) newEpoch(t *task) []*table {
	before := t.tables
	old := former{epoch: t.epoch, streams: t.streams()}
	if len(t.tables) > 0 {
		old.place = t.firstStream()
	}
	for _, tb := range t.tables {
		if tb.stream.Kind != protocol.TableChangelog { // others write it: it is followed until here
			m.do(PauseStream{Stream: tb.stream.Stream})
		}
	}
	for _, id := range old.streams {
		delete(m.streams, id)
	}
	delete(m.epochs, t.epoch)
	t.former = append(t.former, old)
	m.lastEpoch++
	t.epoch = m.lastEpoch
	m.epochs[t.epoch] = t
	t.sources, t.tables, t.outputs, t.awaiting, t.void = nil, nil, nil, 0, 0
	t.promoted, t.ran = false, false
	return before
}

// goOn replays a table of the new epoch from where its replay in the former one is.
func (m *Machine) goOn(t *task, tb *table, from uint32, checkpoint string) {
	e := m.restoreOf(t, tb, checkpoint)
	e.From = from
	m.do(e)
}

// tell sends what must not overtake the promoted or demoted that began the epoch, while the worker has
// not spoken of it.
func (m *Machine) tell(t *task, msg protocol.Message) {
	for _, f := range t.former {
		if f.place != 0 {
			m.do(SendInStream{Conn: t.conn, Stream: f.place, Message: msg})
			return
		}
	}
	m.send(msg)
}

// forgetFormer: the worker is in the present epoch, or in none.
func (m *Machine) forgetFormer(t *task) {
	for _, f := range t.former {
		for _, id := range f.streams {
			m.do(CloseStream{Stream: id}, ForgetStream{Stream: id})
		}
	}
	t.former = nil
}

// leftBehind finds the task whose former epoch the worker means: an error that it sent before it took
// the promoted or demoted, with which the task cannot go on.
func (m *Machine) leftBehind(name string, epoch uint32) *task {
	for _, t := range m.tasks {
		for _, f := range t.former {
			if f.epoch == epoch && t.id.String() == name && m.worker != nil && t.conn == m.worker.conn {
				return t
			}
		}
	}
	return nil
}

func (t *task) tableStreams() []uint32 {
	var ids []uint32
	for _, tb := range t.tables {
		ids = append(ids, tb.stream.Stream)
	}
	return ids
}

func (t *task) tableList() []protocol.TableStream {
	var list []protocol.TableStream
	for _, tb := range t.tables {
		list = append(list, tb.stream)
	}
	return list
}
