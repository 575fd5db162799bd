package session

import (
	"strings"
	"testing"
	"time"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

func TestCommitProducesThenCommitsPositionsThenAnswers(t *testing.T) {
	s := running(t)
	s.on(s.commit(1, 1, 20, true), "produce s/0")
	s.on(s.commit(2, 1, 30, true)) // waits its turn
	s.on(s.produced(task0, isOK), "positions s/0 map[in:20]")
	s.on(s.positioned(task0, isOK), "send 1 committed s/0 1 1", "produce s/0")
	s.on(s.produced(task0, isOK), "positions s/0 map[in:30]")
	s.on(s.positioned(task0, isOK), "send 1 committed s/0 1 2")
}

func TestCommitWithoutWritesOnlyCommitsPositions(t *testing.T) {
	s := running(t)
	s.on(s.commit(1, 1, 20, false), "positions s/0 map[in:20]")
	s.on(s.positioned(task0, isFailed))
	s.now = s.now.Add(time.Second)
	s.on(Tick{}, "positions s/0 map[in:20]")
	s.on(s.positioned(task0, isOK), "send 1 committed s/0 1 1")
}

func TestCommitsOfAnEpochFailAlikeAndTheTaskIsOpenedAnew(t *testing.T) {
	s := running(t)
	s.on(s.commit(1, 1, 20, true), "produce s/0")
	s.on(s.commit(2, 1, 30, true))
	s.on(s.produced(task0, Result{Outcome: Refused, Code: protocol.CodeNullKey}),
		"send 1 aborted s/0 1 1 null_key", "send 1 aborted s/0 1 2 commit_failed", "send 1 lost s/0 1 commit_failed",
		"take over s/0")
	s.on(s.commit(3, 1, 40, true), "send 1 stale s/0 1 3")
	s.on(s.took(task0, map[string]int64{"in": 10}, nil), "send 1 assign s/0 2")
}

func TestPositionsThatDoNotFitAreAborted(t *testing.T) {
	for name, next := range map[string]int64{"back": 9, "past what was delivered": 101} {
		t.Run(name, func(t *testing.T) {
			s := running(t)
			s.on(s.commit(1, 1, next, false), "send 1 aborted s/0 1 1 bad_position", "send 1 lost s/0 1 commit_failed", "take over s/0")
		})
	}
}

func TestWritesToAStreamOfAnotherTaskAreAborted(t *testing.T) {
	s := running(t)
	foreign := s.commit(1, 1, 20, true)
	b := frame.NewBuilder(frame.Writes)
	b.Reset(1, 1, 1) // the source's stream
	b.Append(1, 0, []byte("k"), []byte("v"), nil)
	foreign.Writes.Frames = append(foreign.Writes.Frames, b.Finish(nil, 0, nil))
	s.on(foreign, "send 1 aborted s/0 1 1 unknown_stream", "send 1 lost s/0 1 commit_failed", "take over s/0")
}

func TestAThirdOutstandingCommitIsAborted(t *testing.T) {
	s := running(t)
	s.on(s.commit(1, 1, 20, true), "produce s/0")
	s.on(s.commit(2, 1, 30, false))
	s.on(s.commit(3, 1, 40, false))
	s.on(s.produced(task0, isOK), "positions s/0 map[in:20]")
	s.on(s.positioned(task0, isOK), "send 1 committed s/0 1 1", "positions s/0 map[in:30]")
	s.on(s.positioned(task0, isOK), "send 1 committed s/0 1 2",
		"send 1 aborted s/0 1 3 too_many_commits", "send 1 lost s/0 1 commit_failed", "take over s/0")
}

func TestPositionsRefusedByARebalanceAreRepeatedAfterTheSync(t *testing.T) {
	s := running(t)
	s.on(s.commit(1, 1, 20, false), "positions s/0 map[in:20]")
	s.on(s.positioned(task0, isBusy))
	s.on(Assigned{Generation: 2, MemberID: "m", Active: []TaskID{task0}}, "positions s/0 map[in:20]")
	s.on(s.positioned(task0, isOK), "send 1 committed s/0 1 1")
}

func TestRevokeWaitsForTheLastCommitThenReleasesThenLetsGo(t *testing.T) {
	s := running(t)
	s.on(Assigned{Generation: 2, MemberID: "m"}, "send 1 revoke s/0 1 rebalance 5000")
	s.on(s.commit(1, 1, 20, true), "produce s/0")
	s.on(s.from(protocol.Released{Re: 3, Task: "s/0", Epoch: 1}))
	s.on(s.commit(2, 1, 30, true), "send 1 stale s/0 1 2")
	s.on(s.produced(task0, isOK), "positions s/0 map[in:20]")
	s.on(s.positioned(task0, isOK), "send 1 committed s/0 1 1", "release s/0 map[in:20]")
	s.on(s.releaseWritten(task0, isBusy))
	s.on(Assigned{Generation: 3, MemberID: "m"}, "release s/0 map[in:20]")
	s.on(s.releaseWritten(task0, isOK), "let go [s/0]")
}

func TestARevokeIsNeverTakenBack(t *testing.T) {
	s := running(t)
	s.on(Assigned{Generation: 2, MemberID: "m"}, "send 1 revoke s/0 1 rebalance 5000")
	s.on(Assigned{Generation: 3, MemberID: "m", Active: []TaskID{task0}})
	s.on(s.from(protocol.Released{Re: 3, Task: "s/0", Epoch: 1}), "release s/0 map[in:10]")
	s.on(s.releaseWritten(task0, isOK), "take over s/0") // opened anew without another join
}

func TestAWorkerThatMissesTheRevokeLosesTheEpoch(t *testing.T) {
	s := running(t)
	s.on(Assigned{Generation: 2, MemberID: "m"}, "send 1 revoke s/0 1 rebalance 5000")
	s.now = s.now.Add(5 * time.Second)
	s.on(Tick{}, "send 1 lost s/0 1 revoke_timeout", "release s/0 map[in:10]")
	s.on(s.commit(1, 1, 20, true), "send 1 stale s/0 1 1")
	s.on(s.releaseWritten(task0, isOK), "let go [s/0]")
}

func TestAfterALossNothingIsCommitted(t *testing.T) {
	s := running(t)
	s.on(s.commit(1, 1, 20, true), "produce s/0")
	s.on(s.commit(2, 1, 30, true))
	s.on(GroupLost{Code: protocol.CodeFenced}, "send 1 unknown s/0 1 1 fenced", "send 1 aborted s/0 1 2 commit_failed", "send 1 lost s/0 1 fenced")
	s.on(Assigned{Generation: 5, MemberID: "n", Active: []TaskID{task0}}) // the produce of the old epoch is still under way
	s.on(Produced{Task: task0, Op: s.ops["produces/0"], Result: isOK}, "take over s/0")
}

func TestAWorkerThatComesBackWithinTheGraceFindsItsTasks(t *testing.T) {
	s := running(t)
	s.on(s.commit(1, 1, 20, true), "produce s/0")
	s.on(Disconnected{Conn: 1})
	s.on(Connected{Conn: 2, Hello: protocol.Hello{ID: 1}}, "send 2 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 2, Prepared: oneTable}) // no join; the commit of the old connection is still open
	s.on(s.produced(task0, isOK), "positions s/0 map[in:20]")
	s.on(s.positioned(task0, isOK), "take over s/0")
	s.on(s.took(task0, map[string]int64{"in": 20}, nil), "send 2 assign s/0 2")
}

func TestTheNewestConnectionWins(t *testing.T) {
	s := running(t)
	s.on(Connected{Conn: 2, Hello: protocol.Hello{ID: 1}}, "send 2 welcome 1", "prepare")
	s.on(s.commit(1, 1, 20, true)) // of the older one: nothing of it begins
	s.on(Disconnected{Conn: 1})
	s.on(PreparedOK{Conn: 2, Prepared: oneTable}, "take over s/0")
}

func TestAfterTheGraceTheGroupIsLeft(t *testing.T) {
	s := running(t)
	s.on(Disconnected{Conn: 1})
	s.now = s.now.Add(10 * time.Second)
	s.on(Tick{}, "release s/0 map[in:10]")
	s.on(s.releaseWritten(task0, isOK), "leave")
	s.on(Left{})
	s.on(Connected{Conn: 2, Hello: protocol.Hello{ID: 1}}, "send 2 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 2, Prepared: oneTable}, "join")
}

func TestAHungWorkerCostsTheMembershipAndComesBack(t *testing.T) {
	s := running(t)
	s.on(s.commit(1, 1, 20, true), "produce s/0")
	s.now = s.now.Add(time.Minute)
	s.on(Tick{Owes: true}) // it may wait for our answer
	s.on(s.produced(task0, isOK), "positions s/0 map[in:20]")
	s.now = s.now.Add(time.Minute)
	s.on(s.positioned(task0, isOK), "send 1 committed s/0 1 1")
	s.now = s.now.Add(time.Minute - time.Second)
	s.on(Tick{Owes: true})
	s.now = s.now.Add(time.Second)
	s.on(Tick{Owes: true}, "send 1 lost s/0 1 hung", "release s/0 map[in:20]")
	s.on(s.releaseWritten(task0, isOK), "leave")
	if want := "task released task s/0 code hung"; len(s.log) != 1 || s.log[0] != want {
		t.Errorf("logged %q, want %q", s.log, want)
	}
	s.on(Left{})
	s.on(s.commit(2, 1, 30, true), "join", "send 1 stale s/0 1 2")
	s.on(Assigned{Generation: 4, MemberID: "n", Active: []TaskID{task0}}, "take over s/0")
}

func TestAnIdleWorkerIsNotHung(t *testing.T) {
	s := running(t)
	s.now = s.now.Add(time.Minute)
	s.on(Tick{Owes: false})
	s.now = s.now.Add(time.Minute)
	s.on(Tick{Owes: false})
}

func TestDrainWaitsForTheWorkerThenLeavesAndStops(t *testing.T) {
	s := running(t)
	s.on(Drain{}, "drain the group", "send 1 revoke s/0 1 drain 20000")
	s.on(s.commit(1, 1, 20, false), "positions s/0 map[in:20]")
	s.on(s.positioned(task0, isOK), "send 1 committed s/0 1 1")
	s.on(s.from(protocol.Released{Re: 3, Task: "s/0", Epoch: 1}), "release s/0 map[in:20]")
	s.on(s.releaseWritten(task0, isOK), "let go [s/0]", "leave")
	s.on(Left{}, "close 1 4411", "stop ")
}

func TestADrainEndsAtItsDeadline(t *testing.T) {
	s := running(t)
	s.on(Drain{}, "drain the group", "send 1 revoke s/0 1 drain 20000")
	s.now = s.now.Add(20 * time.Second)
	s.on(Tick{}, "send 1 lost s/0 1 revoke_timeout", "release s/0 map[in:10]")
	s.on(s.releaseWritten(task0, isOK), "let go [s/0]", "leave")
	s.on(Left{}, "close 1 4411", "stop ")
}

func TestDrainWithoutAWorkerStopsAtOnce(t *testing.T) {
	s := newScript(t)
	s.on(Drain{}, "stop ")
}

func TestARefusedDeclarationIsSaidInWords(t *testing.T) {
	s := newScript(t)
	s.on(Connected{Conn: 1, Hello: protocol.Hello{ID: 1}}, "send 1 welcome 1", "prepare")
	s.on(PrepareFailed{Conn: 1, Code: protocol.CodeUnknownTopic, Message: "no topic"}, "send 1 error unknown_topic", "close 1 4404")
	s.on(Connected{Conn: 2, Hello: protocol.Hello{ID: 7, Sets: []protocol.Set{{Name: "a"}, {Name: "a"}}}},
		"send 2 error 7 bad_declaration", "close 2 4404")
}

func TestWhatIsWaitedForIsToldOnceAndEnds(t *testing.T) {
	s := newScript(t)
	away := PrepareFailed{Conn: 1, Code: protocol.CodeKafkaUnreachable, Message: "no broker answers", Retry: true}
	s.on(Connected{Conn: 1, Hello: protocol.Hello{ID: 1}}, "send 1 welcome 1", "prepare")
	s.on(away, "send 1 waiting kafka_unreachable")
	s.now = s.now.Add(time.Second)
	s.on(Tick{}, "prepare")
	s.on(away)
	s.on(PreparedOK{Conn: 1, Prepared: oneTable}, "send 1 waiting ok", "join")
}

// joinTables is a set with a source table, and a global table of one partition.
var joinTables = Prepared{Group: "g",
	Sets: []PreparedSet{{Name: "s", Sources: []string{"in"}, Partitions: 2,
		Tables: []PreparedTable{{Name: "planes", Topic: "planes", Kind: protocol.TableSource}}}},
	Globals: []PreparedGlobal{{Name: "g", Topic: "glob", Partitions: 1}},
}

func TestRecordsWaitForGlobalTablesAndForResets(t *testing.T) {
	s := newScript(t)
	s.on(Connected{Conn: 1, Hello: protocol.Hello{ID: 1}}, "send 1 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 1, Prepared: joinTables}, "join", "send 1 assign g/0 1")
	s.on(Assigned{Generation: 1, MemberID: "m", Active: []TaskID{task0}}, "take over s/0")
	s.on(s.took(task0, map[string]int64{"in": 10}, nil), "send 1 assign s/0 2")
	s.on(s.from(protocol.Opened{Re: 2, Task: "s/0", Epoch: 2}), `restore s/0 planes from "" to 0`)
	s.on(Reached{Stream: 3}, "in-stream restored s/0 2")
	s.on(s.from(protocol.Ready{Re: 3, Task: "s/0", Epoch: 2})) // the global table is not whole
	s.on(s.from(protocol.Opened{Re: 1, Task: "g/0", Epoch: 1}), `restore g/0 g from "" to 0`)
	s.on(Reached{Stream: 1}, "in-stream restored g/0 1")
	s.on(s.from(protocol.Ready{Re: 4, Task: "g/0", Epoch: 1}), "feed s/0 10")
	s.on(ResetNeeded{Stream: 1, Code: protocol.CodeRecreated}, "pause", "send 1 reset g/0 1 recreated g")
	s.on(s.from(protocol.Opened{Re: 5, Task: "g/0", Epoch: 1}), `restore g/0 g from "" to 0`)
	s.on(Reached{Stream: 1}, "in-stream restored g/0 1")
	s.on(s.from(protocol.Ready{Re: 6, Task: "g/0", Epoch: 1}), "resume")
	s.on(ResetNeeded{Stream: 3, Code: protocol.CodeRecreated}, "pause", "send 1 reset s/0 2 recreated planes")
	s.on(s.from(protocol.Opened{Re: 7, Task: "s/0", Epoch: 2}), `restore s/0 planes from "" to 0`)
	s.on(Reached{Stream: 3}, "in-stream restored s/0 2")
	s.on(s.from(protocol.Ready{Re: 8, Task: "s/0", Epoch: 2}), "resume")
}

func TestAnswersOfAnOldEpochChangeNothing(t *testing.T) {
	s := running(t)
	s.on(s.from(protocol.Error{Code: protocol.CodeOffsetMismatch, Task: "s/0", Epoch: 1}), "send 1 lost s/0 1 offset_mismatch")
	s.now = s.now.Add(time.Second)
	s.on(Tick{}, "take over s/0")
	s.on(s.took(task0, map[string]int64{"in": 10}, nil), "send 1 assign s/0 2")
	s.on(s.from(protocol.Opened{Re: 1, Task: "s/0", Epoch: 1}))
	s.on(s.from(protocol.Ready{Re: 2, Task: "s/0", Epoch: 1}))
	s.on(s.from(protocol.Released{Re: 9, Task: "s/0", Epoch: 1}))
	s.on(Reached{Stream: 2})
}

func TestAMessageThatDoesNotFitIsRefusedAndChangesNothing(t *testing.T) {
	s := running(t)
	s.on(s.from(protocol.Ready{Re: 2, Task: "s/0", Epoch: 1}), "send 1 error s/0 1 not_allowed")
	s.on(s.from(protocol.Released{Re: 9, Task: "s/0", Epoch: 1}), "send 1 error s/0 1 not_allowed")
	s.on(s.from(protocol.Welcome{}), "send 1 error not_allowed")
	s.on(s.commit(1, 1, 20, false), "positions s/0 map[in:20]")
}

// A log that says once that Kafka is away looks like one of a sidecar that has given up.
func TestAWaitingThatGoesOnIsSaidEachMinute(t *testing.T) {
	s := running(t)
	away := GroupWaiting{Code: protocol.CodeKafkaUnreachable, Message: "no broker answers"}
	var said []string
	for range 5 {
		s.log = nil
		expected := []string{}
		if len(said) == 0 {
			expected = append(expected, "send 1 waiting kafka_unreachable")
		}
		s.on(away, expected...)
		said = append(said, strings.Join(s.log, ";"))
		s.now = s.now.Add(40 * time.Second)
	}
	for i, want := range []string{"waiting code", "", "still waiting code kafka_unreachable for 1m20s", "", "still waiting code kafka_unreachable for 2m40s"} {
		if want == "" && said[i] != "" || !strings.HasPrefix(said[i], want) {
			t.Errorf("after %d s: %q, want %q", 40*i, said[i], want)
		}
	}
}
