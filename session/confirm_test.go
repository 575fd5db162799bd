package session

import (
	"context"
	"errors"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// INVARIANT: nothing is written for a task that the group does not confirm.
func TestRunnerWritesNothingThatIsNotConfirmed(t *testing.T) {
	r, err := NewRunner(simConfig, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	k := &fakeKafka{runner: r, feeds: make(chan *gate.Gate, 1), stops: make(chan uint32, 1), gone: errors.New("who are you")}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- r.Run(ctx, Ports{Group: k, Restorer: fakeRestorer{k}, Feeder: fakeFeeder{k}}) // no Producer
	}()
	c := newFakeConn()
	r.Attach(1, c, protocol.Hello{ID: 1, MaxFrame: 1 << 20})
	assign := expect[protocol.Assign](t, c)
	say := func(m protocol.Message, w *protocol.Writes) { r.Post(Received{Conn: 1, Message: m, Writes: w}) }
	say(protocol.Opened{Re: assign.ID, Task: assign.Task, Epoch: assign.Epoch}, nil)
	restored := expect[protocol.Restored](t, c)
	say(protocol.Ready{Re: restored.ID, Task: assign.Task, Epoch: assign.Epoch}, nil)
	<-k.feeds
	b := frame.NewBuilder(frame.Writes)
	b.Reset(assign.Tables[0].Stream, assign.Epoch, 1)
	b.Append(0, 0, []byte("k"), []byte("v"), nil)
	w := &protocol.Writes{ID: 1, Frames: [][]byte{b.Finish(nil, 0, nil)}}
	say(protocol.Commit{ID: 1, Task: assign.Task, Epoch: assign.Epoch, SourceNext: map[string]int64{"in": 10}}, w)
	if a := expect[protocol.Aborted](t, c); a.Code != protocol.CodeFenced || a.Message != "nothing was written: who are you" {
		t.Errorf("answered with %+v", a)
	}
	<-k.stops
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
