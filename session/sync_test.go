package session

import (
	"testing"
	"time"

	"github.com/pillion/pillion/protocol"
)

// A step that the group refused because it was rebalancing may end after the sync it had to wait for.
func TestAnAnswerThatComesAfterTheSyncWaitsForNoOther(t *testing.T) {
	s := running(t)
	s.on(Assigned{Generation: 2, MemberID: "m", Active: []TaskID{task0, task1}}, "take over s/1")
	s.on(s.commit(1, 1, 20, false), "positions s/0 map[in:20]")
	s.on(Assigned{Generation: 3, MemberID: "m", Active: []TaskID{task0, task1}})
	s.on(s.took1(isBusy), "take over s/1") // at once: the sync has come
	s.on(s.positioned(task0, isBusy), "positions s/0 map[in:20]")
	s.on(s.took1(isBusy)) // this time no sync has come
	s.now = s.now.Add(simConfig.RevokeTimeout)
	s.on(Tick{})
	s.on(Assigned{Generation: 4, MemberID: "m", Active: []TaskID{task0, task1}}, "take over s/1")
}

// A worker that grants credit all the time keeps nothing from being tried again.
func TestCreditDoesNotHideWhatIsDue(t *testing.T) {
	s := running(t)
	s.on(s.commit(1, 1, 20, false), "positions s/0 map[in:20]")
	s.on(s.positioned(task0, isFailed))
	at := s.m.Deadline()
	s.now = at.Add(time.Millisecond)
	s.on(Active{Conn: 1})
	if s.m.Deadline() != at {
		t.Fatalf("the next tick is wanted at %v, the commit waits for %v", s.m.Deadline(), at)
	}
	s.on(Tick{}, "positions s/0 map[in:20]")
}

func (s *script) took1(r Result) TookOver {
	return TookOver{Task: task1, Op: s.ops["take"+task1.String()], Result: r}
}

// twoTables is oneTable with another table in the set.
var twoTables = Prepared{Group: "g", Sets: []PreparedSet{{
	Name: "s", Sources: []string{"in"}, Partitions: 2,
	Tables: []PreparedTable{
		{Name: "t", Topic: "t-log", Kind: protocol.TableChangelog}, {Name: "u", Topic: "u-log", Kind: protocol.TableChangelog},
	},
}}}

func TestATakeOverOfFormerDeclarationsIsMadeAgain(t *testing.T) {
	s := running(t)
	s.on(Disconnected{Conn: 1}) // its task is parked
	s.on(Connected{Conn: 2, Hello: protocol.Hello{ID: 1}}, "send 2 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 2, Prepared: oneTable}, "take over s/0")
	s.on(Connected{Conn: 3, Hello: protocol.Hello{ID: 1}}, "send 3 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 3, Prepared: twoTables}, "join")
	s.on(s.took(task0, map[string]int64{"in": 10}, map[string]int64{"t": 5}), "take over s/0") // of u nothing is known
	s.on(s.took(task0, map[string]int64{"in": 10}, map[string]int64{"t": 5, "u": 6}), "send 3 assign s/0 2")
}

func TestNewDeclarationsWaitForTheCommitsOfTheFormerWorker(t *testing.T) {
	s := running(t)
	s.on(s.commit(1, 1, 20, true), "produce s/0")
	s.on(Connected{Conn: 2, Hello: protocol.Hello{ID: 1}}, "send 2 welcome 1", "prepare")
	other := Prepared{Group: "g", Sets: []PreparedSet{{Name: "o", Sources: []string{"other"}, Partitions: 1}}}
	s.on(PreparedOK{Conn: 2, Prepared: other})
	s.on(s.produced(task0, isOK), "positions s/0 map[in:20]")
	s.on(s.positioned(task0, isOK), "release s/0 map[in:20]")
	s.on(s.releaseWritten(task0, isOK), "let go [s/0]", "join")
}

func TestASecondLookAtKafkaOpensNothingTwice(t *testing.T) {
	s := newScript(t)
	s.on(Connected{Conn: 1, Hello: protocol.Hello{ID: 1}}, "send 1 welcome 1", "prepare")
	s.on(PrepareFailed{Conn: 1, Code: protocol.CodeKafkaUnreachable, Retry: true}, "send 1 waiting kafka_unreachable")
	s.on(Connected{Conn: 2, Hello: protocol.Hello{ID: 1}}, "send 2 welcome 1", "send 2 waiting kafka_unreachable", "prepare")
	s.now = s.now.Add(simConfig.RevokeTimeout)
	s.on(Tick{}) // the look of the new connection is under way
	s.on(PreparedOK{Conn: 2, Prepared: joinTables}, "send 2 waiting ok", "join", "send 2 assign g/0 1")
	s.on(PreparedOK{Conn: 2, Prepared: joinTables})
}

// A commit of the former connection whose end is not known keeps everything from being opened, even when
// the group took its task away meanwhile.
func TestNothingIsOpenedWhileACommitOfAnotherConnectionIsOpen(t *testing.T) {
	s := running(t)
	s.on(s.commit(1, 1, 20, true), "produce s/0")
	s.on(Disconnected{Conn: 1})
	s.on(GroupLost{Code: protocol.CodeFenced})
	s.on(Connected{Conn: 2, Hello: protocol.Hello{ID: 1}}, "send 2 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 2, Prepared: oneTable})
	s.on(Assigned{Generation: 5, MemberID: "n", Active: []TaskID{task1}})
	s.on(Produced{Task: task0, Op: s.ops["produces/0"], Result: isOK}, "take over s/1")
}

func TestAKafkaThatRefusesPositionsEndsTheEpoch(t *testing.T) {
	refused := Result{Outcome: Refused, Code: protocol.CodeKafkaRefused, Message: "not authorized"}
	s := running(t)
	s.on(s.commit(1, 1, 20, true), "produce s/0")
	s.on(s.produced(task0, isOK), "positions s/0 map[in:20]")
	s.on(s.positioned(task0, refused), "send 1 unknown s/0 1 1 kafka_refused", "send 1 lost s/0 1 commit_failed", "take over s/0")

	s = running(t)
	s.on(s.commit(1, 1, 20, false), "positions s/0 map[in:20]")
	s.on(s.positioned(task0, refused), "send 1 aborted s/0 1 1 kafka_refused", "send 1 lost s/0 1 commit_failed", "take over s/0")
}

// A worker that is to have no task is told so, once for each connection: it is as ready as it can be.
func TestAWorkerWithoutTasksIsTold(t *testing.T) {
	s := newScript(t)
	s.on(Connected{Conn: 1, Hello: protocol.Hello{ID: 1}}, "send 1 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 1, Prepared: oneTable}, "join")
	s.on(Assigned{Generation: 1, MemberID: "m"}, "send 1 waiting ok")
	s.on(Assigned{Generation: 2, MemberID: "m"})
	s.on(Disconnected{Conn: 1})
	s.on(Connected{Conn: 2, Hello: protocol.Hello{ID: 1}}, "send 2 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 2, Prepared: oneTable}, "send 2 waiting ok")
}
