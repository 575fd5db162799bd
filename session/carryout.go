package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/protocol"
)

// carryOut does one effect. Nothing here blocks.
func (r *Runner) carryOut(ctx context.Context, e Effect) {
	switch e := e.(type) {
	case Send:
		if c := r.conns[e.Conn]; c != nil {
			c.Send(e.Message)
		}
	case SendInStream:
		if c, l := r.conns[e.Conn], r.lanes[e.Stream]; c != nil && l != nil && l.gate.Live() {
			mark := gate.New(l.epoch, c.Credit())
			l.marks = append(l.marks, mark)
			c.SendInStream(mark, e.Message)
		}
	case DropInStream:
		r.lanes[e.Stream].unsay()
	case CloseConn:
		if c := r.conns[e.Conn]; c != nil {
			c.Close(e.Code, e.Reason)
		}
	case FreeWrites:
		if c := r.conns[e.Conn]; c != nil {
			c.CommitDone(e.Writes)
		}
	case OpenStream, CloseStream, ForgetStream, PauseStream, ResumeStream, StartRestore, FinishRestore, KeepPlace, StartFeed:
		r.carryOutStream(e)
	case Stop:
		r.stopped, r.failure = true, e.Err
	case Log:
		r.logLine(e)
	default:
		r.carryOutKafka(ctx, e)
	}
}

func (r *Runner) carryOutStream(e Effect) {
	switch e := e.(type) {
	case OpenStream:
		if c := r.conns[e.Conn]; c != nil {
			c.OpenStream(e.Stream, e.Writable)
			r.setLane(e.Stream, &lane{conn: e.Conn, epoch: e.Epoch, gate: gate.New(e.Epoch, c.Credit())})
		}
	case CloseStream:
		r.closeLane(e.Stream)
	case ForgetStream:
		r.closeLane(e.Stream)
		if l := r.lanes[e.Stream]; l != nil {
			if c := r.conns[l.conn]; c != nil {
				c.CloseStream(e.Stream)
			}
			delete(r.lanes, e.Stream)
			r.gates.Delete(e.Stream)
			r.replays.Delete(e.Stream)
		}
	case PauseStream:
		if l := r.lanes[e.Stream]; l != nil {
			l.gate.Pause()
		}
	case ResumeStream:
		if l := r.lanes[e.Stream]; l != nil {
			l.gate.Resume()
		}
	case StartRestore:
		r.startRestore(e)
	case KeepPlace:
		if l, from := r.lanes[e.Stream], r.lanes[e.From]; l != nil && from != nil {
			l.checkpoint = from.handOver()
		}
	case FinishRestore:
		if l := r.lanes[e.Stream]; l != nil && l.replay != nil {
			l.replay.FinishAt(e.End)
		}
	case StartFeed:
		if l := r.openLane(e.Source.Stream); l != nil {
			if e.Paused {
				l.gate.Pause()
			}
			l.stop = r.ports.Feeder.Start(e, l.gate)
		}
	}
}

// startRestore begins a replay, where the one of another stream is when it follows that one.
func (r *Runner) startRestore(e StartRestore) {
	if from := r.lanes[e.From]; from != nil {
		e.Checkpoint = cmp.Or(e.Checkpoint, from.handOver())
	}
	l := r.openLane(e.Table.Stream)
	if l == nil {
		return
	}
	r.conns[l.conn].Credit().Yield(e.Table.Stream, e.Copy)
	l.checkpoint, l.counted = e.Checkpoint, 0
	l.replay = r.ports.Restorer.Start(e, l.gate)
	l.stop = l.replay.Stop
	r.replays.Store(e.Table.Stream, l.replay)
}

// openLane gives the stream's lane with an open gate: a reset closed the one before.
func (r *Runner) openLane(stream uint32) *lane {
	l := r.lanes[stream]
	if l == nil {
		return nil
	}
	c := r.conns[l.conn]
	if c == nil {
		return nil
	}
	if l.stop != nil || !l.gate.Live() {
		r.closeLane(stream)
		l.gate = gate.New(l.epoch, c.Credit())
		r.setLane(stream, l)
	}
	return l
}

func (r *Runner) setLane(stream uint32, l *lane) {
	r.lanes[stream] = l
	r.gates.Store(stream, l.gate)
}

// closeLane shuts the gate first, so that no frame goes out after what follows.
func (r *Runner) closeLane(stream uint32) {
	l := r.lanes[stream]
	if l == nil {
		return
	}
	l.gate.Close()
	for len(l.marks) > 0 {
		l.unsay()
	}
	if l.stop != nil {
		l.stop()
		l.stop = nil
	}
}

func (r *Runner) carryOutKafka(ctx context.Context, e Effect) {
	g := r.ports.Group
	switch e := e.(type) {
	case JoinGroup:
		g.Join(e.Prepared)
	case ReleaseTasks:
		g.Release(e.Tasks)
	case DrainGroup:
		g.Drain()
	case Prepare:
		r.beside(func() Event { return r.prepare(ctx, e) })
	case TakeOverTask:
		r.count(e.Copies)
		r.beside(func() Event {
			took, err := g.TakeOver(ctx, e.Task)
			return TookOver{Task: e.Task, Op: e.Op, Result: resultOf(err), TakeOver: took}
		})
	case CommitPositions:
		r.beside(func() Event {
			err := g.Commit(ctx, e.Task, e.Next)
			return PositionsCommitted{Task: e.Task, Op: e.Op, Result: resultOf(err)}
		})
	case WriteRelease:
		r.beside(func() Event {
			err := g.CommitReleased(ctx, e.Task, e.Next)
			return ReleaseWritten{Task: e.Task, Op: e.Op, Result: resultOf(err)}
		})
	case LeaveGroup:
		r.beside(func() Event {
			if err := g.Leave(ctx); err != nil {
				r.log.Warn("leaving the group failed, the session timeout will end the membership", "error", err)
			}
			return Left{}
		})
	case Produce:
		r.beside(func() Event { return r.produce(ctx, e) })
	case Transact:
		r.beside(func() Event { return r.transact(ctx, e) })
	case Locate:
		r.beside(func() Event { return r.locate(ctx, e) })
	default:
		panic(fmt.Sprintf("session: effect %T is not carried out", e))
	}
}

// count begins to count what a copy has to replay before it is the active. Its frames give way no more.
func (r *Runner) count(copies []uint32) {
	for _, stream := range copies {
		if l := r.lanes[stream]; l != nil && l.replay != nil {
			l.counted = l.replay.Records()
			if c := r.conns[l.conn]; c != nil {
				c.Credit().Yield(stream, false)
			}
		}
	}
}

func (r *Runner) prepare(ctx context.Context, e Prepare) Event {
	p, err := r.ports.Group.Prepare(ctx, e.Group, e.Hello)
	res := resultOf(err)
	switch res.Outcome {
	case OK:
		return PreparedOK{Conn: e.Conn, Prepared: p}
	case Refused:
		return PrepareFailed{Conn: e.Conn, Code: res.Code, Message: res.Message}
	default:
		return PrepareFailed{Conn: e.Conn, Code: protocol.CodeKafkaUnreachable, Message: res.Message, Retry: true}
	}
}

// produce stays until nothing of the writes can land any more.
func (r *Runner) produce(ctx context.Context, e Produce) Event {
	if err := r.ports.Group.Confirm(ctx, e.Task); err != nil {
		return Produced{Task: e.Task, Op: e.Op, Result: Result{
			Outcome: Refused, Code: protocol.CodeFenced, Message: "nothing was written: " + err.Error(),
		}}
	}
	landed, err := r.ports.Producer.Produce(ctx, e.Writes)
	ended := endOf(err)
	done := Produced{Task: e.Task, Op: e.Op, Result: resultOf(err), Landed: landed, InDoubt: ended != nil}
	return r.untilEnded(ctx, done, e.Op, ended)
}

// transact stays until the transaction has an end. Nothing is confirmed before: the group itself refuses
// the positions of a member that is none any more, and the transaction is aborted then.
func (r *Runner) transact(ctx context.Context, e Transact) Event {
	landed, err := r.ports.Producer.Transact(ctx, e.Task, e.Writes, e.Next)
	ended := endOf(err)
	done := Transacted{Task: e.Task, Op: e.Op, Result: resultOf(err), Landed: landed, InDoubt: ended != nil}
	return r.untilEnded(ctx, done, e.Op, ended)
}

// untilEnded tells at once what became of a step that writes, and stays while it is in doubt.
func (r *Runner) untilEnded(ctx context.Context, done Event, op int64, ended <-chan struct{}) Event {
	if ended == nil {
		return done
	}
	r.Post(done)
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return ProduceEnded{Op: op}
}

// endOf is closed when what is in doubt can take no effect any more; nil: nothing is, or it can already not.
func endOf(err error) <-chan struct{} {
	var unknown *UnknownError
	if !errors.As(err, &unknown) || unknown.Ended == nil {
		return nil
	}
	select {
	case <-unknown.Ended:
		return nil
	default:
		return unknown.Ended
	}
}

// beside runs a step of Kafka; its outcome comes back as an event.
func (r *Runner) beside(step func() Event) {
	r.steps.Add(1)
	go func() {
		defer r.steps.Done()
		r.Post(step())
	}()
}

func (r *Runner) logLine(e Log) {
	switch e.Level {
	case "debug":
		r.log.Debug(e.Message, e.Args...)
	case "info":
		r.log.Info(e.Message, e.Args...)
	case "warn":
		r.log.Warn(e.Message, e.Args...)
	default:
		r.log.Error(e.Message, e.Args...)
	}
}
