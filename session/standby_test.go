package session

import (
	"testing"
	"time"

	"github.com/pillion/pillion/protocol"
)

func member(generation int32, active, standby []TaskID) Assigned {
	return Assigned{Generation: generation, MemberID: "m", Active: active, Standby: standby}
}

var only0 = []TaskID{task0}

// shadowing brings task s/0 to a copy on connection 1: stream 1, epoch 1, caught up once.
func shadowing(t *testing.T, change ...func(*Config)) *script {
	t.Helper()
	s := newScript(t, change...)
	s.on(Connected{Conn: 1, Hello: protocol.Hello{ID: 1}}, "send 1 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 1, Prepared: oneTable}, "join")
	s.on(member(1, nil, only0), "send 1 assign s/0 1 standby")
	s.on(s.from(protocol.Opened{Re: 1, Task: "s/0", Epoch: 1}), `follow s/0 t from ""`)
	s.on(Reached{Stream: 1, End: NoEnd})
	return s
}

// taken brings it to the end of its take-over; its changelog ends at 9.
func taken(t *testing.T) *script {
	t.Helper()
	s := shadowing(t)
	s.on(member(2, only0, nil), "take over s/0")
	s.on(s.took(task0, map[string]int64{"in": 10}, map[string]int64{"t": 9}), "finish 1 at 9")
	return s
}

// promoted brings it to promoted: epoch 2, its table is stream 3.
func promoted(t *testing.T) *script {
	t.Helper()
	s := taken(t)
	s.on(Reached{Stream: 1, End: 9, Records: 3}, "in-stream promoted s/0 2")
	return s
}

func TestAStandbyIsPromotedBehindItsLastFrameAndRunsWhenReady(t *testing.T) {
	s := taken(t)
	s.now = s.now.Add(3 * time.Second)
	s.on(Reached{Stream: 1, End: NoEnd}) // of before: it says nothing of the end
	s.on(Reached{Stream: 1, End: 9, Records: 4}, "in-stream promoted s/0 2")
	if want := "task promoted task s/0 epoch 2 generation 2 replayed 4 took 3s"; s.log[len(s.log)-1] != want {
		t.Errorf("logged %q, want %q", s.log, want)
	}
	s.on(s.from(protocol.Ready{Re: 2, Task: "s/0", Epoch: 2}), "feed s/0 10")
	c := s.commit(1, 2, 20, false)
	s.on(c, "positions s/0 map[in:20]")
	s.on(s.positioned(task0, isOK), "send 1 committed s/0 2 1")
	if took := s.m.Status().TookOver["promoted"]; took.Count != 1 || took.Records != 4 || took.Took != 3*time.Second {
		t.Errorf("%+v", took)
	}
}

func TestAStandbyThatIsNotWantedIsLost(t *testing.T) {
	s := shadowing(t)
	s.on(member(2, nil, only0))
	s.on(member(3, nil, nil), "send 1 lost s/0 1 rebalance", "send 1 waiting ok")
	s.on(member(4, nil, only0), "send 1 assign s/0 2 standby")
	s.on(member(5, nil, nil), "send 1 lost s/0 2 rebalance") // before it was opened
	s.on(s.from(protocol.Opened{Re: 2, Task: "s/0", Epoch: 2}))
}

func TestAStandbyThatIsNotOpenedYetIsPromotedAfterIt(t *testing.T) {
	s := newScript(t)
	s.on(Connected{Conn: 1, Hello: protocol.Hello{ID: 1}}, "send 1 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 1, Prepared: oneTable}, "join")
	s.on(member(1, nil, only0), "send 1 assign s/0 1 standby")
	s.on(member(2, only0, nil), "take over s/0")
	s.on(s.took(task0, map[string]int64{"in": 10}, map[string]int64{"t": 9}))
	s.on(s.from(protocol.Opened{Re: 1, Task: "s/0", Epoch: 1}), `restore s/0 t from "" to 9`)
	s.on(Reached{Stream: 1, End: 9}, "in-stream promoted s/0 2")
}

func TestAResetOfACopyIsReplayedToWhereItHasToBe(t *testing.T) {
	s := shadowing(t)
	s.on(ResetNeeded{Stream: 1, Code: protocol.CodeTruncated}, "send 1 reset s/0 1 truncated t")
	s.on(s.from(protocol.Opened{Re: 2, Task: "s/0", Epoch: 1}), `follow s/0 t from ""`)
	s.on(member(2, only0, nil), "take over s/0")
	s.on(ResetNeeded{Stream: 1, Code: protocol.CodeTruncated}, "send 1 reset s/0 1 truncated t")
	s.on(s.took(task0, map[string]int64{"in": 10}, map[string]int64{"t": 9}))
	s.on(s.from(protocol.Opened{Re: 3, Task: "s/0", Epoch: 1}), `restore s/0 t from "" to 9`)
	s.on(ResetNeeded{Stream: 1, Code: protocol.CodeTruncated}, "send 1 reset s/0 1 truncated t")
	s.on(s.from(protocol.Opened{Re: 4, Task: "s/0", Epoch: 1}), `restore s/0 t from "" to 9`)
	s.on(Reached{Stream: 1, End: 9}, "in-stream promoted s/0 2")
}

func TestAFailingCopyIsOpenedAnewAndCostsNobodyAnything(t *testing.T) {
	for name, ev := range map[string]Event{
		"store":             Received{Conn: 1, Message: protocol.Error{Code: protocol.CodeWorkerFailed, Task: "s/0", Epoch: 1}},
		"for good":          StreamFailed{Stream: 1, Code: protocol.CodeRecordTooLarge},
		"to be opened anew": StreamFailed{Stream: 1, Code: protocol.CodeInternal, Reopen: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := shadowing(t)
			code := "worker_failed"
			if f, ok := ev.(StreamFailed); ok {
				code = f.Code
			}
			s.on(ev, "send 1 lost s/0 1 "+code)
			s.now = s.m.Deadline()
			s.on(Tick{}, "send 1 assign s/0 2 standby")
		})
	}
}

func TestACopyThatFailsWhileItIsPromotedIsOpenedAsTheActive(t *testing.T) {
	failed := Received{Conn: 1, Message: protocol.Error{Code: protocol.CodeWorkerFailed, Task: "s/0", Epoch: 1}}
	s := shadowing(t)
	s.on(member(2, only0, nil), "take over s/0")
	s.on(failed, "send 1 lost s/0 1 worker_failed")
	s.on(s.took(task0, nil, nil)) // not before the pause is over
	s.now = s.m.Deadline()
	s.on(Tick{}, "take over s/0")
	s.on(s.took(task0, map[string]int64{"in": 10}, map[string]int64{"t": 9}), "send 1 assign s/0 2")

	s = taken(t)
	s.on(failed, "send 1 lost s/0 1 worker_failed")
	s.now = s.m.Deadline()
	s.on(Tick{}, "take over s/0")

	s = promoted(t) // the worker has not taken it yet: both epochs end
	s.on(failed, "send 1 lost s/0 1 worker_failed", "send 1 lost s/0 2 worker_failed")
	s.on(s.from(protocol.Ready{Re: 2, Task: "s/0", Epoch: 2}))
	s.now = s.m.Deadline()
	s.on(Tick{}, "take over s/0")
}

func TestATakeOverThatIsRepeatedLeavesTheCopyAlone(t *testing.T) {
	s := shadowing(t)
	s.on(member(2, only0, nil), "take over s/0")
	s.on(s.tookFailed(task0, isBusy))
	s.on(member(3, only0, nil), "take over s/0")
	s.on(s.tookFailed(task0, isFailed))
	s.now = s.m.Deadline()
	s.on(Tick{}, "take over s/0")
	s.on(s.tookFailed(task0, isBusy))
	s.on(member(4, nil, only0), "let go [s/0]") // it was never claimed: the copy stays
	s.on(member(5, only0, nil), "take over s/0")
	s.on(s.tookFailed(task0, isBusy))
	s.on(member(6, nil, nil), "send 1 lost s/0 1 rebalance", "let go [s/0]", "send 1 waiting ok")
}

func (s *script) tookFailed(task TaskID, r Result) TookOver {
	return TookOver{Task: task, Op: s.ops["take"+task.String()], Result: r}
}

func TestAPromotionThatIsOvertakenEndsAndGivesBackWhatItClaimed(t *testing.T) {
	s := shadowing(t)
	s.on(member(2, only0, nil), "take over s/0")
	s.on(member(3, nil, only0), "send 1 lost s/0 1 rebalance")
	s.on(s.took(task0, map[string]int64{"in": 10}, nil), "release s/0 map[in:10]")
	s.on(s.releaseWritten(task0, isOK), "let go [s/0]", "send 1 assign s/0 2 standby")

	s = taken(t)
	s.on(member(3, nil, nil), "send 1 lost s/0 1 rebalance", "release s/0 map[in:10]")
	s.on(member(4, only0, nil))
	s.on(s.releaseWritten(task0, isOK), "take over s/0")

	s = promoted(t) // revoke stays behind promoted, which the worker may not have yet
	s.on(member(3, nil, nil), "in-stream revoke s/0 2 rebalance 5000")
	s.on(s.from(protocol.Released{Re: 3, Task: "s/0", Epoch: 2}), "release s/0 map[in:10]")

	s = promoted(t)
	s.on(member(3, nil, only0), "in-stream revoke s/0 2 rebalance 5000")
	s.now = s.m.Deadline()
	s.on(Tick{}, "send 1 lost s/0 1 revoke_timeout", "send 1 lost s/0 2 revoke_timeout", "release s/0 map[in:10]")
	s.on(s.releaseWritten(task0, isOK), "let go [s/0]", "send 1 assign s/0 3 standby")
}

func TestACopyOutlivesTheMembership(t *testing.T) {
	lost := GroupLost{Code: protocol.CodeFenced}
	s := shadowing(t)
	s.on(lost)
	s.on(member(1, nil, only0))

	s = shadowing(t)
	s.on(member(2, only0, nil), "take over s/0")
	op := s.ops["takes/0"]
	s.on(lost)
	s.on(member(1, only0, nil)) // the former take-over has not ended
	s.on(TookOver{Task: task0, Op: op, Result: Result{Outcome: FencedOut}}, "take over s/0")

	s = taken(t) // the copy may have stopped already
	s.on(lost, "send 1 lost s/0 1 fenced", "send 1 assign s/0 2 standby")

	s = promoted(t)
	s.on(lost, "send 1 lost s/0 1 fenced", "send 1 lost s/0 2 fenced")
	s.on(member(1, nil, nil), "send 1 waiting ok")
}

func TestCopiesEndWithTheWorkerAndComeWithTheNext(t *testing.T) {
	s := shadowing(t)
	s.on(Disconnected{Conn: 1})
	s.on(Connected{Conn: 2, Hello: protocol.Hello{ID: 1}}, "send 2 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 2, Prepared: oneTable}, "send 2 assign s/0 2 standby")

	s = shadowing(t)
	s.on(Disconnected{Conn: 1})
	s.on(member(2, only0, nil)) // promoted with no worker: the next one opens it as the active
	s.on(Connected{Conn: 2, Hello: protocol.Hello{ID: 1}}, "send 2 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 2, Prepared: oneTable}, "take over s/0")

	s = shadowing(t)
	s.on(member(2, only0, nil), "take over s/0")
	s.on(Disconnected{Conn: 1})
	s.on(s.took(task0, nil, nil))
	s.on(Connected{Conn: 2, Hello: protocol.Hello{ID: 1}}, "send 2 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 2, Prepared: oneTable}, "take over s/0")

	s = taken(t)
	s.on(Disconnected{Conn: 1})
	s.on(Connected{Conn: 2, Hello: protocol.Hello{ID: 1}}, "send 2 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 2, Prepared: oneTable}, "take over s/0")
}

func TestACopyOfOtherDeclarationsWaitsForTheSync(t *testing.T) {
	s := shadowing(t)
	s.on(Disconnected{Conn: 1})
	s.on(Connected{Conn: 2, Hello: protocol.Hello{ID: 1}}, "send 2 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 2, Prepared: twoTables}, "join")
	s.on(member(2, nil, only0), "send 2 assign s/0 2 standby")
	s.on(Received{Conn: 2, Message: protocol.Opened{Re: 1, Task: "s/0", Epoch: 2}}, `follow s/0 t from ""`, `follow s/0 u from ""`)

	s = shadowing(t) // the set is gone
	s.on(Disconnected{Conn: 1})
	s.on(Connected{Conn: 2, Hello: protocol.Hello{ID: 1}}, "send 2 welcome 1", "prepare")
	other := Prepared{Group: "g", Sets: []PreparedSet{{Name: "o", Sources: []string{"other"}, Partitions: 1}}}
	s.on(PreparedOK{Conn: 2, Prepared: other}, "join")
	s.on(member(2, nil, only0), "send 2 waiting ok") // of before
}

func TestNoCopyGoesToAWorkerThatCannotHoldIt(t *testing.T) {
	s := newScript(t)
	s.on(Connected{Conn: 1, Hello: protocol.Hello{ID: 1}}, "send 1 welcome 1", "prepare")
	tables := oneTable
	tables.NoStandby = true
	s.on(PreparedOK{Conn: 1, Prepared: tables}, "join")
	s.on(member(1, nil, only0), "send 1 waiting ok")

	s = shadowing(t) // nor one that the worker before held
	s.on(Disconnected{Conn: 1})
	s.on(Connected{Conn: 2, Hello: protocol.Hello{ID: 1}}, "send 2 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 2, Prepared: tables}, "join")

	s = running(t) // nor what it is the active of
	s.m.prepared.NoStandby = true
	s.on(member(2, nil, only0), "send 1 revoke s/0 1 rebalance 5000")
	s.on(s.from(protocol.Released{Re: 3, Task: "s/0", Epoch: 1}), "release s/0 map[in:10]")
	s.on(s.releaseWritten(task0, isOK), "let go [s/0]")
}

func TestADrainEndsCopiesAndLetsGoOfEachTaskAtOnce(t *testing.T) {
	s := running(t)
	s.on(member(2, []TaskID{task0, task1}, []TaskID{{Set: "s", Partition: 9}}), "take over s/1", "send 1 assign s/9 2 standby")
	s.on(s.took(task1, map[string]int64{"in": 7}, nil), "send 1 assign s/1 3")
	s.on(Drain{}, "drain the group", "send 1 revoke s/0 1 drain 20000", "send 1 revoke s/1 3 drain 20000", "send 1 lost s/9 2 drain")
	s.on(s.from(protocol.Released{Re: 5, Task: "s/0", Epoch: 1}), "release s/0 map[in:10]")
	s.on(s.releaseWritten(task0, isOK), "let go [s/0]") // it goes on elsewhere, s/1 still finishes here
	s.on(member(3, []TaskID{task1}, only0))
	s.on(s.from(protocol.Released{Re: 6, Task: "s/1", Epoch: 3}), "release s/1 map[in:7]")
	s.on(s.releaseWritten(task1, isOK), "let go [s/1]", "leave")
	s.on(Left{}, "close 1 4411", "stop ")
}

func TestADrainAmidAPromotion(t *testing.T) {
	s := shadowing(t)
	s.on(member(2, only0, nil), "take over s/0")
	s.on(Drain{}, "drain the group", "send 1 lost s/0 1 drain")
	s.on(s.took(task0, map[string]int64{"in": 10}, nil), "release s/0 map[in:10]")
	s.on(s.releaseWritten(task0, isOK), "let go [s/0]", "leave")

	s = taken(t)
	s.on(Drain{}, "drain the group", "send 1 lost s/0 1 drain", "release s/0 map[in:10]")

	s = promoted(t)
	s.on(Drain{}, "drain the group", "in-stream revoke s/0 2 drain 20000")
}

func TestAHungWorkerLosesItsCopies(t *testing.T) {
	s := shadowing(t)
	s.now = s.now.Add(time.Minute)
	s.on(Tick{Owes: true}, "send 1 lost s/0 1 hung", "leave")
	s.on(Left{})
	s.on(Active{Conn: 1}, "join")
	s.on(member(2, nil, only0), "send 1 assign s/0 2 standby")
}

func TestAfterTheGraceNoCopyIsLeft(t *testing.T) {
	s := shadowing(t)
	s.on(Disconnected{Conn: 1})
	s.now = s.now.Add(10 * time.Second)
	s.on(Tick{}, "leave")
}

func TestAResetBehindAPromotionStaysBehindIt(t *testing.T) {
	s := newScript(t)
	s.on(Connected{Conn: 1, Hello: protocol.Hello{ID: 1}}, "send 1 welcome 1", "prepare")
	planes := oneTable
	planes.Sets = []PreparedSet{{Name: "s", Sources: []string{"in"}, Partitions: 2,
		Tables: []PreparedTable{{Name: "planes", Topic: "planes", Kind: protocol.TableSource}}}}
	s.on(PreparedOK{Conn: 1, Prepared: planes}, "join")
	s.on(member(1, nil, only0), "send 1 assign s/0 1 standby")
	s.on(s.from(protocol.Opened{Re: 1, Task: "s/0", Epoch: 1}), `follow s/0 planes from ""`)
	s.on(member(2, only0, nil), "take over s/0")
	s.on(s.took(task0, map[string]int64{"in": 10}, nil)) // the table was never whole
	// Nothing of the former epoch comes behind promoted, and nothing of the new one before it.
	s.on(Reached{Stream: 1, End: NoEnd}, "pause", "in-stream promoted s/0 2", `go on s/0 planes from stream 1, ""`)
	s.on(ResetNeeded{Stream: 3, Code: protocol.CodeRecreated}, "in-stream reset s/0 2 recreated planes")
	s.on(s.from(protocol.Ready{Re: 2, Task: "s/0", Epoch: 2})) // it does not count
	s.on(s.from(protocol.Opened{Re: 3, Task: "s/0", Epoch: 2}), `restore s/0 planes from "" to 0`)
	s.on(Reached{Stream: 3}, "in-stream restored s/0 2")
	s.on(s.from(protocol.Ready{Re: 4, Task: "s/0", Epoch: 2}), "feed s/0 10")
}
