package session

import (
	"testing"

	"github.com/pillion/pillion/protocol"
)

// transacted makes a transaction take effect, or not, and gives what tells the session. One that began before
// the membership was lost may have ended as committed all the same.
func (w *world) transacted(op Transact, res Result) func() {
	if res.Outcome == FencedOut && w.rng.IntN(2) == 0 && !w.owned[op.Task] {
		res = Result{Outcome: OK}
	}
	if res.Outcome == Failed {
		res.Outcome = []Outcome{Failed, Refused, Unknown, Unknown}[w.rng.IntN(4)]
	}
	commit := w.transacting[op.Op]
	take := func() map[string]Landed {
		w.visible[commit] = true
		return w.land(op.Task, op.Writes)
	}
	var landed map[string]Landed
	doubt := res.Outcome == Unknown && w.rng.IntN(2) == 0
	switch {
	case res.Outcome == OK:
		landed = take()
	case res.Outcome == Unknown:
		w.unsure[op.Task] = true
		if !doubt && w.rng.IntN(2) == 0 {
			take()
		}
	}
	return func() {
		if doubt {
			w.doubted[op.Task]++
			w.results = append(w.results, func() {
				if w.doubted[op.Task]--; w.rng.IntN(2) == 0 {
					take()
				}
				w.step(ProduceEnded{Op: op.Op})
			})
		}
		w.step(Transacted{Task: op.Task, Op: op.Op, Result: res, InDoubt: doubt, Landed: landed})
	}
}

func exactlyOnce(c *Config) { c.Guarantee = protocol.ExactlyOnce }

func (s *script) transacted(r Result) Transacted {
	return Transacted{Task: task0, Op: s.ops["transacts/0"], Result: r, Landed: map[string]Landed{"t": {Checkpoint: "v1:x", Next: 6}}}
}

func TestACommitIsOneTransaction(t *testing.T) {
	s := running(t, exactlyOnce)
	s.on(s.commit(1, 1, 20, true), "transact s/0 map[in:20] at 5")
	s.on(s.commit(2, 1, 30, false))
	s.on(s.transacted(isOK), "send 1 committed s/0 1 1", "transact s/0 map[in:30]")
	s.on(s.transacted(isOK), "send 1 committed s/0 1 2")
	s.on(s.commit(3, 1, 40, true), "transact s/0 map[in:40] at 6")
}

// A transaction that the group refuses for its generation was aborted: all of it is repeated.
func TestATransactionIsRepeatedAfterTheSync(t *testing.T) {
	s := running(t, exactlyOnce)
	s.on(s.commit(1, 1, 20, true), "transact s/0 map[in:20] at 5")
	s.on(s.transacted(isBusy))
	s.on(Assigned{Generation: 2, MemberID: "m", Active: []TaskID{task0}}, "transact s/0 map[in:20] at 5")
	s.on(s.transacted(isOK), "send 1 committed s/0 1 1")
}

func TestWhatIsNotCommittedIsAborted(t *testing.T) {
	for _, c := range []struct {
		result Result
		want   string
	}{
		{Result{Outcome: Refused, Code: protocol.CodeRecordTooLarge}, "send 1 aborted s/0 1 1 record_too_large"},
		{Result{Outcome: FencedOut}, "send 1 aborted s/0 1 1 fenced"},
		{Result{Outcome: Unknown}, "send 1 unknown s/0 1 1 internal"},
	} {
		s := running(t, exactlyOnce)
		s.on(s.commit(1, 1, 20, true), "transact s/0 map[in:20] at 5")
		s.on(s.commit(2, 1, 30, true))
		s.on(s.transacted(c.result), c.want, "send 1 aborted s/0 1 2 commit_failed", "send 1 lost s/0 1 commit_failed", "take over s/0")
	}
}

// INVARIANT: a task is not released at a position that a transaction without an answer may have moved.
func TestAReleaseAfterAnUnknownEndNamesNoPosition(t *testing.T) {
	s := running(t, exactlyOnce)
	s.on(s.commit(1, 1, 20, true), "transact s/0 map[in:20] at 5")
	unknown := s.transacted(Result{Outcome: Unknown})
	unknown.InDoubt = true
	s.on(unknown, "send 1 unknown s/0 1 1 internal", "send 1 lost s/0 1 commit_failed")
	s.on(Assigned{Generation: 2, MemberID: "m"}) // not handed on while the transaction has no end
	s.on(ProduceEnded{Op: unknown.Op}, "release s/0 map[]")

	s = running(t, exactlyOnce)
	s.on(s.commit(1, 1, 20, true), "transact s/0 map[in:20] at 5")
	s.on(unknown, "send 1 unknown s/0 1 1 internal", "send 1 lost s/0 1 commit_failed")
	// Who leaves does not wait: the claim stays, and the next owner ends the transaction.
	s.on(Drain{}, "drain the group", "let go [s/0]", "leave")
}

// INVARIANT: the last commits of a task that the worker has released already land where they have to.
func TestCommitsBehindAReleaseKnowWhereTheyLand(t *testing.T) {
	s := running(t, exactlyOnce)
	s.on(s.commit(1, 1, 20, true), "transact s/0 map[in:20] at 5")
	s.on(s.commit(2, 1, 30, true))
	s.on(Assigned{Generation: 2, MemberID: "m"}, "send 1 revoke s/0 1 rebalance 5000")
	s.on(s.from(protocol.Released{Re: 3, Task: "s/0", Epoch: 1}))
	s.on(s.transacted(isOK), "send 1 committed s/0 1 1", "transact s/0 map[in:30] at 6")
}
