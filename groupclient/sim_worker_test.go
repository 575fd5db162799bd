package groupclient

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

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

	transact func(ctx context.Context, t Task, position int64) error // a commit under exactly once; nil: at least once

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

func (w *worker) Rebalancing() {}

func (w *worker) Fatal(err error) { panic(err) }

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

// reopened opens a task anew after a commit whose end is not known, unless it is to be released: the release finds
// out.
func (at *assignedTask) reopened(take func() bool) bool {
	select {
	case <-at.revoke:
		return true
	default:
		return take()
	}
}

// work is the life of a task: taken over, committed, and after a revoke released.
func (w *worker) work(ctx context.Context, t Task, at *assignedTask, every, linger time.Duration) {
	var position int64
	take := func() bool {
		var over TakeOver
		ok := false
		if w.transact != nil {
			over, ok = w.takeAnyway(ctx, t, at)
		} else {
			ok = w.persist(ctx, func() (err error) {
				over, err = w.TakeOver(ctx, t)
				return err
			})
		}
		position = over.Positions["orders"]
		return ok
	}
	if !take() {
		return
	}
	w.saw(t, position, true)
	commit := func() bool {
		position++
		if w.transact != nil {
			unknown := false
			ok := w.persist(ctx, func() error {
				err := w.transact(ctx, t, position)
				unknown = errors.Is(err, errUnknown)
				return err
			})
			return ok || unknown && at.reopened(take)
		}
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
