package session

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/protocol"
)

func newTestRunner(t *testing.T) *Runner {
	t.Helper()
	r, err := NewRunner(simConfig, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// INVARIANT: what the worker has sent does not pile up.
func TestAWorkerThatSendsFasterThanTheLoopTurnsWaits(t *testing.T) {
	r := newTestRunner(t)
	const all = 10 * maxOffered
	progress := Received{Conn: 1, Message: protocol.Progress{}}
	var sender sync.WaitGroup
	sender.Go(func() {
		for range all {
			r.Offer(progress)
		}
	})
	for taken := 0; taken < all; {
		<-r.arrived
		n := len(r.take())
		if n > maxOffered {
			t.Fatalf("%d events waited", n)
		}
		taken += n
	}
	sender.Wait()
}

func TestNobodyWaitsForALoopThatHasEnded(t *testing.T) {
	r := newTestRunner(t)
	var sender sync.WaitGroup
	sender.Go(func() {
		for range 2 * maxOffered {
			r.Offer(Received{Conn: 1, Message: protocol.Progress{}})
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Run(ctx, Ports{}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	sender.Wait()
}

func TestSignsOfLifeAreSaidOnce(t *testing.T) {
	r := newTestRunner(t)
	for _, conn := range []ConnID{1, 1, 1, 2, 1} {
		r.Offer(Active{Conn: conn})
	}
	if got := r.take(); len(got) != 3 {
		t.Errorf("%v", got)
	}
}

// markConn keeps the gate that a message in the stream was sent with.
type markConn struct {
	*fakeConn
	marks []*gate.Gate
}

func (c *markConn) SendInStream(g *gate.Gate, _ protocol.Message) { c.marks = append(c.marks, g) }

func TestAMessageInTheStreamIsTakenBackWithoutItsFrames(t *testing.T) {
	r := newTestRunner(t)
	c := &markConn{fakeConn: newFakeConn()}
	r.conns[1] = c
	do := func(e Effect) { r.carryOut(t.Context(), e) }
	do(OpenStream{Conn: 1, Stream: 5, Epoch: 1})
	do(SendInStream{Conn: 1, Stream: 5, Message: protocol.Restored{}})
	do(DropInStream{Stream: 5})
	if c.marks[0].Live() || !r.lanes[5].gate.Live() {
		t.Error("taking back a message does something else")
	}
	do(SendInStream{Conn: 1, Stream: 5, Message: protocol.Restored{}})
	if !c.marks[1].Live() {
		t.Error("the next message is dropped")
	}
	do(CloseStream{Stream: 5}) // whatever its reason
	if c.marks[1].Live() {
		t.Error("a message outlives its stream")
	}
	do(SendInStream{Conn: 1, Stream: 5, Message: protocol.Restored{}})
	do(ForgetStream{Stream: 5})
	do(DropInStream{Stream: 5})
	if len(c.marks) != 2 || len(r.lanes) != 0 {
		t.Errorf("%d messages, lanes %v", len(c.marks), r.lanes)
	}
}

// Whoever cannot become the worker is known before it takes the place of another.
func TestVetKnowsTheGroupAndTheDrain(t *testing.T) {
	cfg := simConfig
	cfg.Group = ""
	r, err := NewRunner(cfg, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	first := protocol.Hello{ID: 1, Group: "g"}
	for _, c := range []struct {
		hello protocol.Hello
		event Event
		close int
	}{
		{protocol.Hello{}, Connected{Conn: 1, Hello: first}, protocol.CloseRefused}, // no group is named
		{first, PreparedOK{Conn: 1, Prepared: oneTable}, 0},
		{protocol.Hello{Group: "other"}, nil, protocol.CloseRefused},
		{first, Drain{}, 0},
		{first, nil, protocol.CloseDrained},
	} {
		got := 0
		if no := r.Vet(c.hello); no != nil {
			got = no.Close
		}
		if got != c.close {
			t.Fatalf("%+v is closed with %d, want %d", c.hello, got, c.close)
		}
		if c.event != nil {
			if _, err := r.machine.Step(r.now(), c.event); err != nil {
				t.Fatal(err)
			}
			status := r.machine.Status()
			r.status.Store(&status)
		}
	}
}
