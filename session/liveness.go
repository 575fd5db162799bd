package session

import (
	"fmt"
	"slices"
	"time"

	"github.com/pillion/pillion/protocol"
)

// active restarts the progress clock. A hung worker that answers is a member again; it reports whether
// that is so.
func (m *Machine) active(conn ConnID) bool {
	w := m.worker
	if w == nil || w.conn != conn {
		return false
	}
	w.lastActive = m.now
	if !w.hung {
		return false
	}
	w.hung = false
	m.log("info", "the worker answers again")
	m.rejoin()
	return true
}

// rejoin subscribes again after the membership was given up.
func (m *Machine) rejoin() {
	if !m.joined && !m.leaving && m.prepared != nil {
		m.join()
	}
}

func (m *Machine) join() {
	m.joined, m.joinDue = true, false
	m.do(JoinGroup{Prepared: *m.prepared})
}

// maybeJoin tells the group the newest declarations. It lets go of what is not declared any more, so
// that no commit and no release may be under way. It reports whether it did.
func (m *Machine) maybeJoin() bool {
	if !m.joinDue || m.leaving { // when we are leaving, left joins again
		return false
	}
	if m.unended.all > 0 {
		return false
	}
	for _, t := range m.tasks {
		if t.leavingUs() {
			return false
		}
	}
	m.join()
	return true
}

// tick looks at every clock.
func (m *Machine) tick(ev Tick) error {
	if err := m.tickWorker(ev.Owes); err != nil {
		return err
	}
	for _, t := range m.all() {
		if t.state == Revoking && due(m.now, t.deadline) {
			m.log("warn", "revoke timed out", "task", t.id.String(), "epoch", t.epoch)
			if err := m.fail(t, protocol.CodeRevokeTimeout, "the worker did not release the task in time"); err != nil {
				return err
			}
		}
	}
	if m.draining && due(m.now, m.drainUntil) {
		return m.drainOver()
	}
	return nil
}

// drainRest is how long a drain that gives up may still take for what only needs Kafka.
const drainRest = 3 * time.Second

// drainOver gives everything up; what Kafka does not answer even then is left to the session timeout.
func (m *Machine) drainOver() error {
	if !m.gaveUp {
		m.gaveUp = true
		m.drainUntil = m.now.Add(drainRest)
		m.log("warn", "drain timed out", "timeout", m.cfg.DrainTimeout.String())
		return m.giveUp(protocol.CodeDrain, "the drain timed out")
	}
	m.stopped = true
	m.do(Stop{Err: fmt.Sprintf("the drain did not end within %v: %d tasks are not handed over, as Kafka does not answer; "+
		"the group takes them when the session has timed out", m.cfg.DrainTimeout+drainRest, len(m.tasks))})
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
		m.do(Prepare{Conn: w.conn, Group: m.cfg.groupOf(w.hello), Hello: w.hello})
	}
	if m.cfg.MaxProcessing == 0 || w.hung || m.now.Before(w.lastActive.Add(m.cfg.MaxProcessing)) {
		return nil
	}
	if m.answering() || !owes && !m.owed() {
		w.lastActive = m.now // the clock runs only while the worker owes something
		return nil
	}
	m.log("error", "the worker is hung, leaving the group", "max_processing", m.cfg.MaxProcessing.String())
	w.hung = true
	return m.giveUp(protocol.CodeHung, fmt.Sprintf("no progress for %v", m.cfg.MaxProcessing))
}

// answering says whether the worker waits for the answer to a commit. It may wait with all else
// meanwhile: how long is up to Kafka.
func (m *Machine) answering() bool {
	for _, t := range m.tasks {
		for _, c := range t.commits {
			if c.conn == m.worker.conn {
				return true
			}
		}
	}
	return false
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

// asked finds the task that a request of ours is about, while it is not answered.
func (m *Machine) asked(id int64) *task {
	for _, t := range m.all() {
		if id == 0 || !t.open() {
			continue
		}
		if t.awaiting == id || slices.ContainsFunc(t.tables, func(tb *table) bool { return tb.resetting == id }) {
			return t
		}
	}
	return nil
}

// drain hands everything over: the worker may finish and commit until the drain's deadline.
func (m *Machine) drain() error {
	if m.draining {
		return nil
	}
	m.log("info", "draining", "timeout", m.cfg.DrainTimeout.String())
	m.draining, m.leaving = true, true
	if m.joined {
		m.do(DrainGroup{})
	}
	m.drainUntil = m.now.Add(m.cfg.DrainTimeout)
	for _, t := range m.all() {
		if t.id.Global {
			continue
		}
		t.want = letGo
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
		t.want = letGo
		if t.revokeCode == "" {
			t.revokeCode = code
		}
		if t.open() {
			m.endEpoch(t, code, message)
		}
		if t.state == Idle || t.state == Shadowing {
			if err := m.endCopy(t, code); err != nil {
				return err
			}
			continue
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
