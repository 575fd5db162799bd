package session

import (
	"fmt"
	"time"

	"github.com/pillion/pillion/protocol"
)

// active restarts the progress clock. A hung worker that answers is a member again.
func (m *Machine) active(conn ConnID) {
	w := m.worker
	if w == nil || w.conn != conn {
		return
	}
	w.lastActive = m.now
	if w.hung {
		w.hung = false
		m.log("info", "the worker answers again")
		m.rejoin()
	}
}

// rejoin subscribes again after the membership was given up.
func (m *Machine) rejoin() {
	if !m.joined && !m.leaving && m.prepared != nil {
		m.joined = true
		m.do(JoinGroup{Prepared: *m.prepared})
	}
}

// tick looks at every clock.
func (m *Machine) tick(ev Tick) error {
	if err := m.tickWorker(ev.Owes); err != nil {
		return err
	}
	for _, t := range m.all() {
		switch {
		case t.state == Revoking && due(m.now, t.deadline):
			m.log("warn", "revoke timed out", "task", t.id.String(), "epoch", t.epoch)
			if err := m.fail(t, protocol.CodeRevokeTimeout, "the worker did not release the task in time"); err != nil {
				return err
			}
		case t.state == Releasing && t.op == 0 && !t.waitsSync && !m.now.Before(t.retryAt):
			m.writeRelease(t)
		}
	}
	if m.draining && due(m.now, m.drainUntil) {
		m.drainUntil = time.Time{}
		m.log("warn", "drain timed out")
		return m.giveUp(protocol.CodeDrain, "the drain timed out")
	}
	return nil
}

func due(now, at time.Time) bool { return !at.IsZero() && !now.Before(at) }

func (m *Machine) tickWorker(owes bool) error {
	w := m.worker
	if w == nil {
		if !due(m.now, m.graceUntil) {
			return nil
		}
		m.graceUntil = time.Time{}
		if !m.joined {
			return nil
		}
		m.log("warn", "no worker came back within the grace, leaving the group", "grace", m.cfg.WorkerGrace.String())
		return m.giveUp(protocol.CodeDrain, "no worker")
	}
	if due(m.now, m.prepareAt) {
		m.prepareAt = time.Time{}
		m.do(Prepare{Conn: w.conn, Group: m.groupOf(w.hello), Hello: w.hello})
	}
	if m.cfg.MaxProcessing == 0 || w.hung || m.now.Before(w.lastActive.Add(m.cfg.MaxProcessing)) {
		return nil
	}
	if !owes && !m.owed() {
		w.lastActive = m.now // the clock runs only while the worker owes something
		return nil
	}
	m.log("error", "the worker is hung, leaving the group", "max_processing", m.cfg.MaxProcessing.String())
	w.hung = true
	return m.giveUp(protocol.CodeHung, fmt.Sprintf("no progress for %v", m.cfg.MaxProcessing))
}

// owed says whether the worker owes an answer.
func (m *Machine) owed() bool {
	for _, t := range m.all() {
		if t.awaiting != 0 && t.open() {
			return true
		}
		for _, tb := range t.tables {
			if tb.resetting != 0 {
				return true
			}
		}
	}
	return false
}

// drain hands everything over: the worker may finish and commit until the drain's deadline.
func (m *Machine) drain() error {
	if m.draining {
		return nil
	}
	m.log("info", "draining", "timeout", m.cfg.DrainTimeout.String())
	m.draining, m.leaving = true, true
	m.drainUntil = m.now.Add(m.cfg.DrainTimeout)
	for _, t := range m.all() {
		if t.id.Global {
			continue
		}
		t.again = false
		if err := m.revoke(t, protocol.CodeDrain, m.cfg.DrainTimeout); err != nil {
			return err
		}
	}
	return nil
}

// giveUp ends every epoch at once. Commits that have arrived whole come to their ends; then the
// tasks are released and the group is left.
func (m *Machine) giveUp(code, message string) error {
	m.leaving = true
	for _, t := range m.all() {
		if t.id.Global {
			continue
		}
		t.again = false
		if t.open() {
			m.endEpoch(t, code, message)
		}
		if !t.leavingUs() {
			if err := t.move(onRevoke); err != nil {
				return err
			}
		}
		if t.state == Revoking {
			if err := t.move(onReleased); err != nil {
				return err
			}
		}
	}
	return nil
}

// maybeLeave leaves the group when every task is gone.
func (m *Machine) maybeLeave() {
	if !m.leaving || len(m.tasks) > 0 || m.leaveSent {
		return
	}
	if !m.joined {
		m.left()
		return
	}
	m.leaveSent = true
	m.do(LeaveGroup{})
}

// left: no member any more. A drain is done; otherwise a worker that is there brings us back.
func (m *Machine) left() {
	m.joined, m.leaving, m.leaveSent = false, false, false
	m.generation, m.member = 0, ""
	if m.draining {
		if m.worker != nil {
			m.do(CloseConn{Conn: m.worker.conn, Code: protocol.CloseDrained, Reason: "drained"})
		}
		m.stopped = true
		m.do(Stop{})
		return
	}
	if m.worker != nil && m.worker.prepared && !m.worker.hung {
		m.rejoin()
	}
}
