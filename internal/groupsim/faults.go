package groupsim

import (
	"slices"
	"time"

	"github.com/pillion/pillion/session"
)

// faults is the part of a run in which things go wrong.
func (w *World) faults() {
	w.supply()
	w.pass(w.between(500*time.Millisecond, 2*time.Second), nil)
	for range 2 + w.rng.IntN(4) {
		w.fault()
		w.pass(w.now+w.between(50*time.Millisecond, 3*time.Second), nil)
	}
}

// supply brings source records, until all is calm.
func (w *World) supply() {
	if w.calm {
		return
	}
	t := w.kafka.order[w.rng.IntN(len(w.kafka.order))]
	t.add(int64(1 + w.rng.IntN(6)))
	w.after(w.between(100*time.Millisecond, 1200*time.Millisecond), w.supply)
}

// add appends to the source.
func (t *truth) add(n int64) {
	t.end += n
	living := t.feeders[:0]
	for _, f := range t.feeders {
		if !f.over {
			living = append(living, f)
		}
	}
	clear(t.feeders[len(living):])
	t.feeders = living
	for _, f := range t.feeders {
		f.wake()
	}
}

// living are the pairs that have not drained away.
func (w *World) living() []*pair {
	var list []*pair
	for _, p := range w.pairs {
		if !p.gone {
			list = append(list, p)
		}
	}
	return list
}

// fault is one thing that goes wrong, or a change of the group.
func (w *World) fault() {
	w.tally.Faults++
	list := w.living()
	if len(list) == 0 {
		w.addPair()
		return
	}
	p := list[w.rng.IntN(len(list))]
	s, wk := p.sidecar, p.worker
	if w.exact && w.chance(0.3) {
		w.exactFault(s)
		return
	}
	switch w.rng.IntN(18) {
	case 0, 1:
		wk.kill()
		p.restartWorker(w.between(100*time.Millisecond, 2*workerGrace))
	case 2, 3:
		s.kill()
		p.restartSidecar(w.between(100*time.Millisecond, 2*sessionTimeout))
	case 4:
		s.kill()
		wk.kill()
		p.restartSidecar(w.between(100*time.Millisecond, 2*sessionTimeout))
		p.restartWorker(w.between(100*time.Millisecond, 2*sessionTimeout))
	case 5:
		if w.chance(0.5) {
			w.killPlanner = true
		} else {
			w.killLeader()
		}
	case 6:
		s.held.until = max(s.held.until, w.now+w.between(100*time.Millisecond, 2*sessionTimeout))
		w.note("%s: stopped until %s", s.name, s.held.until)
	case 7:
		s.cut = w.now + w.between(100*time.Millisecond, 2*sessionTimeout)
		w.note("%s: cut from Kafka until %s", s.name, s.cut)
	case 8:
		wk.held.until = max(wk.held.until, w.now+w.between(100*time.Millisecond, 2*maxProcessing))
		w.note("%s: hangs until %s", wk.name, wk.held.until)
	case 9:
		w.kafka.move()
	case 10, 11:
		if len(list) < 5 {
			w.addPair()
		}
	case 12:
		if len(list) > 1 && s.up {
			p.drain()
		}
	case 13:
		if wk.up && wk.conn != nil {
			wk.reconnect()
		}
	case 14:
		s.trouble = 1 + w.rng.IntN(2)
		wk.complain()
	case 15:
		wk.sullen = 1
	case 16, 17:
		p.deploy()
	}
}

// deploy replaces the worker by one that has a table more, or by one of the former version; its sidecar may
// be replaced, too.
func (p *pair) deploy() {
	kind := 1
	if p.w.chance(0.2) {
		kind = 0
	}
	p.w.note("%s: a deploy: it declares %d from now on", p.name, kind)
	p.worker.kill()
	p.worker.declares = kind
	p.restartWorker(p.w.between(50*time.Millisecond, workerGrace/2))
	if p.w.chance(0.3) {
		p.sidecar.kill()
		p.restartSidecar(p.w.between(50*time.Millisecond, time.Second))
	}
}

func (p *pair) restartWorker(d time.Duration) {
	p.w.after(d, func() {
		if !p.gone && !p.worker.up {
			p.worker.begin()
		}
	})
}

func (p *pair) restartSidecar(d time.Duration) {
	p.w.after(d, func() {
		if !p.gone && !p.sidecar.up {
			p.sidecar.begin()
		}
	})
}

// killLeader ends the sidecar that leads the group, in the middle of a plan when one is being made.
func (w *World) killLeader() {
	for _, p := range w.living() {
		if p.sidecar.up && p.sidecar.member.id.member != "" && p.sidecar.member.id.member == w.kafka.group.Leader() {
			p.sidecar.kill()
			p.restartSidecar(w.between(100*time.Millisecond, 2*sessionTimeout))
			return
		}
	}
}

// heal ends all faults. What is stopped or hangs goes on in its own time.
func (w *World) heal() {
	w.note("all faults end")
	k := w.kafka
	w.calm, w.drops, k.away = true, 0, min(k.away, w.now)
	k.heldBack, k.txnAway, k.leadersAway = 0, 0, 0
	if !slices.ContainsFunc(w.pairs, func(p *pair) bool { return !p.drained }) {
		w.addPair()
	}
	last := w.now
	for _, p := range w.living() {
		s, wk := p.sidecar, p.worker
		s.cut, s.trouble, wk.sullen = min(s.cut, w.now), 0, 0
		s.deaf, s.stops = 0, 0
		last = max(last, s.held.until, wk.held.until)
		if !s.up {
			s.begin()
		}
		if !wk.up {
			wk.begin()
		}
	}
	w.pass(last, nil)
}

// drain is SIGTERM of the sidecar; its worker goes with it.
func (p *pair) drain() {
	p.w.note("%s: drains", p.sidecar.name)
	p.drained = true
	p.sidecar.post(session.Drain{})
}
