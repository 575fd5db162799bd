package session

import (
	"strings"
	"testing"
	"time"

	"github.com/pillion/pillion/protocol"
)

func TestADrainEndsThoughKafkaDoesNotAnswer(t *testing.T) {
	s := running(t)
	s.on(Drain{}, "drain the group", "send 1 revoke s/0 1 drain 20000")
	s.on(s.commit(1, 1, 20, true), "produce s/0")
	s.on(s.from(protocol.Released{Re: 3, Task: "s/0", Epoch: 1}))
	s.now = s.now.Add(20 * time.Second)
	s.on(Tick{}) // given up: what is left needs Kafka only
	s.now = s.now.Add(drainRest)
	effects, err := s.m.Step(s.now, Tick{})
	if err != nil || len(effects) != 1 || !strings.Contains(effects[0].(Stop).Err, "1 tasks are not handed over") {
		t.Fatalf("%v, %v", effects, err)
	}
}

func TestWorkersThatAreSentAwayDoNotLengthenTheGrace(t *testing.T) {
	s := running(t)
	s.on(Disconnected{Conn: 1})
	for i := range 9 {
		conn := ConnID(2 + i)
		s.now = s.now.Add(time.Second)
		if i%2 == 0 {
			effects, err := s.m.Step(s.now, Connected{Conn: conn, Hello: protocol.Hello{ID: 1, Sets: []protocol.Set{{Name: "a"}, {Name: "a"}}}})
			if err != nil || len(effects) == 0 {
				t.Fatal(effects, err)
			}
			s.on(Disconnected{Conn: conn})
			continue
		}
		_, _ = s.m.Step(s.now, Connected{Conn: conn, Hello: protocol.Hello{ID: 1}})
		_, _ = s.m.Step(s.now, PrepareFailed{Conn: conn, Code: protocol.CodeUnknownTopic, Message: "no topic"})
	}
	s.now = s.now.Add(time.Second)
	s.on(Tick{}, "release s/0 map[in:10]")
}

func TestATaskThatKeepsFailingIsOpenedLaterAndLater(t *testing.T) {
	s := running(t)
	var waits []time.Duration
	epoch, stream, id := uint32(1), uint32(2), int64(2)
	for range 8 {
		bad := s.commit(id, epoch, 5, false) // takes the position back
		if _, err := s.m.Step(s.now, bad); err != nil {
			t.Fatal(err)
		}
		task := s.m.tasks[task0]
		began := s.now
		for task.state == Parked {
			s.now = s.m.Deadline()
			_, _ = s.m.Step(s.now, Tick{})
		}
		waits = append(waits, s.now.Sub(began))
		epoch, stream, id = epoch+1, stream+2, id+2
		steps := []Event{
			TookOver{Task: task0, Op: task.op, TakeOver: TakeOver{Positions: map[string]int64{"in": 10}}},
			s.from(protocol.Opened{Re: id - 1, Task: "s/0", Epoch: epoch}), Reached{Stream: stream},
			s.from(protocol.Ready{Re: id, Task: "s/0", Epoch: epoch}),
		}
		for _, ev := range steps {
			if _, err := s.m.Step(s.now, ev); err != nil {
				t.Fatal(err)
			}
		}
		if task.state != Running {
			t.Fatalf("the task is %v", task.state)
		}
	}
	want := []time.Duration{0, 500, 1000, 2000, 4000, 8000, 10000, 10000}
	for i, w := range want {
		if waits[i] != w*time.Millisecond {
			t.Fatalf("waits %v, want %v ms", waits, want)
		}
	}
}

func TestAWorkerThatDoesNotListenToAnswersIsSentAway(t *testing.T) {
	s := running(t)
	s.on(s.commit(1, 1, 20, true), "produce s/0")
	for id := int64(2); id <= maxWaiting; id++ {
		s.on(s.commit(id, 1, 30, true))
	}
	s.on(s.commit(99, 1, 30, true), "send 1 error too_many_commits", "close 1 4400")
	s.on(Disconnected{Conn: 1})
	s.on(s.produced(task0, isOK), "positions s/0 map[in:20]") // it had arrived whole
	s.on(s.positioned(task0, isOK), "produce s/0")
	if got := s.m.tasks[task0].commits; len(got) != maxWaiting-1 || got[1].writes != nil || got[1].msg.SourceNext != nil {
		t.Errorf("%d commits wait, the second with %+v", len(got), got[1])
	}
}

func TestAnErrorInAnswerToARequestNeedsNoTask(t *testing.T) {
	s := newScript(t)
	s.on(Connected{Conn: 1, Hello: protocol.Hello{ID: 1}}, "send 1 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 1, Prepared: oneTable}, "join")
	s.on(Assigned{Generation: 1, MemberID: "m", Active: []TaskID{task0}}, "take over s/0")
	s.on(s.took(task0, map[string]int64{"in": 10}, map[string]int64{"t": 5}), "send 1 assign s/0 1")
	s.on(s.from(protocol.Error{Re: 7, Code: protocol.CodeInternal}))
	s.on(s.from(protocol.Error{Re: 1, Code: protocol.CodeNotAllowed}), "send 1 lost s/0 1 not_allowed")
}

func TestAWorkerCannotFloodTheLog(t *testing.T) {
	s := running(t)
	lines := 0
	for range 1000 {
		effects, err := s.m.Step(s.now, s.from(protocol.Error{Code: "x", Message: strings.Repeat("m", 10_000)}))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range effects {
			l, ok := e.(Log)
			if !ok {
				t.Fatalf("%T", e)
			}
			lines++
			for _, arg := range l.Args {
				if text, ok := arg.(string); ok && len(text) > 400 {
					t.Fatalf("%d bytes in a line", len(text))
				}
			}
		}
	}
	if lines != chatterBurst {
		t.Errorf("%d lines", lines)
	}
}

func TestRequestsAreCountedFromOneOnEachConnection(t *testing.T) {
	s := running(t)
	s.on(Connected{Conn: 2, Hello: protocol.Hello{ID: 1}}, "send 2 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 2, Prepared: oneTable}, "take over s/0")
	s.on(s.took(task0, map[string]int64{"in": 10}, map[string]int64{"t": 5}), "send 2 assign s/0 2")
	s.on(Received{Conn: 2, Message: protocol.Opened{Re: 1, Task: "s/0", Epoch: 2}}, `restore s/0 t from "" to 5`)
	s.on(Reached{Stream: 4}, "in-stream restored s/0 2")
	s.on(Received{Conn: 2, Message: protocol.Ready{Re: 2, Task: "s/0", Epoch: 2}}, "feed s/0 10")
}
