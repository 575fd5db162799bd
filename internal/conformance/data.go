package conformance

import (
	"fmt"
	"slices"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// frame takes a data frame of the worker: a part of a commit.
func (c *conn) frame(b []byte) error {
	f, s, err := c.writes(b)
	if err != nil {
		return err
	}
	c.p.trace("worker", fmt.Sprintf("writes frame of commit %d: %d records for %s", f.Base, f.Count, s.name))
	if err := c.spend(s, int64(len(b))); err != nil {
		return err
	}
	e := s.of
	if !e.living() || e.state == failed {
		c.refund(s)
		return nil
	}
	if e.state == released || !e.ran {
		return fail("no writes of task "+e.task+" in state "+string(e.state), "a frame for "+s.name, "writes come between ready and released")
	}
	if err := c.collect(f, e, int64(len(b))); err != nil {
		return err
	}
	if s.kind == protocol.TableChangelog {
		for r := range f.Records {
			if r.Key == nil {
				return fail("keys in a changelog", "a record without a key for "+s.name, "null is not empty; a record without a key is in no table")
			}
		}
	}
	c.refund(s)
	return nil
}

// spend takes the credit of one frame.
func (c *conn) spend(s *stream, n int64) error {
	if c.received >= c.granted {
		return fail(fmt.Sprintf("no frame: %d bytes were sent on the connection, its limit is %d", c.received, c.granted), fmt.Sprintf("one of %d bytes", n), "a frame may be sent while the sent bytes are below both limits, else it waits; a sidecar closes with 4429")
	}
	if s.of.living() && s.received >= s.granted {
		return fail(fmt.Sprintf("no frame for %s: %d bytes were sent on its stream, its limit is %d", s.name, s.received, s.granted), fmt.Sprintf("one of %d bytes", n), "welcome.credit.stream is the first limit of each new stream; a sidecar closes with 4429")
	}
	c.received, s.received = c.received+n, s.received+n
	return nil
}

// refund gives new credit for what was buffered, unless the scenario holds it.
func (c *conn) refund(s *stream) {
	if c.p.creditHeld {
		c.p.owed = append(c.p.owed, s)
		return
	}
	c.granted = c.received + c.welcome.Credit.Connection
	s.granted = s.received + c.welcome.Credit.Stream
	_ = c.say(protocol.Credit{Connection: c.granted, Streams: map[uint32]int64{s.id: s.granted}})
}

// collect puts a frame to its commit.
func (c *conn) collect(f *frame.Frame, e *epoch, n int64) error {
	if cm := c.sending; cm != nil && cm.id != f.Base {
		if cm.of.living() && cm.of.state != failed {
			return fail(fmt.Sprintf("the rest of commit %d, then its commit message", cm.id), fmt.Sprintf("a frame of commit %d", f.Base), "frames of two commits never mix: one commit's frames and its commit go out under one lock")
		}
		c.sending = nil
	}
	if c.sending == nil {
		if f.Base <= c.lastRequest {
			return fail(fmt.Sprintf("an id above %d", c.lastRequest), fmt.Sprintf("a frame of commit %d", f.Base), "ids of one side increase strictly, and a commit is never sent again")
		}
		c.sending = &commit{id: f.Base, of: e}
	}
	if c.sending.of != e {
		return fail("one task in a commit", "frames of tasks "+c.sending.of.task+" and "+e.task, "all frames of a commit name one epoch")
	}
	c.sending.frames = append(c.sending.frames, f)
	c.sending.bytes += n
	if most := c.welcome.Limits.MaxCommitBytes; c.sending.bytes > most {
		return fail(fmt.Sprintf("commits of at most %d bytes", most), fmt.Sprintf("%d bytes", c.sending.bytes), "limits.max_commit_bytes of welcome")
	}
	return nil
}

// commit takes the end of a commit.
func (c *conn) commit(m protocol.Commit) error {
	if m.ID <= c.lastRequest {
		return fail(fmt.Sprintf("an id above %d", c.lastRequest), fmt.Sprintf("commit %d", m.ID), "ids of one side increase strictly, and a commit is never sent again")
	}
	c.lastRequest = m.ID
	e, err := c.find("commit", m.Task, m.Epoch)
	if err != nil {
		return err
	}
	cm := c.sending
	if cm != nil && cm.id == m.ID {
		c.sending = nil
	} else if cm != nil && cm.of.living() && cm.of.state != failed {
		return fail(fmt.Sprintf("the rest of commit %d, then its commit message", cm.id), fmt.Sprintf("commit %d", m.ID), "frames of two commits never mix: one commit's frames and its commit go out under one lock")
	} else {
		cm = &commit{id: m.ID, of: e}
	}
	switch {
	case e == nil:
		return c.say(protocol.Stale{Re: m.ID, Task: m.Task, Epoch: m.Epoch})
	case e.state == failed:
		return c.say(protocol.Aborted{Re: m.ID, Task: m.Task, Epoch: m.Epoch, Code: protocol.CodeCommitFailed, Message: "an earlier commit of the epoch failed"})
	case e.state == released || !e.ran:
		return fail("no commit of task "+e.task+" in state "+string(e.state), fmt.Sprintf("commit %d", m.ID), "commits come between ready and released; one that was not answered on an earlier connection is never sent again")
	}
	cm.next = m.SourceNext
	return c.whole(cm)
}

// whole checks a commit that is complete, and answers it unless the scenario holds answers.
func (c *conn) whole(cm *commit) error {
	e := cm.of
	if most := c.welcome.Limits.MaxOutstandingCommits; c.waiting(e) >= most {
		return fail(fmt.Sprintf("at most %d commits of task %s without an answer", most, e.task), "one more", "limits.max_outstanding_commits of welcome")
	}
	for topic, next := range cm.next {
		if topic != e.source.topic {
			return fail("positions of the source "+e.source.topic, "one of "+topic, "source_next is by topic")
		}
		if next < e.next {
			return fail(fmt.Sprintf("a position from %d on", e.next), fmt.Sprintf("%d", next), "a position never goes back")
		}
		if why, ok := e.source.ends[next]; !ok || why == "" {
			if ok {
				return fail("the frame's next offset, which passes over the gap behind its last record", fmt.Sprintf("the last record's offset + 1: %d", next), "mistake 3 of PROTOCOL.md: commit the frame's next offset")
			}
			return fail("a position between delivered records, or a frame's next offset", fmt.Sprintf("%d", next), "never past what was delivered")
		}
		e.next = next
	}
	c.held = append(c.held, cm)
	if c.p.answersHeld {
		return nil
	}
	return c.answer(cm, "committed", "", true)
}

// answer ends a commit. lands: Kafka has it, whatever the worker is told.
func (c *conn) answer(cm *commit, with, code string, lands bool) error {
	c.held = slices.DeleteFunc(c.held, func(o *commit) bool { return o == cm })
	e := cm.of
	void := !e.living()
	points := map[string]string{}
	if lands {
		points = c.land(cm, void)
	}
	message := "the case wants it so"
	var m protocol.Message
	switch with {
	case "committed":
		m = protocol.Committed{Re: cm.id, Task: e.wireName, Epoch: e.number, Checkpoints: points}
	case "aborted":
		m = protocol.Aborted{Re: cm.id, Task: e.wireName, Epoch: e.number, Code: code, Message: message}
	case "unknown":
		m = protocol.Unknown{Re: cm.id, Task: e.wireName, Epoch: e.number, Code: code, Message: message}
	case "stale":
		m = protocol.Stale{Re: cm.id, Task: e.wireName, Epoch: e.number}
	case "error":
		m = protocol.Error{Re: cm.id, Task: e.wireName, Epoch: e.number, Code: code, Message: message}
	default:
		return fmt.Errorf("the scenario has no such answer: %q", with)
	}
	if with != "committed" && e.living() && e.state != released {
		e.state = failed
	}
	c.overWhenAnswered(e)
	return c.say(m)
}

// land puts a commit into the model and gives the new checkpoints.
func (c *conn) land(cm *commit, void bool) map[string]string {
	m, e := c.p.model, cm.of
	points := map[string]string{}
	for _, f := range cm.frames {
		s := c.streams[f.Stream]
		var records []record
		for r := range f.Records {
			records = append(records, record{Key: slices.Clone(r.Key), Value: slices.Clone(r.Value)})
		}
		if s == e.output {
			for _, r := range records {
				m.changes[e.task] = append(m.changes[e.task], pair{r.Key, r.Value})
			}
			continue
		}
		l := m.log(e.log(s.name))
		l.write(records)
		s.position = l.end
		points[s.name] = m.checkpoint(e.log(s.name), l.end, void)
	}
	for _, next := range cm.next {
		m.positions[e.task] = max(m.positions[e.task], next)
	}
	return points
}
