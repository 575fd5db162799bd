package session

import (
	"testing"

	"github.com/pillion/pillion/protocol"
)

// restored brings s/0, which has a source table on stream 2, to where the worker owes ready 2.
func restored(t *testing.T) *script {
	t.Helper()
	s := newScript(t)
	noGlobals := joinTables
	noGlobals.Globals = nil
	s.on(Connected{Conn: 1, Hello: protocol.Hello{ID: 1}}, "send 1 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 1, Prepared: noGlobals}, "join")
	s.on(Assigned{Generation: 1, MemberID: "m", Active: []TaskID{task0}}, "take over s/0")
	s.on(s.took(task0, map[string]int64{"in": 10}, nil), "send 1 assign s/0 1")
	s.on(s.from(protocol.Opened{Re: 1, Task: "s/0", Epoch: 1}), `restore s/0 planes from "" to 0`)
	s.on(Reached{Stream: 2}, "in-stream restored s/0 1")
	return s
}

func TestAResetUndoesWhatIsNotAnswered(t *testing.T) {
	for _, late := range []bool{false, true} { // the worker had been sent the restored
		s := restored(t)
		s.on(ResetNeeded{Stream: 2, Code: protocol.CodeTruncated}, "take back", "send 1 reset s/0 1 truncated planes")
		if late {
			s.on(s.from(protocol.Ready{Re: 2, Task: "s/0", Epoch: 1})) // does not count
		}
		s.on(s.from(protocol.Opened{Re: 3, Task: "s/0", Epoch: 1}), `restore s/0 planes from "" to 0`)
		s.on(Reached{Stream: 2}, "in-stream restored s/0 1")
		s.on(s.from(protocol.Ready{Re: 4, Task: "s/0", Epoch: 1}), "feed s/0 10")
	}
}

func TestRecordsWaitForTheReadyAfterAReset(t *testing.T) {
	s := restored(t)
	s.on(s.from(protocol.Ready{Re: 2, Task: "s/0", Epoch: 1}), "feed s/0 10")
	s.on(ResetNeeded{Stream: 2, Code: protocol.CodeTruncated}, "pause", "send 1 reset s/0 1 truncated planes")
	s.on(s.from(protocol.Opened{Re: 3, Task: "s/0", Epoch: 1}), `restore s/0 planes from "" to 0`)
	s.on(Reached{Stream: 2}, "in-stream restored s/0 1")
	s.on(ResetNeeded{Stream: 2, Code: protocol.CodeTruncated}, "pause", "take back", "send 1 reset s/0 1 truncated planes")
	s.on(s.from(protocol.Ready{Re: 4, Task: "s/0", Epoch: 1}))
	s.on(s.from(protocol.Opened{Re: 5, Task: "s/0", Epoch: 1}), `restore s/0 planes from "" to 0`)
	s.on(Reached{Stream: 2}, "in-stream restored s/0 1")
	s.on(s.from(protocol.Ready{Re: 6, Task: "s/0", Epoch: 1}), "resume")
}

func TestRecordsWaitWhileAGlobalTableIsOpenedAnew(t *testing.T) {
	s := newScript(t)
	s.on(Connected{Conn: 1, Hello: protocol.Hello{ID: 1}}, "send 1 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 1, Prepared: joinTables}, "join", "send 1 assign g/0 1")
	s.on(s.from(protocol.Opened{Re: 1, Task: "g/0", Epoch: 1}), `restore g/0 g from "" to 0`)
	s.on(Reached{Stream: 1}, "in-stream restored g/0 1")
	s.on(s.from(protocol.Ready{Re: 2, Task: "g/0", Epoch: 1}))
	s.on(Assigned{Generation: 1, MemberID: "m", Active: []TaskID{task0, task1}}, "take over s/0", "take over s/1")
	run := func(task TaskID, epoch uint32, id int64, table uint32, feed string) {
		t.Helper()
		name := task.String()
		s.on(s.took(task, map[string]int64{"in": 10}, nil), "send 1 assign "+name+" "+string('0'+rune(epoch)))
		s.on(s.from(protocol.Opened{Re: id, Task: name, Epoch: epoch}), "restore "+name+` planes from "" to 0`)
		s.on(Reached{Stream: table}, "in-stream restored "+name+" "+string('0'+rune(epoch)))
		s.on(s.from(protocol.Ready{Re: id + 1, Task: name, Epoch: epoch}), feed)
	}
	run(task0, 2, 3, 3, "feed s/0 10")
	s.on(s.from(protocol.Error{Code: protocol.CodeOffsetMismatch, Task: "g/0", Epoch: 1}), "pause", "send 1 lost g/0 1 offset_mismatch")
	run(task1, 3, 5, 5, "feed s/1 10 paused")
	s.now = s.now.Add(simConfig.WorkerGrace)
	s.on(Tick{}, "send 1 assign g/0 4")
	s.on(s.from(protocol.Opened{Re: 7, Task: "g/0", Epoch: 4}), `restore g/0 g from "" to 0`)
	s.on(Reached{Stream: 6}, "in-stream restored g/0 4")
	s.on(s.from(protocol.Ready{Re: 8, Task: "g/0", Epoch: 4}), "resume", "resume")
}
