package session

import (
	"context"
	"encoding/binary"
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeConn is a worker connection that keeps what it is sent.
type fakeConn struct {
	mu     sync.Mutex
	credit *gate.Credit
	frames [][]byte
	sent   chan protocol.Message
	closed chan int
	freed  chan *protocol.Writes
}

func newFakeConn() *fakeConn {
	c := &fakeConn{sent: make(chan protocol.Message, 100), closed: make(chan int, 10), freed: make(chan *protocol.Writes, 10)}
	c.credit = gate.NewCredit(c, 1<<20, 1<<20)
	return c
}

func (c *fakeConn) Enqueue(_ *gate.Gate, _ uint32, f []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frames = append(c.frames, f)
}

func (c *fakeConn) Send(m protocol.Message)                       { c.sent <- m }
func (c *fakeConn) SendInStream(_ *gate.Gate, m protocol.Message) { c.sent <- m }
func (c *fakeConn) Credit() *gate.Credit                          { return c.credit }
func (c *fakeConn) OpenStream(stream uint32, _ bool)              { c.credit.Open(stream) }
func (c *fakeConn) CloseStream(stream uint32)                     { c.credit.Forget(stream) }
func (c *fakeConn) CommitDone(w *protocol.Writes)                 { c.freed <- w }
func (c *fakeConn) Close(code int, _ string)                      { c.closed <- code }
func (c *fakeConn) Owes() bool                                    { return false }

// expect takes the next message of type M.
func expect[M protocol.Message](t *testing.T, c *fakeConn) M {
	t.Helper()
	for {
		select {
		case m := <-c.sent:
			if want, ok := m.(M); ok {
				return want
			}
		case <-time.After(10 * time.Second):
			var want M
			t.Fatalf("no %s came", want.Type())
		}
	}
}

// fakeKafka is every port; its steps end at once.
type fakeKafka struct {
	runner *Runner
	feeds  chan *gate.Gate
	stops  chan uint32
	commit error
	gone   error // of Confirm
}

func (k *fakeKafka) Prepare(context.Context, string, protocol.Hello) (Prepared, error) {
	return oneTable, nil
}

func (k *fakeKafka) Join(Prepared) {
	k.runner.Post(Assigned{Generation: 1, MemberID: "m", Active: []TaskID{task0}})
}
func (k *fakeKafka) Release([]TaskID) {}
func (k *fakeKafka) Drain()           {}
func (k *fakeKafka) TakeOver(context.Context, TaskID) (TakeOver, error) {
	return TakeOver{Positions: map[string]int64{"in": 10}, Ends: map[string]int64{"t": 0}}, nil
}
func (k *fakeKafka) Confirm(context.Context, TaskID) error                  { return k.gone }
func (k *fakeKafka) Commit(context.Context, TaskID, map[string]int64) error { return k.commit }
func (k *fakeKafka) CommitReleased(context.Context, TaskID, map[string]int64) error {
	return nil
}
func (k *fakeKafka) Leave(context.Context) error { return nil }

type fakeRestorer struct{ *fakeKafka }

func (k fakeRestorer) Start(e StartRestore, _ *gate.Gate) Replay {
	k.runner.Post(Reached{Stream: e.Table.Stream, End: e.End})
	return fakeReplay{k.runner, e.Table.Stream}
}

// fakeReplay is always at every end.
type fakeReplay struct {
	runner *Runner
	stream uint32
}

func (fakeReplay) Stop()              {}
func (fakeReplay) Records() int64     { return 0 }
func (fakeReplay) Lag() int64         { return 0 }
func (r fakeReplay) FinishAt(n int64) { r.runner.Post(Reached{Stream: r.stream, End: n}) }

type fakeFeeder struct{ *fakeKafka }

func (k fakeFeeder) Start(e StartFeed, g *gate.Gate) func() {
	k.feeds <- g
	return func() { k.stops <- e.Source.Stream }
}

func (k *fakeKafka) Produce(context.Context, []StreamWrites) (map[string]Landed, error) {
	return map[string]Landed{"t": {Checkpoint: "v1:x"}}, nil
}

func (k *fakeKafka) Transact(ctx context.Context, _ TaskID, writes []StreamWrites, _ map[string]int64) (map[string]Landed, error) {
	return k.Produce(ctx, writes)
}

func TestRunnerCarriesATaskFromHelloToDrain(t *testing.T) {
	for _, guarantee := range []string{protocol.AtLeastOnce, protocol.ExactlyOnce} {
		t.Run(guarantee, func(t *testing.T) { fromHelloToDrain(t, guarantee) })
	}
}

func fromHelloToDrain(t *testing.T, guarantee string) {
	cfg := simConfig
	cfg.Guarantee = guarantee
	r, err := NewRunner(cfg, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	k := &fakeKafka{runner: r, feeds: make(chan *gate.Gate, 1), stops: make(chan uint32, 1)}
	done := make(chan error, 1)
	go func() {
		done <- r.Run(t.Context(), Ports{Group: k, Restorer: fakeRestorer{k}, Feeder: fakeFeeder{k}, Producer: k})
	}()
	c := newFakeConn()
	r.Attach(1, c, protocol.Hello{ID: 1, MaxFrame: 1 << 20})
	expect[protocol.Welcome](t, c)
	assign := expect[protocol.Assign](t, c)
	say := func(m protocol.Message, w *protocol.Writes) { r.Post(Received{Conn: 1, Message: m, Writes: w}) }
	say(protocol.Opened{Re: assign.ID, Task: assign.Task, Epoch: assign.Epoch}, nil)
	restored := expect[protocol.Restored](t, c)
	say(protocol.Ready{Re: restored.ID, Task: assign.Task, Epoch: assign.Epoch}, nil)

	feed := <-k.feeds
	source := assign.Sources[0].Stream
	frame := make([]byte, 48)
	binary.LittleEndian.PutUint64(frame[24:], 20)
	if err := feed.Send(t.Context(), source, frame); err != nil {
		t.Fatal(err)
	}
	if got := r.Delivered(source); got != 20 {
		t.Errorf("delivered up to %d, want 20", got)
	}
	w := &protocol.Writes{ID: 1}
	say(protocol.Commit{ID: 1, Task: assign.Task, Epoch: assign.Epoch, SourceNext: map[string]int64{"in": 20}}, w)
	expect[protocol.Committed](t, c)
	if got := <-c.freed; got != w {
		t.Error("the buffer of the commit was not given back")
	}
	say(protocol.Commit{ID: 2, Task: assign.Task, Epoch: assign.Epoch, SourceNext: map[string]int64{"in": 21}}, nil)
	if a := expect[protocol.Aborted](t, c); a.Code != protocol.CodeBadPosition {
		t.Errorf("a position past what was delivered is answered with %+v", a)
	}
	expect[protocol.Lost](t, c) // from here on nothing of the epoch goes out
	if err := feed.Send(t.Context(), source, frame); !errors.Is(err, gate.ErrClosed) {
		t.Errorf("the gate of the lost epoch says %v", err)
	}
	<-k.stops
	expect[protocol.Assign](t, c) // opened anew

	r.Post(Drain{})
	revoke := expect[protocol.Revoke](t, c)
	say(protocol.Released{Re: revoke.ID, Task: revoke.Task, Epoch: revoke.Epoch}, nil)
	if code := <-c.closed; code != protocol.CloseDrained {
		t.Errorf("closed with %d, want %d", code, protocol.CloseDrained)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s := r.Status(); !reflect.DeepEqual(s.Tasks, map[string]int{}) || s.Member != "" {
		t.Errorf("after the drain: %+v", s)
	}
}

// joinsAtOnce asks for the copies when a task is let go, as a group does that joins again at once.
type joinsAtOnce struct {
	*fakeKafka
	told chan []Copy
}

func (g joinsAtOnce) Release([]TaskID) { g.told <- g.runner.Copies() }

func TestAStoreThatIsKeptIsTheGroupsToTellWhenItsTaskIsLetGo(t *testing.T) {
	r, err := NewRunner(simConfig, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	k := &fakeKafka{runner: r, feeds: make(chan *gate.Gate, 1), stops: make(chan uint32, 1)}
	g := joinsAtOnce{k, make(chan []Copy, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- r.Run(ctx, Ports{Group: g, Restorer: fakeRestorer{k}, Feeder: fakeFeeder{k}, Producer: k})
	}()
	c := newFakeConn()
	r.Attach(1, c, protocol.Hello{ID: 1, MaxFrame: 1 << 20})
	assign := expect[protocol.Assign](t, c)
	say := func(m protocol.Message) { r.Post(Received{Conn: 1, Message: m}) }
	say(protocol.Opened{Re: assign.ID, Task: assign.Task, Epoch: assign.Epoch})
	restored := expect[protocol.Restored](t, c)
	say(protocol.Ready{Re: restored.ID, Task: assign.Task, Epoch: assign.Epoch})
	<-k.feeds
	r.Post(Assigned{Generation: 2, MemberID: "m"})
	revoke := expect[protocol.Revoke](t, c)
	say(protocol.Released{Re: revoke.ID, Task: revoke.Task, Epoch: revoke.Epoch})
	if got := <-g.told; !reflect.DeepEqual(got, []Copy{{Task: task0, Kept: true}}) {
		t.Errorf("told %+v", got)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestRunnerEndsWithTheContextAndWaitsForItsSteps(t *testing.T) {
	r, err := NewRunner(simConfig, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	entered := make(chan struct{})
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, Ports{Group: slowGroup{entered: entered}}) }()
	if err := r.Alive(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Attach(1, newFakeConn(), protocol.Hello{ID: 1})
	<-entered
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// slowGroup is stuck in Prepare until its context ends.
type slowGroup struct {
	Group
	entered chan struct{}
}

func (g slowGroup) Prepare(ctx context.Context, _ string, _ protocol.Hello) (Prepared, error) {
	close(g.entered)
	<-ctx.Done()
	return Prepared{}, ctx.Err()
}
