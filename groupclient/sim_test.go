package groupclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
)

// A seeded simulation of a group: members come, die, leave, lose their connection, and hand tasks
// over at their own pace, while the model checks every commit that it accepts.
//
// INVARIANT: a task changes its owner only when the old one has released it or is out of the group,
// and the new one starts where the old one has committed last.

// ledger checks accepted commits.
type ledger struct {
	last   map[kafka.TopicPartition]entry
	errs   []string
	moves  int
	writes int
}

type entry struct {
	member, incarnation string
	offset              int64
	released            bool
}

func (l *ledger) accept(m *model, tp kafka.TopicPartition, member string, offset int64, metadata string) {
	c, ok, err := parseClaim(metadata)
	if !ok || err != nil {
		l.errs = append(l.errs, fmt.Sprintf("%s: a commit without a claim: %q", tp, metadata))
		return
	}
	was, had := l.last[tp]
	switch {
	case !had:
	case was.incarnation == c.Incarnation:
		if offset < was.offset {
			l.errs = append(l.errs, fmt.Sprintf("%s: %s went back from %d to %d", tp, member, was.offset, offset))
		}
	default:
		l.moves++
		if !was.released && m.group.Has(was.member) {
			l.errs = append(l.errs, fmt.Sprintf("%s: %s took over from %s, which is alive and has not released it", tp, member, was.member))
		}
		if offset != was.offset {
			l.errs = append(l.errs, fmt.Sprintf("%s: %s starts at %d, not at %d", tp, member, offset, was.offset))
		}
	}
	l.writes++
	l.last[tp] = entry{member, c.Incarnation, offset, c.Released}
}

// line is one member's connection, which can be cut.
type line struct {
	*model
	cut atomic.Bool
}

func (l *line) ok() error {
	if l.cut.Load() {
		return errDown
	}
	return nil
}

func (l *line) Coordinator(ctx context.Context, kind kafka.CoordinatorKind, key string) (int32, error) {
	if err := l.ok(); err != nil {
		return -1, err
	}
	return l.model.Coordinator(ctx, kind, key)
}

func (l *line) Do(ctx context.Context, node int32, req kmsg.Request) (kmsg.Response, error) {
	if err := l.ok(); err != nil {
		return nil, err
	}
	resp, err := l.model.Do(ctx, node, req)
	if cut := l.ok(); cut != nil {
		return nil, cut // the answer is lost
	}
	return resp, err
}

func (l *line) ToGroup(ctx context.Context, _ string, req kmsg.Request) (kmsg.Response, error) {
	return l.Do(ctx, 0, req)
}

// worker is a member with as much of a session as the group needs.
type worker struct {
	*Group
	line   *line
	rnd    *rand.Rand
	ctx    context.Context
	cancel context.CancelFunc
	busy   sync.WaitGroup
	leads  atomic.Bool  // the newest generation
	losses atomic.Int32 // of the membership
	every  time.Duration
	linger time.Duration                              // at most, before a revoked task is released
	saw    func(t Task, position int64, started bool) // a take-over or a commit has succeeded; may be nil

	mu    sync.Mutex
	again chan struct{}          // closed at each assignment
	open  map[Task]*assignedTask // being taken over, worked on, or released
}

type assignedTask struct {
	revoke chan struct{}
	cancel context.CancelFunc
	once   sync.Once
}

func newWorker(m *model, seed uint64, declared Prepared) *worker {
	w := idleWorker(seed)
	w.line = &line{model: m}
	w.Group = newGroup(Config{Group: "g"}, w.line, w)
	w.busy.Go(func() { _ = w.Run(w.ctx) })
	w.Join(declared)
	return w
}

func idleWorker(seed uint64) *worker {
	w := &worker{
		rnd: rand.New(rand.NewPCG(seed, 5)), again: make(chan struct{}), open: map[Task]*assignedTask{},
		every: time.Second, linger: 3 * time.Second, saw: func(Task, int64, bool) {},
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// kill ends the process without a word.
func (w *worker) kill() {
	w.cancel()
	w.busy.Wait()
}

func (w *worker) Assigned(a Assignment) {
	w.leads.Store(a.Leader)
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.again)
	w.again = make(chan struct{})
	for _, t := range a.Active {
		if w.open[t] == nil {
			w.start(t)
		}
	}
	for _, t := range w.Owned() {
		if at := w.open[t]; at != nil && !slices.Contains(a.Active, t) {
			at.once.Do(func() { close(at.revoke) })
		}
	}
}

func (w *worker) Lost(string, error) {
	w.losses.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	for t, at := range w.open {
		at.cancel()
		delete(w.open, t)
	}
}

func (w *worker) Rebalancing()           {}
func (w *worker) Fatal(err error)        { panic(err) }
func (w *worker) Waiting(string, string) {}

func (w *worker) random(most time.Duration) time.Duration {
	return time.Duration(w.rnd.Int64N(int64(most)))
}

// start needs w.mu.
func (w *worker) start(t Task) {
	ctx, cancel := context.WithCancel(w.ctx)
	at := &assignedTask{revoke: make(chan struct{}), cancel: cancel}
	w.open[t] = at
	every, linger := 100*time.Millisecond+w.random(w.every), w.random(w.linger)
	w.busy.Go(func() {
		defer cancel()
		w.work(ctx, t, at, every, linger)
	})
}

// work is the life of a task: taken over, committed, and after a revoke released.
func (w *worker) work(ctx context.Context, t Task, at *assignedTask, every, linger time.Duration) {
	var position int64
	if !w.persist(ctx, func() error {
		over, err := w.TakeOver(ctx, t)
		position = over.Positions["orders"]
		return err
	}) {
		return
	}
	w.saw(t, position, true)
	commit := func() bool {
		position++
		if !w.persist(ctx, func() error { return w.Commit(ctx, t, map[string]int64{"orders": position}) }) {
			return false
		}
		w.saw(t, position, false)
		return true
	}
	for revoked := false; !revoked; {
		select {
		case <-at.revoke:
			revoked = true
		case <-ctx.Done():
			return
		case <-time.After(every):
			if !commit() {
				return
			}
		}
	}
	if !sleep(ctx, linger) || !commit() || !w.persist(ctx, func() error { return w.CommitReleased(ctx, t, nil) }) {
		return
	}
	w.mu.Lock()
	if w.open[t] == at {
		delete(w.open, t)
	}
	w.mu.Unlock()
	w.Release(t)
}

// drain lets go of one task after the other, and gives up on a connection that is cut.
func (w *worker) drain() {
	w.Drain()
	w.mu.Lock()
	for _, at := range w.open {
		at.once.Do(func() { close(at.revoke) })
	}
	w.mu.Unlock()
	for range 100 {
		w.mu.Lock()
		left := len(w.open)
		w.mu.Unlock()
		if left == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// persist repeats after a rebalance. False: the task is over.
func (w *worker) persist(ctx context.Context, do func() error) bool {
	for {
		w.mu.Lock()
		again := w.again
		w.mu.Unlock()
		err := do()
		if err == nil {
			return true
		}
		if !errors.Is(err, ErrRebalancing) {
			return false
		}
		select {
		case <-again:
		case <-ctx.Done():
			return false
		}
	}
}

// simulation is one seeded history of a group.
type simulation struct {
	t       *testing.T
	rnd     *rand.Rand
	model   *model
	ledger  *ledger
	workers []*worker
	history []string
	warm    bool // tasks move to copies that are warm
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	s := &simulation{t: t, rnd: rand.New(rand.NewPCG(seed, 4)), model: newModel(), ledger: &ledger{last: map[kafka.TopicPartition]entry{}}}
	s.model.topic("orders", 8, 1)
	s.model.topic("g-counts-changelog", 8, 2)
	s.model.last["orders"] = 1 << 40
	s.model.accepted = func(tp kafka.TopicPartition, member string, offset int64, metadata string) {
		s.ledger.accept(s.model, tp, member, offset, metadata)
	}
	return s
}

func (s *simulation) note(format string, args ...any) {
	s.history = append(s.history, fmt.Sprintf(format, args...))
}

func (s *simulation) grow() {
	s.join(orders(8))
}

func (s *simulation) join(declared Prepared) {
	s.note("join")
	if s.warm {
		s.warmer(declared, newDisk(time.Duration(s.rnd.Int64N(int64(8*time.Second)))))
		return
	}
	w := newWorker(s.model, s.rnd.Uint64(), declared)
	s.model.set(func() { s.workers = append(s.workers, w) }) // the model's hooks read them
}

// step is one thing that happens to the group.
func (s *simulation) step() {
	what := s.rnd.IntN(9)
	if len(s.workers) == 0 || what < 2 && len(s.workers) < 6 {
		s.grow()
		return
	}
	i := s.rnd.IntN(len(s.workers))
	w := s.workers[i]
	switch what {
	case 6:
		loading := time.Duration(s.rnd.Int64N(int64(3 * time.Second)))
		s.note("the coordinator moves, loading %s", loading)
		s.move(loading)
	case 7:
		s.note("drain %d", i)
		w.drain()
		_ = w.Leave(s.t.Context())
		w.kill()
		s.workers = slices.Delete(s.workers, i, i+1)
	case 2, 3:
		s.note("end %d, leaving: %v", i, what == 3)
		if what == 3 {
			_ = w.Leave(s.t.Context()) // a cut connection may forbid it
		}
		w.kill()
		s.workers = slices.Delete(s.workers, i, i+1)
	case 4:
		cut := time.Duration(s.rnd.Int64N(int64(20 * time.Second)))
		s.note("cut %d for %s", i, cut)
		w.line.cut.Store(true)
		w.busy.Go(func() { sleep(w.ctx, cut); w.line.cut.Store(false) })
	}
}

// settled checks a group that was left alone for a while: each task has one owner, who works.
func (s *simulation) settled() (errs []string) {
	s.model.mu.Lock()
	errs, before := slices.Clone(s.ledger.errs), s.ledger.writes
	s.model.mu.Unlock()
	pass(10 * time.Second)
	var last map[kafka.TopicPartition]entry
	var writes int
	s.model.set(func() { last, writes = maps.Clone(s.ledger.last), s.ledger.writes })
	owned := map[Task]int{}
	for i, w := range s.workers {
		for _, task := range w.Owned() {
			owned[task]++
			if last[tp("orders", task.Partition)].incarnation != w.Incarnation() {
				errs = append(errs, fmt.Sprintf("%s is owned by %d and worked on by another", task, i))
			}
		}
	}
	for p := range int32(8) {
		if n := owned[Task{"orders", p}]; n != 1 {
			errs = append(errs, fmt.Sprintf("task %d has %d owners at the end", p, n))
		}
	}
	if writes <= before {
		errs = append(errs, "no progress at the end")
	}
	return errs
}

func simulate(t *testing.T, seed uint64) (moves int) {
	s := newSimulation(t, seed)
	s.warm = seed%2 == 1
	defer func() {
		for _, w := range s.workers {
			w.kill()
		}
	}()
	for range 25 {
		s.step()
		time.Sleep(time.Duration(s.rnd.Int64N(int64(4 * time.Second))))
	}
	s.grow()
	pass(60 * time.Second)
	if errs := s.settled(); len(errs) > 0 {
		t.Fatalf("seed %d: %v\nhistory: %v", seed, errs[:min(5, len(errs))], s.history)
	}
	return s.ledger.moves
}

func TestSimulatedGroups(t *testing.T) {
	moves := 0
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) { moves += simulate(t, seed) })
	}
	t.Logf("%d tasks changed their owner", moves)
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
