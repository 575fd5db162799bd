package groupsim

import (
	"slices"
	"time"

	"github.com/pillion/pillion/session"
)

// replay sends the rows of a changelog.
type replay struct {
	l       *lane
	log     *changelog
	pos     int64
	end     int64 // to be reached
	said    bool  // that it was
	follow  bool
	over    bool
	waking  bool
	records int64
}

func (s *sidecar) startRestore(e session.StartRestore) {
	l := s.lanes[e.Table.Stream]
	if l == nil {
		return
	}
	if l.replay != nil || l.gate.closed { // a reset closed the one before
		l.close()
		l.newGate()
	}
	log := s.w.kafka.tasks[e.Task].log(e.Table.Name)
	r := &replay{l: l, log: log, pos: position(e.Checkpoint), end: e.End, follow: e.Follow}
	if from := s.lanes[e.From]; from != nil { // what is queued of it goes out
		if at := from.handOver(); e.Checkpoint == "" {
			r.pos = at
		}
	}
	if r.end == session.NoEnd {
		r.end = log.end()
	}
	l.replay = r
	// INVARIANT: a store is never ahead of the log.
	if l.replay.pos > log.end() {
		s.w.fail("%s: the store of %s is at %d, and its changelog ends at %d", s.name, e.Task, l.replay.pos, log.end())
	}
	log.followers = append(log.followers, l.replay)
	l.replay.wake()
}

// finishAt ends the following.
func (r *replay) finishAt(end int64) {
	r.end, r.said, r.follow = end, false, false
	if s := r.l.s; s.w.opt.Mutant == PromotesEarly {
		r.said = true
		s.post(session.Reached{Stream: r.l.stream, End: r.end, Records: r.records})
	}
	r.wake()
}

func (r *replay) stop() {
	r.over = true
	r.log.followers = slices.DeleteFunc(r.log.followers, func(o *replay) bool { return o == r })
}

func (r *replay) due() bool {
	if r.over || r.l.gate.inflight >= 2 {
		return false
	}
	return !r.said && (r.pos >= r.end || r.l.s.w.opt.Mutant == EndsEarly) || (r.follow || r.pos < r.end) && r.pos < r.log.stable()
}

// wake reads on, when there is something to read or to say.
func (r *replay) wake() {
	if r.waking || !r.due() {
		return
	}
	r.waking = true
	s := r.l.s
	pause := s.w.between(0, 15*time.Millisecond)
	if r.follow { // a copy gives way to all others
		pause = s.w.between(0, s.w.copyPause)
	}
	s.after(pause, func() {
		r.waking = false
		if r.over || r.l.gate.closed {
			return
		}
		if s.w.now < s.cut {
			r.waking = true
			s.after(100*time.Millisecond, func() { r.waking = false; r.wake() })
			return
		}
		r.read()
		r.wake()
	})
}

func (r *replay) read() {
	s := r.l.s
	last := r.log.stable()
	if !r.follow {
		last = min(last, r.end)
	}
	if r.pos < last {
		next := min(last, r.pos+1+int64(s.w.rng.IntN(12)))
		r.records += next - r.pos
		r.l.queue(&frame{stream: r.l.stream, epoch: r.l.epoch, base: r.pos, next: next, log: r.log})
		r.pos = next
	}
	if !r.said && (r.pos >= r.end || s.w.opt.Mutant == EndsEarly) {
		r.said = true
		s.post(session.Reached{Stream: r.l.stream, End: r.end, Records: r.records})
	}
}
