package session

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/pillion/pillion/protocol"
)

// doubtful is a producer whose writes may land later.
type doubtful struct{ ended chan struct{} }

func (d doubtful) Produce(context.Context, []StreamWrites) (map[string]Landed, error) {
	return nil, &UnknownError{Code: protocol.CodeKafkaUnreachable, Err: errors.New("no answer"), Ended: d.ended}
}

func (d doubtful) Transact(ctx context.Context, _ TaskID, writes []StreamWrites, _ map[string]int64) (map[string]Landed, error) {
	return d.Produce(ctx, writes)
}

func TestAProduceInDoubtIsAnsweredAtOnceAndEndsLater(t *testing.T) {
	r, err := NewRunner(simConfig, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	d := doubtful{ended: make(chan struct{})}
	r.ports.Group, r.ports.Producer = &fakeKafka{}, d
	unknown := Produced{Task: task0, Op: 7, InDoubt: true,
		Result: Result{Outcome: Unknown, Code: protocol.CodeKafkaUnreachable, Message: "outcome unknown: no answer"}}
	end := func(ctx context.Context, stop func()) {
		t.Helper()
		last := make(chan Event, 1)
		go func() { last <- r.produce(ctx, Produce{Task: task0, Op: 7}) }()
		<-r.arrived
		if got := r.take(); !reflect.DeepEqual(got, []Event{unknown}) {
			t.Errorf("at once: %+v", got)
		}
		stop()
		if got := <-last; got != (ProduceEnded{Op: 7}) {
			t.Errorf("at the end: %+v", got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	end(ctx, cancel) // the sidecar ends first
	end(t.Context(), func() { close(d.ended) })

	unknown.InDoubt = false // by now
	if got := r.produce(t.Context(), Produce{Task: task0, Op: 7}); !reflect.DeepEqual(got, unknown) {
		t.Errorf("got %+v", got)
	}
}

// doubted is a session whose commit may still land.
func doubted(t *testing.T) (*script, ProduceEnded) {
	s := running(t)
	s.on(s.commit(1, 1, 20, true), "produce s/0")
	doubt := s.produced(task0, Result{Outcome: Unknown, Code: protocol.CodeKafkaUnreachable})
	doubt.InDoubt = true
	s.on(doubt, "send 1 unknown s/0 1 1 kafka_unreachable", "send 1 lost s/0 1 commit_failed")
	return s, ProduceEnded{Op: doubt.Op}
}

// Writes that land after the ends of the tables were captured would be in Kafka and in no store.
func TestATaskIsNotOpenedWhileWritesOfItMayStillLand(t *testing.T) {
	s, ended := doubted(t)
	s.on(Assigned{Generation: 2, MemberID: "m", Active: []TaskID{task0, task1}}, "take over s/1")
	s.on(ended, "take over s/0")
}

func TestATaskIsNotHandedOnWhileWritesOfItMayStillLand(t *testing.T) {
	s, ended := doubted(t)
	s.on(Assigned{Generation: 2, MemberID: "m"})
	s.on(ended, "release s/0 map[in:10]")

	s, _ = doubted(t) // who leaves does not wait: all other tasks would
	s.on(Drain{}, "drain the group", "release s/0 map[in:10]")
}
