package groupsim

import "time"

// exactFault is one that only transactions feel.
func (w *World) exactFault(s *sidecar) {
	k := w.kafka
	switch w.rng.IntN(6) {
	case 0:
		k.heldBack = w.now + w.between(300*time.Millisecond, 8*time.Second)
		w.note("kafka: markers are held back until %s", k.heldBack)
		if w.chance(0.5) && len(w.living()) < 5 {
			w.addPair()
		}
	case 1:
		k.txnAway = w.now + w.between(200*time.Millisecond, 4*time.Second)
		w.note("kafka: no coordinator of transactions until %s", k.txnAway)
	case 2:
		k.leadersAway = w.now + w.between(200*time.Millisecond, 6*time.Second)
		w.note("kafka: changelogs have no leaders until %s", k.leadersAway)
	case 3:
		s.deaf = w.now + w.between(200*time.Millisecond, 9*time.Second)
		w.note("%s: hears nothing of the coordinator of transactions until %s", s.name, s.deaf)
		switch w.rng.IntN(3) {
		case 0:
			s.stopsFor, s.stopsAtEnd = w.between(sessionTimeout, 2*sessionTimeout), true
		case 1:
			if len(w.living()) < 5 {
				w.addPair()
			}
		}
	default: // in the middle of a transaction
		s.stops = 1 + w.rng.IntN(8)
		s.stopsFor = w.between(500*time.Millisecond, 3*sessionTimeout)
		s.dies = w.chance(0.3)
	}
}

// atEnd stops the process, when that was wanted, with the end of a transaction sent and not answered.
func (s *sidecar) atEnd() {
	if s.stopsAtEnd && !s.w.calm {
		s.stopsAtEnd = false
		s.held.until = max(s.held.until, s.w.now+s.stopsFor)
		s.deaf = max(s.deaf, s.held.until)
		s.w.note("%s: stopped at the end of a transaction until %s", s.name, s.held.until)
	}
}

// inTransaction counts the steps of transactions; at one of them the process stops, or dies.
func (s *sidecar) inTransaction() {
	if s.stops == 0 {
		return
	}
	if s.stops--; s.stops > 0 || s.w.calm {
		return
	}
	if s.dies {
		s.kill()
		s.p.restartSidecar(s.w.between(100*time.Millisecond, 2*sessionTimeout))
		return
	}
	s.held.until = max(s.held.until, s.w.now+s.stopsFor)
	s.w.note("%s: stopped in a transaction until %s", s.name, s.held.until)
}
