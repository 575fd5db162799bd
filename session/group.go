package session

import (
	"time"

	"github.com/pillion/pillion/protocol"
)

// assigned follows a sync: new tasks are opened, missing ones are revoked, copies begin and end, and
// what waited for the new generation goes on.
func (m *Machine) assigned(ev Assigned) error {
	if !m.joined {
		return nil // of a membership that was left
	}
	if m.generation != ev.Generation {
		m.log("debug", "group stable", "generation", ev.Generation, "member", ev.MemberID,
			"tasks", len(ev.Active), "standbys", len(ev.Standby))
	}
	m.generation, m.member = ev.Generation, ev.MemberID
	m.syncs++
	clear(m.kept)
	m.quiet()
	wanted := make(map[TaskID]wish, len(ev.Active)+len(ev.Standby))
	for _, id := range ev.Standby {
		wanted[id] = beStandby
	}
	for _, id := range ev.Active {
		wanted[id] = beActive
		if err := m.give(id); err != nil {
			return err
		}
	}
	for _, id := range ev.Standby {
		if wanted[id] == beStandby {
			m.copy(id)
		}
	}
	for _, t := range m.all() {
		if t.id.Global {
			continue
		}
		t.waitsSync = false
		for _, c := range t.commits {
			c.waitsSync = false
		}
		if err := m.follow(t, wanted[t.id], ev.Uncommitted[t.id]); err != nil {
			return err
		}
	}
	m.idle()
	return nil
}

// follow makes of a task what the sync wants of it. give has seen to what it makes us the active of.
func (m *Machine) follow(t *task, wants wish, uncommitted bool) error {
	if wants == beActive && !m.leaving {
		return nil
	}
	if m.leaving || m.prepared.NoStandby && wants == beStandby {
		wants = letGo
	}
	switch {
	case t.copyOnly() && wants == beStandby:
		return nil
	case t.copyOnly():
		return m.revoke(t, protocol.CodeRebalance, 0)
	case t.state == Shadowing && wants == beStandby: // given to us, and taken away before we claimed it in Kafka
		t.want, t.claimed = beStandby, false
		m.do(ReleaseTasks{Tasks: []TaskID{t.id}})
		return nil
	case t.state == Demoting && wants == beStandby:
		t.want = beStandby
		return nil
	case wants == beStandby && t.state == Running && !uncommitted && len(t.commits) == 0 && t.steady():
		return m.demote(t)
	}
	t.want = wants
	return m.revoke(t, protocol.CodeRebalance, m.cfg.RevokeTimeout)
}

// give makes us the active of a task. A revoke is never taken back: the task is opened anew when it has
// ended.
func (m *Machine) give(id TaskID) error {
	if m.leaving {
		return nil // leaving gives it back
	}
	if t := m.tasks[id]; t != nil {
		if t.want != beActive {
			t.want, t.began, t.counting = beActive, m.now, false
		}
		t.claimed = true
		if t.state == Idle {
			return t.move(onGiven)
		}
		return nil
	}
	if m.prepared.set(id.Set) == nil {
		m.do(ReleaseTasks{Tasks: []TaskID{id}})
		return nil
	}
	m.addTask(&task{id: id, set: m.prepared.set(id.Set), want: beActive, claimed: true, began: m.now})
	return nil
}

// leavingUs says whether the task is on its way back to the group.
func (t *task) leavingUs() bool {
	return t.state == Canceled || t.state == Revoking || t.state == Finishing || t.state == Releasing
}

// revoke asks for a task back. Phase one: its gates close, the worker makes its last commit and
// releases it. Phase two (finished, released): the release is written and the group may hand it on.
// A copy has nothing to commit, so that it ends at once.
func (m *Machine) revoke(t *task, code string, within time.Duration) error {
	if t.leavingUs() {
		return nil
	}
	had := t.open() && !t.copied()
	if t.copied() {
		m.endEpoch(t, code, "the task has gone elsewhere")
	}
	if t.state == Idle || t.state == Shadowing {
		return m.endCopy(t, code)
	}
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
	m.tell(t, protocol.Revoke{
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
	t.began = m.now
	if t.failures++; t.failures > 1 {
		t.retryAt = m.now.Add(min(m.cfg.RetryDelay<<min(t.failures-2, 10), longestRetry))
	}
	if err := t.move(onFail); err != nil {
		return err
	}
	return t.unshadowed()
}

// endEpoch ends what the worker has. It may be in the former epoch still, when a promoted or demoted
// waits behind data: that one is over, too, and what waits is dropped.
func (m *Machine) endEpoch(t *task, code, message string) {
	m.closeStreams(t)
	if t.id.Global {
		m.pauseReaders(t)
	}
	for _, f := range t.former {
		m.send(protocol.Lost{Task: t.id.String(), Epoch: f.epoch, Code: code, Message: message})
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

// writeRelease writes that the task is not ours any more, beside its positions: as Kafka has them, when we do
// not know them. While a transaction of it has no end the claim stays: the group lets go of it only then.
func (m *Machine) writeRelease(t *task) {
	if !t.taken || t.positions == nil && m.doubted(t.id) {
		_ = t.move(onWritten)
		m.gone(t)
		return
	}
	t.op, t.since = m.nextOp(), m.syncs
	m.do(WriteRelease{Task: t.id, Op: t.op, Next: t.positions})
}

func (m *Machine) releaseWritten(ev ReleaseWritten) error {
	m.ended(ev.Op)
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

// gone hands the task back, or opens it anew when the group gave it to us again meanwhile. Who drains
// hands each task back at once: it goes on elsewhere while the others still finish.
func (m *Machine) gone(t *task) {
	m.log("info", "task released", "task", t.id.String(), "code", t.revokeCode)
	stays := t.want == beActive && !m.leaving
	if !stays && (!m.leaving || m.draining) { // leaving says it all
		m.do(ReleaseTasks{Tasks: []TaskID{t.id}})
	}
	if t.state == Shadowing { // demoted: the worker has the copy already
		t.forget()
		t.claimed = stays
		return
	}
	m.dropTask(t.id)
	switch {
	case stays:
		_ = m.give(t.id) // a new task
	case t.want == beStandby && !m.leaving:
		m.copy(t.id)
	case t.whole && m.worker != nil && t.conn == m.worker.conn:
		m.kept[t.id] = true
	}
}

// forget what the take-over has found.
func (t *task) forget() {
	t.taken, t.positions, t.topicIDs, t.ends, t.heads = false, nil, nil, nil, nil
}

// groupLost: lost is not revoked. Every epoch is over at once and nothing more is committed. A copy is no
// claim: it goes on, and the next sync says what becomes of it.
func (m *Machine) groupLost(code, message string) error {
	m.log("warn", "membership lost", "generation", m.generation, "code", code, "error", message)
	m.generation, m.member = 0, ""
	for _, t := range m.all() {
		if t.id.Global {
			continue
		}
		m.lose(t, code, message)
		if t.state == Gone {
			m.dropTask(t.id)
		}
	}
	return nil
}

func (m *Machine) lose(t *task, code, message string) {
	why := Result{Outcome: Refused, Code: code, Message: message}
	if len(t.commits) > 0 && (t.commits[0].op != 0 || t.commits[0].produced) {
		why.Outcome = Unknown
	}
	m.dropCommits(t, why)
	if t.state == Running && t.reached() && m.worker != nil {
		m.kept[t.id] = true // at most what was not committed behind
	}
	if t.open() && !t.copied() || t.state == Catching {
		m.endEpoch(t, code, message)
	}
	if t.op != 0 {
		m.addOrphan(t.op, orphan{task: t.id})
		t.op = 0
	}
	_ = t.move(onLost)
	t.want, t.claimed, t.waitsSync = beStandby, false, false // of what is not gone
	t.forget()
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
