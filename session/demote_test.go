package session

import (
	"testing"
	"time"

	"github.com/pillion/pillion/protocol"
)

// demoted brings the running task s/0, which has committed once, to a copy: epoch 2, stream 3; its release
// is being written.
func demoted(t *testing.T) *script {
	t.Helper()
	s := running(t)
	s.on(s.commit(1, 1, 20, true), "produce s/0")
	s.on(s.produced(task0, isOK), "positions s/0 map[in:20]")
	s.on(s.positioned(task0, isOK), "send 1 committed s/0 1 1")
	s.on(member(2, nil, only0), "in-stream demoted s/0 2", `go on s/0 t from stream 2, "v1:x"`, "release s/0 map[in:20]")
	return s
}

func TestAnActiveThatOwesNothingBecomesACopyInPlace(t *testing.T) {
	s := demoted(t)
	s.on(s.commit(2, 1, 20, true), "send 1 stale s/0 1 2") // made before the worker took demoted
	s.on(s.releaseWritten(task0, isFailed))
	s.now = s.m.Deadline()
	s.on(Tick{}, "release s/0 map[in:20]")
	s.on(s.releaseWritten(task0, isBusy))
	s.on(member(3, nil, only0), "release s/0 map[in:20]")
	s.on(s.releaseWritten(task0, isOK), "let go [s/0]")
	s.on(member(4, nil, only0))
	s.on(member(5, only0, nil), "take over s/0")
	s.on(s.took(task0, map[string]int64{"in": 30}, map[string]int64{"t": 12}), "finish 3 at 12")
	s.on(Reached{Stream: 3, End: 12}, "in-stream promoted s/0 3")
	s.on(s.from(protocol.Ready{Re: 3, Task: "s/0", Epoch: 3}), "feed s/0 30")
}

func TestAnActiveThatOwesSomethingIsRevokedAndCopiedAfterwards(t *testing.T) {
	afterwards := func(s *script, re int64, next string) {
		s.t.Helper()
		s.on(s.from(protocol.Released{Re: re, Task: "s/0", Epoch: 1}), "release s/0 map[in:"+next+"]")
		s.on(s.releaseWritten(task0, isOK), "let go [s/0]", "send 1 assign s/0 2 standby")
		s.on(member(3, nil, only0))
	}
	s := running(t) // records were delivered
	owing := member(2, nil, only0)
	owing.Uncommitted = map[TaskID]bool{task0: true}
	s.on(owing, "send 1 revoke s/0 1 rebalance 5000")
	afterwards(s, 3, "10")

	s = running(t) // a commit is under way
	s.on(s.commit(1, 1, 20, false), "positions s/0 map[in:20]")
	s.on(member(2, nil, only0), "send 1 revoke s/0 1 rebalance 5000")
	s.on(s.positioned(task0, isOK), "send 1 committed s/0 1 1")
	afterwards(s, 3, "20")
}

func TestATaskThatDoesNotRunYetIsCopiedAfterItsRevoke(t *testing.T) {
	s := newScript(t)
	s.on(Connected{Conn: 1, Hello: protocol.Hello{ID: 1}}, "send 1 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 1, Prepared: oneTable}, "join")
	s.on(member(1, only0, nil), "take over s/0")
	s.on(member(2, nil, only0))
	s.on(s.took(task0, map[string]int64{"in": 10}, map[string]int64{"t": 5}), "release s/0 map[in:10]")
	s.on(s.releaseWritten(task0, isOK), "let go [s/0]", "send 1 assign s/0 1 standby")
}

func TestADemotedTaskThatIsGivenBackIsPromotedWhenItsReleaseIsWritten(t *testing.T) {
	s := demoted(t)
	s.on(member(3, only0, nil))
	s.on(s.releaseWritten(task0, isOK), "take over s/0")
}

func TestADemotedTaskThatIsTakenAwayIsLost(t *testing.T) {
	s := demoted(t)
	s.on(member(3, nil, nil), "send 1 lost s/0 1 rebalance", "send 1 lost s/0 2 rebalance")
	s.on(s.releaseWritten(task0, isOK), "let go [s/0]")
}

func TestWhatHappensWhileTheReleaseOfADemotedTaskIsWritten(t *testing.T) {
	s := demoted(t)
	s.on(GroupLost{Code: protocol.CodeFenced}) // the copy goes on
	s.on(s.releaseWritten(task0, Result{Outcome: FencedOut}))
	s.on(member(1, nil, only0))

	s = demoted(t)
	s.on(Disconnected{Conn: 1})
	s.on(s.releaseWritten(task0, isOK), "let go [s/0]")
	s.on(Connected{Conn: 2, Hello: protocol.Hello{ID: 1}}, "send 2 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 2, Prepared: oneTable}, "send 2 assign s/0 3 standby")

	s = demoted(t)
	s.on(s.from(protocol.Error{Code: protocol.CodeWorkerFailed, Task: "s/0", Epoch: 1}),
		"send 1 lost s/0 1 worker_failed", "send 1 lost s/0 2 worker_failed")
	s.on(s.releaseWritten(task0, isOK), "let go [s/0]", "send 1 assign s/0 3 standby")

	s = demoted(t)
	s.on(Drain{}, "drain the group", "send 1 lost s/0 1 drain", "send 1 lost s/0 2 drain")
	s.on(s.releaseWritten(task0, isOK), "let go [s/0]", "leave")

	s = demoted(t)
	s.on(ResetNeeded{Stream: 3, Code: protocol.CodeTruncated}, "in-stream reset s/0 2 truncated t")
	s.on(s.from(protocol.Opened{Re: 3, Task: "s/0", Epoch: 2}), `follow s/0 t from ""`)

	s = demoted(t)
	s.now = s.now.Add(time.Minute)
	s.on(Tick{Owes: true}, "send 1 lost s/0 1 hung", "send 1 lost s/0 2 hung")
	s.on(s.releaseWritten(task0, isOK), "leave")
}

func TestCopiesAreWhatTheGroupHears(t *testing.T) {
	s := running(t)
	s.on(member(2, nil, nil), "send 1 revoke s/0 1 rebalance 5000")
	s.on(s.from(protocol.Released{Re: 3, Task: "s/0", Epoch: 1}), "release s/0 map[in:10]")
	if got := s.m.copies(); len(got) != 0 {
		t.Errorf("before the release is written: %v", got)
	}
	s.on(s.releaseWritten(task0, isOK), "let go [s/0]")
	if got := s.m.copies(); len(got) != 1 || got[0].task != task0 || !got[0].kept {
		t.Errorf("the store that is kept: %v", got)
	}
	s.on(member(3, nil, []TaskID{task1}), "send 1 assign s/1 2 standby")
	if got := s.m.copies(); len(got) != 1 || got[0].task != task1 || got[0].kept || len(got[0].streams) != 1 {
		t.Errorf("a standby: %v", got)
	}
	s.on(member(4, []TaskID{task1}, nil), "take over s/1")
	if got := s.m.copies(); len(got) != 0 {
		t.Errorf("what is ours is no copy: %v", got)
	}
}

// A store that is being wiped, or that another process had, is no copy for anybody's plan.
func TestNoCopyIsClaimedOfAStoreThatIsNotWhole(t *testing.T) {
	s := running(t)
	s.on(ResetNeeded{Stream: 2, Code: protocol.CodeTruncated}, "pause", "send 1 reset s/0 1 truncated t")
	s.on(GroupLost{Code: protocol.CodeFenced}, "send 1 lost s/0 1 fenced")
	if got := s.m.copies(); len(got) != 0 {
		t.Errorf("a store that is being wiped: %v", got)
	}

	s = shadowing(t)
	s.on(Disconnected{Conn: 1})
	s.on(Connected{Conn: 2, Hello: protocol.Hello{ID: 1}}, "send 2 welcome 1", "prepare")
	s.on(member(2, nil, nil)) // before the new worker was given the copy
	if got := s.m.copies(); len(got) != 0 {
		t.Errorf("the store of the process before: %v", got)
	}
}
