package transcripts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/produce"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/session"
)

// world is every port of the session: Kafka and the group as the transcript tells them. What takes
// time waits until the player says how it ends.
type world struct {
	t    *testing.T
	post func(session.Event)

	mu         sync.Mutex
	active     map[session.TaskID]bool
	standby    map[session.TaskID]bool
	leaving    map[session.TaskID]bool // taken away, not let go yet
	positions  map[session.TaskID]map[string]int64
	ends       map[session.TaskID]map[string]int64
	generation int32
	left       bool          // a join is to follow
	back       chan struct{} // closed: Kafka is there
	holders    object        // by task: active and standbys, as located has them
	stale      bool

	prepares chan chan error
	joins    chan session.Prepared
	produces chan *call
	commits  chan *call
	releases chan session.TaskID
	flows    chan *flow
	pumps    sync.WaitGroup
}

// call is a step of Kafka that waits for its end.
type call struct {
	task   session.TaskID
	next   map[string]int64
	writes []session.StreamWrites
	points map[string]string // of a produce
	end    chan error
}

// flow is a replay or a feed: what the player pushes goes through the gate that the session gave.
type flow struct {
	stream  uint32
	restore *session.StartRestore // nil: a feed
	gate    *gate.Gate
	frames  chan []byte
	reached bool
	end     int64
	finish  chan int64 // of a copy that is to end
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, active: map[session.TaskID]bool{}, standby: map[session.TaskID]bool{}, leaving: map[session.TaskID]bool{},
		positions: map[session.TaskID]map[string]int64{}, ends: map[session.TaskID]map[string]int64{}, back: make(chan struct{}),
		prepares: make(chan chan error, 9), joins: make(chan session.Prepared, 9), produces: make(chan *call, 9),
		commits: make(chan *call, 9), releases: make(chan session.TaskID, 9), flows: make(chan *flow, 99),
	}
	close(w.back)
	return w
}

func (w *world) Prepare(ctx context.Context, group string, h protocol.Hello) (session.Prepared, error) {
	end := make(chan error, 1)
	w.prepares <- end
	select {
	case err := <-end:
		return prepared(group, h), err
	case <-ctx.Done():
		return session.Prepared{}, ctx.Err()
	}
}

func prepared(group string, h protocol.Hello) session.Prepared {
	p := session.Prepared{Group: group, Outputs: h.Outputs}
	for _, s := range h.Sets {
		set := session.PreparedSet{Name: s.Name, Sources: s.Sources, Partitions: 8}
		for _, t := range s.Tables {
			table := session.PreparedTable{Name: t.Name, Topic: t.SourceTopic, Kind: protocol.TableSource}
			if t.SourceTopic == "" {
				table.Topic, table.Kind = cmp.Or(t.Changelog, group+"-"+t.Name+"-changelog"), protocol.TableChangelog
			}
			set.Tables = append(set.Tables, table)
		}
		p.Sets = append(p.Sets, set)
	}
	for _, g := range h.Globals {
		p.Globals = append(p.Globals, session.PreparedGlobal{Name: g.Name, Topic: g.Topic, Partitions: 2})
	}
	return p
}

func (w *world) Join(p session.Prepared) { w.joins <- p }

func (w *world) Release(tasks []session.TaskID) {
	for _, t := range tasks {
		w.releases <- t
	}
}

func (w *world) TakeOver(ctx context.Context, t session.TaskID) (session.TakeOver, error) {
	w.mu.Lock()
	back := w.back
	w.mu.Unlock()
	select {
	case <-back:
	case <-ctx.Done():
		return session.TakeOver{}, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return session.TakeOver{Positions: maps.Clone(w.positions[t]), Ends: maps.Clone(w.ends[t])}, nil
}

func (w *world) Commit(ctx context.Context, t session.TaskID, next map[string]int64) error {
	c := &call{task: t, next: next, end: make(chan error, 1)}
	w.commits <- c
	return c.wait(ctx)
}

func (w *world) Produce(ctx context.Context, writes []session.StreamWrites) (map[string]session.Landed, error) {
	c := &call{writes: writes, end: make(chan error, 1)}
	w.produces <- c
	err := c.wait(ctx)
	landed := map[string]session.Landed{}
	for table, point := range c.points {
		landed[table] = session.Landed{Checkpoint: point}
	}
	return landed, err
}

// Transact is in no transcript: to the worker the guarantees differ in nothing but which answers come when.
func (w *world) Transact(context.Context, session.TaskID, []session.StreamWrites, map[string]int64) (map[string]session.Landed, error) {
	return nil, errors.New("no transcript has a transaction")
}

func (c *call) wait(ctx context.Context) error {
	select {
	case err := <-c.end:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Locate tells what the transcript says of the group.
func (w *world) Locate(_ context.Context, ask session.Whereabouts) (protocol.Located, error) {
	partition := produce.KeyPartition(ask.Key, ask.Set.Partitions)
	if ask.Partition != nil {
		partition = *ask.Partition
	}
	task := session.TaskID{Set: ask.Set.Name, Partition: partition}
	w.mu.Lock()
	defer w.mu.Unlock()
	found := protocol.Located{Set: ask.Set.Name, Partition: partition, Task: task.String(), Stale: w.stale}
	if of := w.holders[task.String()]; of != nil {
		raw, err := json.Marshal(of)
		if err != nil {
			return found, err
		}
		return found, json.Unmarshal(raw, &found)
	}
	return found, nil
}

// CommitReleased must name the positions that were committed last.
func (w *world) Drain() {}

func (w *world) Confirm(context.Context, session.TaskID) error { return nil }

func (w *world) CommitReleased(_ context.Context, t session.TaskID, next map[string]int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !maps.Equal(next, w.positions[t]) {
		w.t.Errorf("%s is released at %v, its positions are %v", t, next, w.positions[t])
	}
	return nil
}

func (w *world) Leave(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = true
	clear(w.active)
	clear(w.standby)
	clear(w.leaving)
	return nil
}

type restorer struct{ *world }

func (w restorer) Start(e session.StartRestore, g *gate.Gate) session.Replay {
	w.mu.Lock()
	end := w.ends[e.Task][e.Table.Name]
	w.mu.Unlock()
	if e.Copy {
		end = session.NoEnd
	}
	if e.End != end || e.Follow != (e.Copy || e.Table.Kind != protocol.TableChangelog) {
		w.t.Errorf("the replay of %+v does not go to %d", e, end)
	}
	f := &flow{stream: e.Table.Stream, restore: &e, gate: g, end: e.End, finish: make(chan int64, 9)}
	return replay{f, w.start(f)}
}

// replay is a flow as the session knows it.
type replay struct {
	*flow
	stop func()
}

func (r replay) Stop()              { r.stop() }
func (r replay) FinishAt(end int64) { r.finish <- end }
func (replay) Records() int64       { return 0 }
func (replay) Lag() int64           { return 0 }

type feeder struct{ *world }

func (w feeder) Start(e session.StartFeed, g *gate.Gate) func() {
	return w.start(&flow{stream: e.Source.Stream, gate: g})
}

func (w *world) start(f *flow) func() {
	ctx, stop := context.WithCancel(context.Background())
	f.frames = make(chan []byte, 99)
	w.pumps.Go(func() {
		for {
			select {
			case b := <-f.frames:
				if f.gate.Send(ctx, f.stream, b) != nil {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	w.flows <- f
	return stop
}

// sync tells the session what a generation gives it.
func (w *world) sync() {
	w.mu.Lock()
	w.generation++
	ev := session.Assigned{Generation: w.generation, MemberID: "me", Active: slices.Collect(maps.Keys(w.active)), Standby: slices.Collect(maps.Keys(w.standby))}
	w.mu.Unlock()
	w.post(ev)
}

// is sets what the topics of a task hold; what is not named stays.
func (w *world) is(t session.TaskID, positions, ends map[string]int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.positions[t] == nil {
		w.positions[t], w.ends[t] = map[string]int64{}, map[string]int64{}
	}
	maps.Copy(w.positions[t], positions)
	maps.Copy(w.ends[t], ends)
}
