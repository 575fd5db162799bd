package session

import (
	"time"

	"github.com/pillion/pillion/protocol"
)

// assigned follows a sync: new tasks are opened, missing ones are revoked, and what waited for the
// new generation goes on.
func (m *Machine) assigned(ev Assigned) error {
	if !m.joined {
		return nil // of a membership that was left
	}
	if m.generation != ev.Generation {
		m.log("debug", "group stable", "generation", ev.Generation, "member", ev.MemberID, "tasks", len(ev.Active))
	}
	m.generation, m.member = ev.Generation, ev.MemberID
	m.syncs++
	m.quiet()
	mine := map[TaskID]bool{}
	for _, id := range ev.Active {
		mine[id] = true
		m.give(id)
	}
	for _, t := range m.all() {
		if t.id.Global {
			continue
		}
		t.waitsSync = false
		for _, c := range t.commits {
			c.waitsSync = false
		}
		if !mine[t.id] {
			t.again = false
			if err := m.revoke(t, protocol.CodeRebalance, m.cfg.RevokeTimeout); err != nil {
				return err
			}
		}
	}
	return nil
}

// give adds a task. A revoke is never taken back: the task is opened anew when it has ended.
func (m *Machine) give(id TaskID) {
	if t := m.tasks[id]; t != nil {
		if t.leavingUs() {
			t.again = true
		}
		return
	}
	if m.leaving {
		return // leaving gives it back
	}
	if m.prepared.set(id.Set) == nil {
		m.do(ReleaseTasks{Tasks: []TaskID{id}})
		return
	}
	m.addTask(&task{id: id, set: m.prepared.set(id.Set)})
}

// leavingUs says whether the task is on its way back to the group.
func (t *task) leavingUs() bool {
	return t.state == Canceled || t.state == Revoking || t.state == Finishing || t.state == Releasing
}

// revoke asks for a task back. Phase one: its gates close, the worker makes its last commit and
// releases it. Phase two (finished, released): the release is written and the group may hand it on.
func (m *Machine) revoke(t *task, code string, within time.Duration) error {
	if t.leavingUs() {
		return nil
	}
	had := t.open()
	if err := t.move(onRevoke); err != nil {
		return err
	}
	t.revokeCode = code
	if !had {
		return nil
	}
	m.closeStreams(t)
	t.deadline = m.now.Add(within)
	t.awaiting = m.nextID()
	m.send(protocol.Revoke{
		ID: t.awaiting, Task: t.id.String(), Epoch: t.epoch, DeadlineMS: within.Milliseconds(), Code: code,
	})
	m.log("debug", "task revoked", "task", t.id.String(), "epoch", t.epoch, "code", code)
	return nil
}

func (m *Machine) released(msg protocol.Released) error {
	t := m.living(msg.Task, msg.Epoch)
	if t == nil {
		return nil
	}
	if t.state != Revoking || msg.Re != t.awaiting {
		m.refuse(0, protocol.CodeNotAllowed, "released answers no revoke of task "+msg.Task, t)
		return nil
	}
	m.forgetStreams(t)
	return t.move(onReleased)
}

// longestRetry is the longest pause before a task is opened anew.
const longestRetry = 10 * time.Second

// fail ends the epoch of a task that stays ours; it is opened anew when its commits have ended: at
// once for the first time, later and later when it fails again without a commit between.
func (m *Machine) fail(t *task, code, message string) error {
	m.endEpoch(t, code, message)
	if t.failures++; t.failures > 1 {
		t.retryAt = m.now.Add(min(m.cfg.RetryDelay<<min(t.failures-2, 10), longestRetry))
	}
	return t.move(onFail)
}

func (m *Machine) endEpoch(t *task, code, message string) {
	m.closeStreams(t)
	if t.id.Global {
		m.pauseReaders(t)
	}
	m.send(protocol.Lost{Task: t.id.String(), Epoch: t.epoch, Code: code, Message: message})
	m.forgetStreams(t)
}

// finished: no commit of the task is open any more.
func (m *Machine) finished(t *task) error {
	if err := t.move(onFinished); err != nil {
		return err
	}
	if t.state != Releasing {
		return nil // failing: parked now, opened anew by settle
	}
	m.writeRelease(t)
	return nil
}

func (m *Machine) writeRelease(t *task) {
	if !t.taken {
		_ = t.move(onWritten)
		m.gone(t)
		return
	}
	t.op, t.since = m.nextOp(), m.syncs
	m.do(WriteRelease{Task: t.id, Op: t.op, Next: t.positions})
}

func (m *Machine) releaseWritten(ev ReleaseWritten) error {
	delete(m.orphans, ev.Op)
	t := m.tasks[ev.Task]
	if t == nil || t.op != ev.Op {
		return nil
	}
	t.op = 0
	switch ev.Outcome {
	case OK, FencedOut, Refused:
		if err := t.move(onWritten); err != nil {
			return err
		}
		m.gone(t)
	case Rebalancing:
		t.waitsSync, t.retryAt = m.afterSync(t.since)
	default:
		m.logChatter("writing the release failed, trying again", "task", t.id.String(), "error", ev.Message)
		t.retryAt = m.now.Add(m.cfg.RetryDelay)
	}
	return nil
}

// gone hands the task back, or opens it anew when the group gave it to us again meanwhile.
func (m *Machine) gone(t *task) {
	m.dropTask(t.id)
	m.log("info", "task released", "task", t.id.String(), "code", t.revokeCode)
	if t.again && !m.leaving {
		m.give(t.id)
		return
	}
	if !m.leaving { // leaving says it all
		m.do(ReleaseTasks{Tasks: []TaskID{t.id}})
	}
}

// groupLost: lost is not revoked. Every epoch is over at once and nothing more is committed.
func (m *Machine) groupLost(code, message string) error {
	m.log("warn", "membership lost", "generation", m.generation, "code", code, "error", message)
	m.generation, m.member = 0, ""
	for _, t := range m.all() {
		if t.id.Global {
			continue
		}
		m.lose(t, code, message)
	}
	m.dropTasks()
	return nil
}

func (m *Machine) lose(t *task, code, message string) {
	why := Result{Outcome: Refused, Code: code, Message: message}
	if len(t.commits) > 0 && (t.commits[0].op != 0 || t.commits[0].produced) {
		why.Outcome = Unknown
	}
	m.dropCommits(t, why)
	if t.open() {
		m.endEpoch(t, code, message)
	}
	if t.op != 0 {
		m.orphans[t.op] = orphan{task: t.id}
	}
	_ = t.move(onLost)
}

func (m *Machine) groupFatal(ev GroupFatal) {
	m.log("error", "Kafka refuses for good", "code", ev.Code, "error", ev.Message)
	if m.worker != nil {
		m.send(protocol.Error{Code: ev.Code, Message: ev.Message})
		m.do(CloseConn{Conn: m.worker.conn, Code: protocol.CloseKafkaFatal, Reason: ev.Code})
	}
	m.stopped = true
	m.do(Stop{Err: ev.Message})
}
