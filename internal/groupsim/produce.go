package groupsim

import (
	"encoding/binary"
	"time"

	wire "github.com/pillion/pillion/protocol/frame"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/session"
)

// write is one row: a value is the offset of the source record that it comes from.
type write struct {
	key   int32
	value int64
}

// tableWrites are those of a commit to one changelog.
type tableWrites struct {
	table  string
	head   int64
	epoch  uint32
	commit int64 // its id
	rows   []write
}

const deliveryTimeout = 4 * time.Second

// produce writes a commit's rows, when the task is still ours; it comes back when nothing of it can land
// any more, or says that it may.
func (s *sidecar) produce(e session.Produce) {
	s.member.confirm(e.Task, func(ok bool) {
		if !ok {
			s.post(session.Produced{Task: e.Task, Op: e.Op, Result: session.Result{Outcome: session.Refused, Code: protocol.CodeFenced}})
			return
		}
		s.writeOut(e, s.w.now)
	})
}

func (s *sidecar) writeOut(e session.Produce, since time.Duration) {
	w, life, proc := s.w, s.member.id.life, s.proc
	if w.now < s.cut {
		if w.now-since > deliveryTimeout {
			life.doubt[e.Task] = true
			s.post(session.Produced{Task: e.Task, Op: e.Op, Result: session.Result{Outcome: session.Unknown, Code: protocol.CodeInternal}})
			return
		}
		s.after(100*time.Millisecond, func() { s.writeOut(e, since) })
		return
	}
	writes := decode(w, e.Writes)
	land := func(most int) map[string]session.Landed {
		landed := map[string]session.Landed{}
		for _, tw := range writes[:min(most, len(writes))] {
			base, next := w.kafka.append(w.kafka.tasks[e.Task].log(tw.table), life, nil, tw.rows)
			landed[tw.table] = session.Landed{Checkpoint: checkpoint(next), Next: next, Foreign: base != tw.head}
		}
		return landed
	}
	if s.trouble > 0 {
		s.trouble--
		life.doubt[e.Task] = true
		s.inDoubt(e, land)
		return
	}
	// What was sent lands, whatever becomes of the process.
	w.after(w.between(time.Millisecond, 20*time.Millisecond), func() {
		landed := land(2)
		w.after(w.between(0, 3*time.Millisecond), func() {
			s.run(proc, func() { s.post(session.Produced{Task: e.Task, Op: e.Op, Landed: landed}) })
		})
	})
}

// inDoubt is a produce that is not brought to an answer.
func (s *sidecar) inDoubt(e session.Produce, land func(most int) map[string]session.Landed) {
	w, proc := s.w, s.proc
	done := session.Produced{Task: e.Task, Op: e.Op, Result: session.Result{Outcome: session.Unknown, Code: protocol.CodeInternal}}
	how := w.rng.IntN(3)
	w.note("%s: a produce of %s is in doubt (%d)", s.name, e.Task, how)
	switch how {
	case 0: // it never landed
	case 1: // it landed, or a part of it, and the answer is lost
		land(1 + w.rng.IntN(2))
	default: // it may land yet
		done.InDoubt = true
		w.after(w.between(0, 2*time.Second), func() {
			if w.chance(0.7) {
				land(2)
			}
			s.run(proc, func() { s.post(session.ProduceEnded{Op: e.Op}) })
		})
	}
	s.post(done)
}

func decode(w *World, writes []session.StreamWrites) []tableWrites {
	var out []tableWrites
	for _, sw := range writes {
		tw := tableWrites{table: sw.Table, head: sw.Head}
		for _, b := range sw.Frames {
			f, err := wire.Parse(b)
			if err != nil {
				w.fail("a frame of writes: %v", err)
			}
			tw.epoch, tw.commit = f.Epoch, f.Base
			for r := range f.Records {
				tw.rows = append(tw.rows, write{int32(binary.LittleEndian.Uint32(r.Key)), int64(binary.LittleEndian.Uint64(r.Value))})
			}
		}
		out = append(out, tw)
	}
	return out
}
