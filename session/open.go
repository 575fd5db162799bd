package session

import (
	"maps"
	"time"

	"github.com/pillion/pillion/protocol"
)

// open begins an epoch: a task is taken over first, a global table is assigned at once. The copy of a
// standby goes on following meanwhile.
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
	t.op, t.since, t.outdated = m.nextOp(), m.syncs, false
	if t.began.IsZero() {
		t.began = m.now
	}
	e := TakeOverTask{Task: t.id, Op: t.op}
	if !t.counting {
		e.Copies = t.tableStreams()
	}
	t.counting = true
	m.do(e)
	return nil
}

// afterSync says whether a step that the group refused because it rebalances waits for the next sync. When
// one came before the answer it is repeated at once, in the new generation: a pause here is a gap in the
// processing of tasks that have nothing to do with the rebalance.
func (m *Machine) afterSync(since int64) (waits bool, retryAt time.Time) {
	return m.syncs == since, time.Time{}
}

func (m *Machine) tookOver(ev TookOver) error {
	m.ended(ev.Op)
	t := m.tasks[ev.Task]
	if t == nil || t.op != ev.Op {
		return nil // lost meanwhile
	}
	t.op = 0
	if ev.Outcome == OK {
		took := ev.TakeOver
		t.taken, t.positions, t.topicIDs, t.ends = true, took.Positions, took.TopicIDs, took.Ends
		t.heads = map[string]int64{}
		maps.Copy(t.heads, took.Ends)
		if t.state == TakingOver && (t.outdated || m.now.Before(t.retryAt) || !m.mayOpen(t)) {
			return t.move(onNotTaken)
		}
		if err := t.move(onTookOver); err != nil {
			return err
		}
		switch t.state {
		case Opening:
			m.assign(t)
		case Catching:
			return m.catchUp(t)
		}
		return nil
	}
	if err := t.move(onNotTaken); err != nil {
		return err
	}
	if t.outdated {
		return nil
	}
	switch ev.Outcome {
	case Rebalancing, FencedOut:
		t.waitsSync, t.retryAt = m.afterSync(t.since)
	case Refused:
		m.log("error", "task refused", "task", t.id.String(), "code", ev.Code, "error", ev.Message)
		t.retryAt = m.now.Add(m.cfg.RetryDelay)
		m.refuseWorker(ev.Code, ev.Message)
	default:
		m.logChatter("take-over failed, trying again", "task", t.id.String(), "error", ev.Message)
		t.retryAt = m.now.Add(m.cfg.RetryDelay)
	}
	return nil
}

// assign gives the task to the worker under a new epoch with new streams.
func (m *Machine) assign(t *task) {
	m.lastEpoch++
	t.epoch, t.conn = m.lastEpoch, m.worker.conn
	m.epochs[t.epoch] = t
	t.sources, t.tables, t.outputs, t.void = nil, nil, nil, 0
	t.whole, t.promoted, t.ran = false, false, false
	msg := protocol.Assign{
		ID: m.nextID(), Task: t.id.String(), Set: t.id.Set, Partition: t.id.Partition,
		Role: protocol.RoleActive, Epoch: t.epoch,
	}
	switch {
	case t.id.Global:
		msg.Role = protocol.RoleGlobal
		m.addTable(t, t.id.Set, m.globalTopic(t.id.Set), protocol.TableGlobal)
	case t.state == Shadowing:
		msg.Role = protocol.RoleStandby
		m.addTables(t)
	default:
		m.addStreams(t)
	}
	msg.Sources, msg.Tables, msg.Outputs = t.sources, t.tableList(), t.outputs
	t.awaiting = msg.ID
	m.send(msg)
	m.log("debug", "task assigned", "task", t.id.String(), "epoch", t.epoch, "role", string(msg.Role))
}

// addStreams makes the streams of an active, in the order of the message.
func (m *Machine) addStreams(t *task) {
	for _, topic := range t.set.Sources {
		t.sources = append(t.sources, protocol.SourceStream{
			Topic: topic, Stream: m.newStream(t, false), Position: t.positions[topic],
		})
	}
	m.addTables(t)
	for _, topic := range m.prepared.Outputs {
		t.outputs = append(t.outputs, protocol.OutputStream{Topic: topic, Stream: m.newStream(t, true)})
	}
}

func (m *Machine) addTables(t *task) {
	for _, tb := range t.set.Tables {
		m.addTable(t, tb.Name, tb.Topic, tb.Kind)
	}
}

func (m *Machine) addTable(t *task, name, topic string, kind protocol.TableKind) {
	t.tables = append(t.tables, &table{stream: protocol.TableStream{
		Name: name, Topic: topic, Kind: kind,
		Stream: m.newStream(t, kind == protocol.TableChangelog && t.state != Shadowing),
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
	m.forgetFormer(t)
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
	if t.state != Opening && !t.copied() || msg.Re != t.awaiting || msg.Re == 0 {
		m.refuse(0, protocol.CodeNotAllowed, "opened answers no assign or reset of task "+msg.Task, t)
		return nil
	}
	t.awaiting = 0
	if t.state == Opening {
		if err := t.move(onOpened); err != nil {
			return err
		}
	}
	for _, tb := range t.tables {
		checkpoint := ""
		if c := msg.Checkpoints[tb.stream.Name]; c != nil {
			checkpoint = *c
		}
		m.startRestore(t, tb, checkpoint)
	}
	if t.state == Catching {
		return m.maybePromoted(t)
	}
	return m.maybeRestored(t)
}

func (m *Machine) startRestore(t *task, tb *table, checkpoint string) {
	m.do(m.restoreOf(t, tb, checkpoint))
}

// restoreOf is the replay of a table. Our own changelog is replayed to the end that the take-over has
// captured; without a take-over, as a copy, it is followed for ever.
func (m *Machine) restoreOf(t *task, tb *table, checkpoint string) StartRestore {
	e := StartRestore{
		Conn: t.conn, Task: t.id, Epoch: t.epoch, Table: tb.stream, Partition: t.id.Partition,
		Checkpoint: checkpoint, End: t.ends[tb.stream.Name],
		Follow: tb.stream.Kind != protocol.TableChangelog, Copy: t.copied() && t.state != Catching,
		MaxFrame: m.worker.hello.MaxFrame,
	}
	if e.Copy {
		e.End, e.Follow = NoEnd, true
	}
	return e
}

func (m *Machine) reached(ev Reached) error {
	t, tb := m.tableOf(ev.Stream)
	if tb == nil || tb.reached {
		return nil
	}
	if t.state == Catching && tb.stream.Kind == protocol.TableChangelog && ev.End != t.ends[tb.stream.Name] {
		// INVARIANT: that a copy has reached an earlier end says nothing of the one that the take-over captured.
		return nil
	}
	tb.reached, tb.replayed = true, ev.Records
	m.log("debug", "table restored", "task", t.id.String(), "table", tb.stream.Name)
	switch {
	case t.state == Catching:
		return m.maybePromoted(t)
	case t.copied():
		if t.reached() {
			t.failures = 0
		}
		return nil
	case t.state > Restoring: // it had to be reset: the worker holds its records back
		if t.reached() {
			m.sendRestored(t)
		}
		return nil
	}
	return m.maybeRestored(t)
}

func (m *Machine) maybeRestored(t *task) error {
	if t.state != Restoring || !t.reached() {
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

func (m *Machine) ready(msg protocol.Ready) error {
	t := m.living(msg.Task, msg.Epoch)
	if t == nil {
		return nil
	}
	m.forgetFormer(t)
	if t.state == Revoking || msg.Re <= t.void {
		return nil // the revoke or a reset overtook the answer
	}
	if t.state < Restored || msg.Re != t.awaiting {
		m.refuse(0, protocol.CodeNotAllowed, "ready answers no restored of task "+msg.Task, t)
		return nil
	}
	t.awaiting = 0
	if t.state != Restored { // after a reset
		m.resumeReaders(t)
		return nil
	}
	return t.move(onReady)
}

// run lets the records of a task flow. A global table that runs may be the last one that others wait for.
func (m *Machine) run(t *task) error {
	if err := t.move(onGlobals); err != nil {
		return err
	}
	if t.id.Global {
		m.checkGlobals()
		m.resumeReaders(t) // of one that was opened anew
		return nil
	}
	for _, s := range t.sources {
		m.do(StartFeed{
			Conn: t.conn, Task: t.id, Epoch: t.epoch, Source: s, TopicID: t.topicIDs[s.Topic],
			Partition: t.id.Partition, MaxFrame: m.worker.hello.MaxFrame, Paused: !m.readable(t),
		})
	}
	t.ran = true
	m.running(t)
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

func (m *Machine) restoring(ev ReplayProgress) {
	t, tb := m.tableOf(ev.Stream)
	if tb == nil || tb.reached {
		return
	}
	m.send(protocol.Restoring{
		Task: t.id.String(), Epoch: t.epoch, Table: tb.stream.Name, Records: ev.Records,
		Bytes: ev.Bytes, Rate: ev.Rate, Remaining: ev.Remaining, ETA: ev.EtaMS, WaitsFor: ev.WaitsFor,
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
	if m.worker == nil {
		return nil
	}
	return m.inEpoch(name, epoch, m.worker.conn)
}
