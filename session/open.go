package session

import (
	"github.com/pillion/pillion/protocol"
)

// open begins an epoch: a task is taken over first, a global table is assigned at once.
func (m *Machine) open(t *task) error {
	if err := t.move(onOpen); err != nil {
		return err
	}
	if t.id.Global {
		if err := t.move(onTookOver); err != nil {
			return err
		}
		m.assign(t)
		return nil
	}
	t.op = m.nextOp()
	m.do(TakeOverTask{Task: t.id, Op: t.op})
	return nil
}

func (m *Machine) tookOver(ev TookOver) error {
	delete(m.orphans, ev.Op)
	t := m.tasks[ev.Task]
	if t == nil || t.op != ev.Op {
		return nil // lost meanwhile
	}
	t.op = 0
	if ev.Outcome == OK {
		took := ev.TakeOver
		t.taken, t.positions, t.topicIDs, t.ends = true, took.Positions, took.TopicIDs, took.Ends
		if t.state == TakingOver && (m.worker == nil || !m.mayOpen(t)) {
			return t.move(onNotTaken)
		}
		if err := t.move(onTookOver); err != nil {
			return err
		}
		if t.state == Opening {
			m.assign(t)
		}
		return nil
	}
	if err := t.move(onNotTaken); err != nil {
		return err
	}
	switch ev.Outcome {
	case Rebalancing, FencedOut:
		t.waitsSync = true
	case Refused:
		m.log("error", "task refused", "task", t.id.String(), "code", ev.Code, "error", ev.Message)
		t.retryAt = m.now.Add(m.cfg.RetryDelay)
		m.refuseWorker(ev.Code, ev.Message)
	default:
		m.log("warn", "take-over failed, trying again", "task", t.id.String(), "error", ev.Message)
		t.retryAt = m.now.Add(m.cfg.RetryDelay)
	}
	return nil
}

// assign gives the task to the worker under a new epoch with new streams.
func (m *Machine) assign(t *task) {
	m.lastEpoch++
	t.epoch, t.conn = m.lastEpoch, m.worker.conn
	t.sources, t.tables, t.outputs = nil, nil, nil
	msg := protocol.Assign{
		ID: m.nextID(), Task: t.id.String(), Set: t.id.Set, Partition: t.id.Partition,
		Role: protocol.RoleActive, Epoch: t.epoch,
	}
	if t.id.Global {
		msg.Role = protocol.RoleGlobal
		m.addTable(t, t.id.Set, m.globalTopic(t.id.Set), protocol.TableGlobal)
	} else {
		for _, topic := range t.set.Sources {
			t.sources = append(t.sources, protocol.SourceStream{
				Topic: topic, Stream: m.newStream(t, false), Position: t.positions[topic],
			})
		}
		for _, tb := range t.set.Tables {
			m.addTable(t, tb.Name, tb.Topic, tb.Kind)
		}
		for _, topic := range m.prepared.Outputs {
			t.outputs = append(t.outputs, protocol.OutputStream{Topic: topic, Stream: m.newStream(t, true)})
		}
	}
	msg.Sources, msg.Outputs = t.sources, t.outputs
	for _, tb := range t.tables {
		msg.Tables = append(msg.Tables, tb.stream)
	}
	t.awaiting = msg.ID
	m.send(msg)
	m.log("info", "task assigned", "task", t.id.String(), "epoch", t.epoch)
}

func (m *Machine) addTable(t *task, name, topic string, kind protocol.TableKind) {
	t.tables = append(t.tables, &table{stream: protocol.TableStream{
		Name: name, Topic: topic, Kind: kind,
		Stream: m.newStream(t, kind == protocol.TableChangelog),
	}})
}

func (m *Machine) globalTopic(name string) string {
	for _, g := range m.prepared.Globals {
		if g.Name == name {
			return g.Topic
		}
	}
	return ""
}

// opened starts the replays from the worker's checkpoints, or the one after a reset.
func (m *Machine) opened(msg protocol.Opened) error {
	t := m.living(msg.Task, msg.Epoch)
	if t == nil {
		return nil
	}
	for _, tb := range t.tables {
		if tb.resetting != 0 && tb.resetting == msg.Re {
			tb.resetting = 0
			if t.state != Revoking {
				m.startRestore(t, tb, "")
			}
			return nil
		}
	}
	if t.state == Revoking {
		return nil // the revoke overtook the answer
	}
	if t.state != Opening || msg.Re != t.awaiting {
		m.refuse(0, protocol.CodeNotAllowed, "opened answers no assign or reset of task "+msg.Task, t)
		return nil
	}
	t.awaiting = 0
	if err := t.move(onOpened); err != nil {
		return err
	}
	for _, tb := range t.tables {
		checkpoint := ""
		if c := msg.Checkpoints[tb.stream.Name]; c != nil {
			checkpoint = *c
		}
		m.startRestore(t, tb, checkpoint)
	}
	return m.maybeRestored(t)
}

func (m *Machine) startRestore(t *task, tb *table, checkpoint string) {
	m.do(StartRestore{
		Conn: t.conn, Task: t.id, Epoch: t.epoch, Table: tb.stream, Partition: t.id.Partition,
		Checkpoint: checkpoint, End: t.ends[tb.stream.Name],
		Follow:   tb.stream.Kind != protocol.TableChangelog,
		MaxFrame: m.worker.hello.MaxFrame,
	})
}

func (m *Machine) reached(ev Reached) error {
	t, tb := m.tableOf(ev.Stream)
	if tb == nil || tb.reached {
		return nil
	}
	tb.reached = true
	m.log("info", "table restored", "task", t.id.String(), "table", tb.stream.Name)
	if t.state > Restoring { // it had to be reset while others read it
		t.refilled = true
		m.restoredAgain(t)
		return nil
	}
	return m.maybeRestored(t)
}

func (m *Machine) maybeRestored(t *task) error {
	if t.state != Restoring || !t.whole() {
		return nil
	}
	if err := t.move(onReached); err != nil {
		return err
	}
	m.sendRestored(t)
	return nil
}

func (m *Machine) sendRestored(t *task) {
	t.awaiting = m.nextID()
	m.do(SendInStream{Conn: t.conn, Stream: t.firstStream(), Message: protocol.Restored{
		ID: t.awaiting, Task: t.id.String(), Epoch: t.epoch,
	}})
}

// restoredAgain tells the worker, which holds its records back since the reset, that the tables are
// whole again. Records go on at its ready.
func (m *Machine) restoredAgain(t *task) {
	if t.refilled && t.whole() && t.awaiting == 0 {
		t.refilled = false
		m.sendRestored(t)
	}
}

func (m *Machine) ready(msg protocol.Ready) error {
	t := m.living(msg.Task, msg.Epoch)
	if t == nil {
		return nil
	}
	if t.state == Revoking {
		return nil // the revoke overtook the answer
	}
	if t.state < Restored || msg.Re != t.awaiting {
		m.refuse(0, protocol.CodeNotAllowed, "ready answers no restored of task "+msg.Task, t)
		return nil
	}
	t.awaiting = 0
	if t.state != Restored { // after a reset
		m.resumeReaders(t)
		m.restoredAgain(t)
		return nil
	}
	if err := t.move(onReady); err != nil {
		return err
	}
	m.restoredAgain(t)
	return nil
}

// run lets the records of a task flow. A global table that runs may be the last one that others wait for.
func (m *Machine) run(t *task) error {
	if err := t.move(onGlobals); err != nil {
		return err
	}
	if t.id.Global {
		m.checkGlobals()
		return nil
	}
	for _, s := range t.sources {
		m.do(StartFeed{
			Conn: t.conn, Task: t.id, Epoch: t.epoch, Source: s, TopicID: t.topicIDs[s.Topic],
			Partition: t.id.Partition, MaxFrame: m.worker.hello.MaxFrame, Paused: !m.readable(t),
		})
	}
	m.log("info", "task running", "task", t.id.String(), "epoch", t.epoch)
	return nil
}

func (m *Machine) checkGlobals() {
	if m.worker == nil || m.worker.globalsOK || !m.worker.prepared {
		return
	}
	for _, g := range m.globals {
		if g.state != Running {
			return
		}
	}
	m.worker.globalsOK = true
}

// readable: no table that the task reads is being replayed after a reset.
func (m *Machine) readable(t *task) bool {
	if !t.whole() {
		return false
	}
	for _, g := range m.globals {
		if !g.whole() {
			return false
		}
	}
	return true
}

func (m *Machine) resumeReaders(of *task) {
	for _, t := range m.readersOf(of) {
		if m.readable(t) {
			for _, s := range t.sources {
				m.do(ResumeStream{Stream: s.Stream})
			}
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

// resetNeeded wipes one store: its frames stop, the worker is told, and the replay starts anew when
// it has answered. Tasks that read the table wait meanwhile.
func (m *Machine) resetNeeded(ev ResetNeeded) {
	t, tb := m.tableOf(ev.Stream)
	if tb == nil {
		return
	}
	m.log("warn", "store reset", "task", t.id.String(), "table", tb.stream.Name, "code", ev.Code, "error", ev.Message)
	tb.reached, tb.resetting = false, m.nextID()
	m.do(CloseStream{Stream: ev.Stream})
	for _, r := range m.readersOf(t) {
		for _, s := range r.sources {
			m.do(PauseStream{Stream: s.Stream})
		}
	}
	m.send(protocol.Reset{
		ID: tb.resetting, Task: t.id.String(), Epoch: t.epoch, Table: tb.stream.Name,
		Stream: ev.Stream, NextOffset: ev.Start, Code: ev.Code, Message: ev.Message,
	})
}

func (m *Machine) restoring(ev ReplayProgress) {
	t, tb := m.tableOf(ev.Stream)
	if tb == nil || tb.reached {
		return
	}
	m.send(protocol.Restoring{
		Task: t.id.String(), Epoch: t.epoch, Table: tb.stream.Name, Records: ev.Records,
		Bytes: ev.Bytes, Rate: ev.Rate, Remaining: ev.Remaining, ETA: ev.EtaMS,
	})
}

// tableOf finds the table behind a stream of a living epoch that is not being revoked.
func (m *Machine) tableOf(stream uint32) (*task, *table) {
	t := m.streams[stream]
	if t == nil || !t.open() || t.state == Revoking {
		return nil, nil
	}
	for _, tb := range t.tables {
		if tb.stream.Stream == stream {
			return t, tb
		}
	}
	return nil, nil
}

// living finds the task when the epoch is its present one on the present connection.
func (m *Machine) living(name string, epoch uint32) *task {
	t := m.byWireName(name)
	if t == nil || t.epoch != epoch || !t.open() || m.worker == nil || t.conn != m.worker.conn {
		return nil
	}
	return t
}
