package session

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// handRestorer gives replays that the test works by hand.
type handRestorer struct{ started []*handReplay }

type handReplay struct {
	e    StartRestore
	gate *gate.Gate

	stopped bool
	finish  int64
	records int64
	lag     int64
}

func (h *handRestorer) Start(e StartRestore, g *gate.Gate) Replay {
	r := &handReplay{e: e, gate: g}
	h.started = append(h.started, r)
	return r
}

func (h *handRestorer) last() *handReplay { return h.started[len(h.started)-1] }

func (r *handReplay) Stop()              { r.stopped = true }
func (r *handReplay) FinishAt(end int64) { r.finish = end }
func (r *handReplay) Records() int64     { return r.records }
func (r *handReplay) Lag() int64         { return r.lag }

// send sends a frame of no records.
func (r *handReplay) send(t *testing.T, base, next int64, checkpoint string) {
	t.Helper()
	b := frame.NewBuilder(frame.Restore)
	b.Reset(r.e.Table.Stream, r.e.Epoch, base)
	if err := r.gate.Send(t.Context(), r.e.Table.Stream, b.Finish(nil, next, []byte(checkpoint))); err != nil {
		t.Fatal(err)
	}
}

// byHand is a Runner whose effects the test carries out.
func byHand(t *testing.T) (*Runner, *handRestorer, *markConn) {
	t.Helper()
	r, err := NewRunner(simConfig, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	h := &handRestorer{}
	c := &markConn{fakeConn: newFakeConn()}
	r.ports.Restorer, r.conns[1] = h, c
	return r, h, c
}

// INVARIANT: a table of a new epoch goes on behind the last frame of the former one that was queued.
func TestANewEpochGoesOnWhereTheFormerOneIs(t *testing.T) {
	r, h, c := byHand(t)
	do := func(list ...Effect) {
		for _, e := range list {
			r.carryOut(t.Context(), e)
		}
	}
	restoreOf := func(stream uint32, checkpoint string, from uint32) StartRestore {
		return StartRestore{Conn: 1, Table: protocol.TableStream{Stream: stream}, Checkpoint: checkpoint, From: from}
	}
	do(OpenStream{Conn: 1, Stream: 1, Epoch: 1}, restoreOf(1, "opened", 0))
	do(OpenStream{Conn: 1, Stream: 2, Epoch: 2}, restoreOf(2, "", 1))
	if got := h.last().e.Checkpoint; got != "opened" {
		t.Errorf("without a frame it goes on from %q", got)
	}
	h.last().send(t, 0, 5, "at 5")
	former := h.last()
	do(OpenStream{Conn: 1, Stream: 3, Epoch: 3}, restoreOf(3, "", 2))
	if got := h.last().e.Checkpoint; got != "at 5" || !former.stopped || !former.gate.Live() {
		t.Errorf("after a frame from %q, stopped %v, the frame goes out %v", got, former.stopped, former.gate.Live())
	}
	do(OpenStream{Conn: 1, Stream: 4, Epoch: 4}, restoreOf(4, "committed", 3))
	if got := h.last().e.Checkpoint; got != "committed" {
		t.Errorf("after a commit from %q", got)
	}
	do(OpenStream{Conn: 1, Stream: 5, Epoch: 5}, KeepPlace{Stream: 5, From: 4}, OpenStream{Conn: 1, Stream: 6, Epoch: 6}, restoreOf(6, "", 5))
	if got := h.last().e.Checkpoint; got != "committed" {
		t.Errorf("after an epoch without a replay from %q", got)
	}
	if len(c.frames) != 1 {
		t.Errorf("%d frames", len(c.frames))
	}
}

func TestWhatACopyReplaysIsCountedFromTheTakeOver(t *testing.T) {
	r, h, _ := byHand(t)
	do := func(e Effect) { r.carryOut(t.Context(), e) }
	do(OpenStream{Conn: 1, Stream: 1, Epoch: 1})
	do(StartRestore{Conn: 1, Table: protocol.TableStream{Stream: 1}, Copy: true})
	h.last().records = 100
	r.count([]uint32{1, 9})
	do(FinishRestore{Stream: 1, End: 120})
	if h.last().finish != 120 {
		t.Errorf("it ends at %d", h.last().finish)
	}
	if got := r.informed(Reached{Stream: 1, End: 120, Records: 117}).(Reached); got.Records != 17 {
		t.Errorf("%+v", got)
	}
}

func TestTheLagOfACopyIsThatOfItsWorstTable(t *testing.T) {
	r, h, _ := byHand(t)
	for stream := range uint32(3) {
		r.carryOut(t.Context(), OpenStream{Conn: 1, Stream: stream + 1, Epoch: 1})
		r.carryOut(t.Context(), StartRestore{Conn: 1, Table: protocol.TableStream{Stream: stream + 1}, Copy: true})
	}
	r.copies.Store(&[]copied{
		{task: task0, streams: []uint32{1, 2}}, {task: task1, streams: []uint32{3}}, {task: TaskID{Set: "k"}, whole: true, kept: true},
		{task: TaskID{Set: "i"}},
	})
	h.started[0].lag, h.started[1].lag, h.started[2].lag = 3, 8, -1
	got := r.Copies()
	for i, want := range []int64{8, -1, 0, -1} {
		if got[i].Lag != want || got[i].Kept != (i == 2) {
			t.Errorf("%+v, want lag %d", got[i], want)
		}
	}
}

func TestAnActiveThatDeliveredMoreThanIsCommittedOwesIt(t *testing.T) {
	r, _, _ := byHand(t)
	id := TaskID{Set: "s"}
	r.machine.tasks[id] = &task{id: id, sources: []protocol.SourceStream{{Topic: "in", Stream: 1}}, positions: map[string]int64{"in": 10}}
	r.carryOut(t.Context(), OpenStream{Conn: 1, Stream: 1, Epoch: 1})
	for _, c := range []struct {
		next int64
		owes bool
	}{{9, false}, {10, true}} {
		b := frame.NewBuilder(frame.Records)
		b.Reset(1, 1, c.next)
		b.Append(c.next, 0, nil, nil, nil)
		if err := r.lanes[1].gate.Send(t.Context(), 1, b.Finish(nil, c.next+1, nil)); err != nil {
			t.Fatal(err)
		}
		if got := r.informed(Assigned{}).(Assigned).Uncommitted[id]; got != c.owes {
			t.Errorf("after record %d: %v", c.next, got)
		}
	}
}

// INVARIANT: no record goes out between the look at what was delivered and the demotion.
func TestRecordsWaitWhileItIsDecidedWhetherTheirTaskIsDemoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, c := byHand(t)
		id := TaskID{Set: "s"}
		r.machine.tasks[id] = &task{id: id, state: Running, sources: []protocol.SourceStream{{Topic: "in", Stream: 1}}}
		r.carryOut(t.Context(), OpenStream{Conn: 1, Stream: 1, Epoch: 1})
		send := func() error {
			b := frame.NewBuilder(frame.Records)
			b.Reset(1, 1, 10)
			b.Append(10, 0, nil, nil, nil)
			return r.lanes[1].gate.Send(t.Context(), 1, b.Finish(nil, 11, nil))
		}
		r.informed(member(1, []TaskID{id}, []TaskID{id}))
		if err := send(); err != nil || len(c.frames) != 1 {
			t.Errorf("of a task that stays the active: %v, %d frames", err, len(c.frames))
		}
		r.informed(member(2, nil, []TaskID{id}))
		sent := make(chan error, 1)
		go func() { sent <- send() }()
		synctest.Wait()
		if len(c.frames) != 1 {
			t.Error("a record went out that nobody has looked at")
		}
		r.carryOut(t.Context(), CloseStream{Stream: 1})
		if err := <-sent; !errors.Is(err, gate.ErrClosed) {
			t.Error(err)
		}
	})
}

// To open many tasks costs no look at every other one for each.
func BenchmarkOpen(b *testing.B) {
	wide := oneTable
	var all []TaskID
	for p := range int32(10_000) {
		all = append(all, TaskID{Set: "s", Partition: p})
	}
	now := time.Unix(1000, 0)
	for b.Loop() {
		m, err := NewMachine(simConfig)
		if err != nil {
			b.Fatal(err)
		}
		for _, ev := range []Event{Connected{Conn: 1, Hello: protocol.Hello{ID: 1}}, PreparedOK{Conn: 1, Prepared: wide}, member(1, all, nil)} {
			if _, err := m.Step(now, ev); err != nil {
				b.Fatal(err)
			}
		}
	}
}
