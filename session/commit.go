package session

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/pillion/pillion/protocol"
)

// maxWaiting is how many commits of one task may wait; past it the worker does not listen to answers.
const maxWaiting = 64

// commitReceived queues a commit that has arrived whole. Nothing of it began before.
func (m *Machine) commitReceived(conn ConnID, msg protocol.Commit, w *protocol.Writes, delivered map[string]int64) error {
	t := m.inEpoch(msg.Task, msg.Epoch, conn)
	if t == nil {
		m.send(protocol.Stale{Re: msg.ID, Task: msg.Task, Epoch: msg.Epoch})
		m.free(conn, w)
		return nil
	}
	if t.id.Global || !t.ran || (t.state != Running && t.state != Revoking) {
		m.refuse(msg.ID, protocol.CodeNotAllowed, "no commit is possible before the records of the task flow", t)
		m.free(conn, w)
		return nil
	}
	if len(t.commits) >= m.cfg.Limits.MaxOutstandingCommits {
		m.free(conn, w)
		m.tooMany(t, conn, msg)
		return nil
	}
	c := &commit{conn: conn, msg: msg, writes: w, delivered: delivered}
	if w != nil {
		c.dest, c.refuse = t.destinations(w)
	}
	if w != nil && w.Err != nil {
		c.refuse = &Result{Outcome: Refused, Code: w.Err.Code, Message: w.Err.Message}
	}
	t.commits = append(t.commits, c)
	m.unended.add(conn, 1)
	return nil
}

// tooMany refuses a commit in its turn. All that is kept of it is what its answer needs.
func (m *Machine) tooMany(t *task, conn ConnID, msg protocol.Commit) {
	message := fmt.Sprintf("more than %d commits are outstanding for task %s: wait for an answer first",
		m.cfg.Limits.MaxOutstandingCommits, t.id)
	if len(t.commits) >= maxWaiting {
		m.breach(protocol.CodeTooManyCommits, message)
		return
	}
	msg.SourceNext = nil
	m.unended.add(conn, 1)
	t.commits = append(t.commits, &commit{conn: conn, msg: msg,
		refuse: &Result{Outcome: Refused, Code: protocol.CodeTooManyCommits, Message: message}})
}

// startCommit begins the first commit in the queue, or its next step. It reports whether it did anything.
func (m *Machine) startCommit(t *task) bool {
	if len(t.commits) == 0 {
		return false
	}
	c := t.commits[0]
	if c.op != 0 || c.waitsSync || m.now.Before(c.retryAt) {
		return false
	}
	if c.refuse == nil && c.next == nil {
		c.refuse = m.checkPositions(t, c)
	}
	if c.refuse != nil {
		m.failCommits(t, *c.refuse)
		return true
	}
	c.op, c.since = m.nextOp(), m.syncs
	switch {
	case m.cfg.Guarantee == protocol.ExactlyOnce:
		m.do(Transact{Task: t.id, Op: c.op, Writes: t.headed(c.dest), Next: c.next})
	case !c.produced && len(c.dest) > 0:
		m.do(Produce{Task: t.id, Op: c.op, Writes: t.headed(c.dest)})
	default:
		c.produced = true
		m.do(CommitPositions{Task: t.id, Op: c.op, Next: c.next})
	}
	return true
}

// headed says of each write to a changelog where it has to land.
func (t *task) headed(writes []StreamWrites) []StreamWrites {
	for i := range writes {
		if table := writes[i].Table; table != "" {
			writes[i].Head = t.heads[table]
		}
	}
	return writes
}

// checkPositions: a position never goes back, nor past what was delivered.
func (m *Machine) checkPositions(t *task, c *commit) *Result {
	bad := func(format string, args ...any) *Result {
		return &Result{Outcome: Refused, Code: protocol.CodeBadPosition, Message: fmt.Sprintf(format, args...)}
	}
	if len(c.msg.SourceNext) == 0 {
		return bad("commit %d of task %s names no source position: repeat the last one when it is unchanged", c.msg.ID, t.id)
	}
	next := maps.Clone(t.positions)
	for topic, offset := range c.msg.SourceNext {
		from, ok := t.positions[topic]
		if !ok {
			return bad("commit %d names %s, which is no source of task %s", c.msg.ID, topic, t.id)
		}
		if offset < from {
			return bad("commit %d takes %s of task %s back from %d to %d", c.msg.ID, topic, t.id, from, offset)
		}
		if limit := max(from, c.delivered[topic]); offset > limit {
			return bad("commit %d puts %s of task %s at %d, but only what is before %d was delivered",
				c.msg.ID, topic, t.id, offset, limit)
		}
		next[topic] = offset
	}
	c.next = next
	return nil
}

// head finds the commit whose step has ended. A step of a commit that was dropped meanwhile only
// ends its being in the way.
func (m *Machine) head(id TaskID, op int64) (*task, *commit) {
	m.ended(op)
	t := m.tasks[id]
	if t == nil || len(t.commits) == 0 || t.commits[0].op != op {
		return nil, nil
	}
	t.commits[0].op = 0
	return t, t.commits[0]
}

// written is head of a step that writes: what is in doubt is waited for, whatever became of its commit.
func (m *Machine) written(id TaskID, op int64, inDoubt bool) (*task, *commit) {
	t, c := m.head(id, op)
	if inDoubt {
		m.addOrphan(op, orphan{task: id, doubt: true})
		m.log("warn", "writes may still land, the task waits for their end", "task", id.String())
	}
	return t, c
}

func (m *Machine) produced(ev Produced) error {
	t, c := m.written(ev.Task, ev.Op, ev.InDoubt)
	if c == nil {
		return nil
	}
	switch ev.Outcome {
	case OK:
		c.produced, c.landed = true, ev.Landed
		c.foreign = t.advance(c.dest, ev.Landed)
	case Refused:
		m.failCommits(t, ev.Result)
	default:
		m.failCommits(t, Result{Outcome: Unknown, Code: cmp.Or(ev.Code, protocol.CodeInternal), Message: ev.Message})
	}
	return nil
}

// transacted: the whole of a commit at once.
//
// INVARIANT: a commit is answered aborted only when nothing of it can become visible.
func (m *Machine) transacted(ev Transacted) error {
	t, c := m.written(ev.Task, ev.Op, ev.InDoubt)
	if c == nil {
		return nil
	}
	switch ev.Outcome {
	case OK:
		c.landed = ev.Landed
		c.foreign = t.advance(c.dest, ev.Landed)
		m.committed(t, c)
	case Rebalancing: // aborted; it is repeated after the sync while the task is still ours
		c.waitsSync, c.retryAt = m.afterSync(c.since)
	case FencedOut:
		m.failCommits(t, Result{Outcome: Refused, Code: protocol.CodeFenced, Message: ev.Message})
	case Refused:
		m.failCommits(t, ev.Result)
	case Unknown:
		m.failCommits(t, Result{Outcome: Unknown, Code: cmp.Or(ev.Code, protocol.CodeInternal), Message: ev.Message})
	default:
		m.logChatter("a transaction failed, trying again", "task", t.id.String(), "error", ev.Message)
		c.retryAt = m.now.Add(m.cfg.RetryDelay)
	}
	return nil
}

// committed ends the first commit of a task.
func (m *Machine) committed(t *task, c *commit) {
	t.positions, t.failures = c.next, 0
	t.commits = t.commits[1:]
	m.unended.add(c.conn, -1)
	m.free(c.conn, c.writes)
	m.landed(t, c)
}

func (m *Machine) positionsCommitted(ev PositionsCommitted) error {
	t, c := m.head(ev.Task, ev.Op)
	if c == nil {
		return nil
	}
	switch ev.Outcome {
	case OK:
		m.committed(t, c)
	case Rebalancing:
		// INVARIANT: repeated after the sync while the task is still ours.
		c.waitsSync, c.retryAt = m.afterSync(c.since)
	case FencedOut:
		m.failCommits(t, Result{Outcome: Unknown, Code: protocol.CodeFenced, Message: ev.Message})
	case Refused:
		why := ev.Result
		if len(c.dest) > 0 { // its writes are there
			why.Outcome = Unknown
		}
		m.failCommits(t, why)
	default:
		m.logChatter("committing positions failed, trying again", "task", t.id.String(), "error", ev.Message)
		c.retryAt = m.now.Add(m.cfg.RetryDelay)
	}
	return nil
}

// landed answers a commit that is whole in Kafka.
//
// INVARIANT: a store takes no checkpoint past rows that it has not seen. When somebody else has written
// to a changelog in between, the worker drops what it has over its store, the task is opened anew, and
// the replay from the stored checkpoint brings both: theirs and ours.
func (m *Machine) landed(t *task, c *commit) {
	if c.foreign == "" {
		points := map[string]string{}
		for name, at := range c.landed {
			points[name] = at.Checkpoint
		}
		t.stored(c.landed)
		m.answer(c, protocol.Committed{Re: c.msg.ID, Task: c.msg.Task, Epoch: c.msg.Epoch, Checkpoints: points})
		return
	}
	message := "somebody else has written to " + c.foreign + ": only the active of the task may, give each group changelogs of its own"
	m.answer(c, protocol.Unknown{Re: c.msg.ID, Task: c.msg.Task, Epoch: c.msg.Epoch,
		Code: protocol.CodeForeignWrite, Message: message})
	m.failCommits(t, Result{Outcome: Refused, Code: protocol.CodeCommitFailed, Message: message})
}

// stored notes what the stores of the present epoch are complete up to.
func (t *task) stored(landed map[string]Landed) {
	for _, tb := range t.tables {
		if at, ok := landed[tb.stream.Name]; ok {
			tb.checkpoint = at.Checkpoint
		}
	}
}

// advance moves the heads of the changelogs that were written, and names one in which somebody else has
// written. The worker may have released the task already.
func (t *task) advance(dest []StreamWrites, landed map[string]Landed) (foreign string) {
	for _, d := range dest {
		at, ok := landed[d.Table]
		if !ok || d.Table == "" || at.Next == 0 {
			continue
		}
		if at.Foreign {
			foreign = d.Topic
		}
		t.heads[d.Table] = at.Next
	}
	return foreign
}

// failCommits answers the first commit with why, and all later ones of the epoch alike; the epoch is over.
//
// INVARIANT: after a transaction without an answer the positions are not known until Kafka has told them: a
// release at the former ones would take back what it may have committed.
func (m *Machine) failCommits(t *task, why Result) {
	if why.Outcome == Unknown && m.cfg.Guarantee == protocol.ExactlyOnce {
		t.positions = nil
	}
	m.log("warn", "commit failed", "task", t.id.String(), "code", why.Code, "error", why.Message)
	m.dropCommits(t, why)
	if t.open() {
		_ = m.fail(t, protocol.CodeCommitFailed, why.Message)
	}
}

// dropCommits answers every commit in the queue: the first with why, those behind it, which never
// began but were built on it, as aborted.
func (m *Machine) dropCommits(t *task, why Result) {
	for _, c := range t.commits {
		id, task, epoch := c.msg.ID, c.msg.Task, c.msg.Epoch
		if why.Outcome == Unknown {
			m.answer(c, protocol.Unknown{Re: id, Task: task, Epoch: epoch, Code: why.Code, Message: why.Message})
		} else {
			m.answer(c, protocol.Aborted{Re: id, Task: task, Epoch: epoch, Code: why.Code, Message: why.Message})
		}
		if c.op != 0 {
			m.addOrphan(c.op, orphan{task: t.id, conn: c.conn})
		}
		m.unended.add(c.conn, -1)
		m.free(c.conn, c.writes)
		why = Result{Outcome: Refused, Code: protocol.CodeCommitFailed,
			Message: "an earlier commit of this epoch did not end as committed"}
	}
	t.commits = nil
}

// answer reaches the connection that made the commit, when it is still there. The progress clock
// begins anew: until now the worker may have waited for us.
func (m *Machine) answer(c *commit, msg protocol.Message) {
	if m.worker != nil && m.worker.conn == c.conn {
		m.worker.lastActive = m.now
		m.send(msg)
	}
}

func (m *Machine) free(conn ConnID, w *protocol.Writes) {
	if w != nil {
		m.do(FreeWrites{Conn: conn, Writes: w})
	}
}
