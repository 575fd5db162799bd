package groupsim

import (
	"time"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/session"
)

// effect carries out what the session wants, as the Runner does.
func (s *sidecar) effect(e session.Effect) {
	switch e := e.(type) {
	case session.Send:
		s.sent(e.Message)
		if c := s.conns[e.Conn]; c != nil {
			c.control = append(c.control, e.Message)
			c.pump()
		}
	case session.SendInStream:
		s.sent(e.Message)
		if c, l := s.conns[e.Conn], s.lanes[e.Stream]; c != nil && l != nil && !l.gate.closed {
			mark := &gate{}
			l.marks = append(l.marks, mark)
			c.data = append(c.data, item{gate: mark, message: e.Message})
			c.pump()
		}
	case session.DropInStream:
		s.lanes[e.Stream].unsay()
	case session.CloseConn:
		if c := s.conns[e.Conn]; c != nil {
			c.drop(e.Code)
		}
	case session.Stop:
		s.ended(e)
	case session.Log, session.FreeWrites:
	default:
		s.dataEffect(e)
	}
}

func (s *sidecar) dataEffect(e session.Effect) {
	switch e := e.(type) {
	case session.OpenStream:
		if c := s.conns[e.Conn]; c != nil {
			l := &lane{s: s, c: c, stream: e.Stream, epoch: e.Epoch}
			l.newGate()
			s.lanes[e.Stream] = l
		}
	case session.CloseStream:
		s.lanes[e.Stream].close()
	case session.ForgetStream:
		s.lanes[e.Stream].close()
		delete(s.lanes, e.Stream)
	case session.PauseStream:
		if l := s.lanes[e.Stream]; l != nil {
			l.gate.paused = true
		}
	case session.ResumeStream:
		if l := s.lanes[e.Stream]; l != nil {
			l.gate.paused = false
			if l.feed != nil {
				l.feed.wake()
			}
		}
	case session.StartRestore:
		s.startRestore(e)
	case session.FinishRestore:
		if l := s.lanes[e.Stream]; l != nil && l.replay != nil {
			l.replay.finishAt(e.End)
		}
	case session.KeepPlace:
		if l, from := s.lanes[e.Stream], s.lanes[e.From]; l != nil && from != nil {
			l.place = from.handOver()
		}
	case session.StartFeed:
		s.startFeed(e)
	default:
		s.kafkaEffect(e)
	}
}

func (s *sidecar) kafkaEffect(e session.Effect) {
	m := s.member
	switch e := e.(type) {
	case session.Prepare:
		s.after(s.w.between(0, 30*time.Millisecond), func() { s.prepare(e) })
	case session.JoinGroup:
		m.subscribe(&e.Prepared)
	case session.ReleaseTasks:
		m.release(e.Tasks)
	case session.DrainGroup:
		m.draining = true
	case session.LeaveGroup:
		m.leaveGroup(func() { s.post(session.Left{}) })
	case session.TakeOverTask:
		m.takeOver(e.Task, func(o session.Outcome, took session.TakeOver) {
			s.post(session.TookOver{Task: e.Task, Op: e.Op, Result: result(o), TakeOver: took})
		})
	case session.CommitPositions:
		m.commit(e.Task, e.Next, false, func(o session.Outcome) {
			s.post(session.PositionsCommitted{Task: e.Task, Op: e.Op, Result: result(o)})
		})
	case session.WriteRelease:
		m.commit(e.Task, e.Next, true, func(o session.Outcome) {
			s.post(session.ReleaseWritten{Task: e.Task, Op: e.Op, Result: result(o)})
		})
	case session.Produce:
		s.produce(e)
	case session.Transact:
		s.transact(e)
	default:
		s.w.fail("the simulation does not know the effect %T", e)
	}
}

func result(o session.Outcome) session.Result {
	r := session.Result{Outcome: o}
	switch o {
	case session.FencedOut:
		r.Code = protocol.CodeFenced
	case session.Refused:
		r.Code, r.Message = protocol.CodeLostState, "the table would have a hole"
	}
	return r
}

func (s *sidecar) prepare(e session.Prepare) {
	if s.w.now < s.cut {
		s.post(session.PrepareFailed{Conn: e.Conn, Code: protocol.CodeKafkaUnreachable, Message: "away", Retry: true})
		return
	}
	s.post(session.PreparedOK{Conn: e.Conn, Prepared: s.w.declaration(s.p.worker.declares)})
}

// declaration is what a worker declares: every set with its table, and, of the second kind, the first set
// with one more.
func (w *World) declaration(kind int) session.Prepared {
	p := session.Prepared{Group: "g"}
	for _, t := range w.kafka.order {
		if t.id.Partition != 0 {
			continue
		}
		set := session.PreparedSet{Name: t.id.Set, Sources: []string{t.id.Set}, Partitions: partitions}
		names := []string{"t"}
		if kind == 1 && t.id.Set == "s0" {
			names = append(names, "u")
		}
		for _, name := range names {
			set.Tables = append(set.Tables, session.PreparedTable{Name: name, Topic: topicOf(t.id.Set, name), Kind: protocol.TableChangelog})
		}
		p.Sets = append(p.Sets, set)
	}
	return p
}

func topicOf(set, table string) string { return set + "-" + table }

// ended: the session is over, after a drain.
func (s *sidecar) ended(e session.Stop) {
	s.w.note("%s: ends: %q", s.name, e.Err)
	if e.Err != "" {
		s.member.id.life.over = true // it may have had commits under way
	}
	s.p.gone = true
	s.end()
}

// sent watches what the session tells the worker.
func (s *sidecar) sent(msg protocol.Message) {
	switch m := msg.(type) {
	case protocol.Assign:
		if m.Role == protocol.RoleActive {
			s.took(m.Task, m.Epoch)
		}
	case protocol.Promoted:
		s.w.tally.Promotions++
		s.took(m.Task, m.Epoch)
	case protocol.Demoted:
		s.w.tally.Demotions++
	case protocol.Lost:
		delete(s.revokes, m.Epoch)
	case protocol.Committed:
		s.answered(m.Epoch, m.Re, true)
	case protocol.Aborted:
		s.answered(m.Epoch, m.Re, false)
	case protocol.Stale:
		s.answered(m.Epoch, m.Re, false)
	case protocol.Unknown:
		for _, t := range s.w.kafka.order {
			if t.id.String() == m.Task {
				s.member.id.life.doubt[t.id] = true
			}
		}
	case protocol.Revoke:
		s.revokes[m.Epoch] = true
		proc := s.proc
		// A process that was stopped may be late.
		s.w.after(time.Duration(m.DeadlineMS)*time.Millisecond+time.Second, func() {
			s.run(proc, func() { s.after(time.Second, func() { s.checkRevoke(m) }) })
		})
	}
}

// took notes under which take-over an epoch is.
func (s *sidecar) took(task string, epoch uint32) {
	for id, t := range s.member.owned {
		if id.String() == task {
			s.takes[epoch] = t.takeOver
		}
	}
}

// INVARIANT: every revoke is answered or expires.
func (s *sidecar) checkRevoke(m protocol.Revoke) {
	if s.revokes[m.Epoch] {
		s.w.fail("%s: the revoke of %s in epoch %d was neither answered nor has it expired", s.name, m.Task, m.Epoch)
	}
}

// owes: frames are not credited yet, or delivered records are not committed yet.
func (s *sidecar) owes() bool {
	for _, l := range s.lanes {
		if l.gate.sent > 0 || l.feed != nil && l.feed.sent > s.committed(l.feed.t.id) {
			return true
		}
	}
	return false
}

func (s *sidecar) committed(id session.TaskID) int64 {
	if t := s.member.owned[id]; t != nil {
		return t.position
	}
	return 1 << 62
}
