package groupclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pillion/pillion/internal/groupmodel"
	"github.com/pillion/pillion/internal/kafka"
)

// The simulated groups under exactly once: members commit by transactions, and give take-overs up at any moment.
//
// INVARIANT: each transaction that is committed goes on where the last one of its task ended, whoever made it; and
// nobody fences a member that is in the group and has not lost its membership.

var (
	errFenced  = errors.New("47")
	errGaveUp  = errors.New("given up")
	errUnknown = errors.New("it is not known how the transaction ended")
)

// transactional is what a worker needs beside a group: the producer of its incarnation.
type transactional struct {
	turn     chan struct{} // one transaction at a time
	sim      *simulation
	gaveUp   atomic.Int64 // take-overs
	unknowns atomic.Int64 // transactions whose end the worker was not told
}

// exactlyOnce makes a worker of a simulation one of exactly once.
func (s *simulation) exactlyOnce(declared Prepared) *worker {
	w := idleWorker(s.rnd.Uint64())
	x := &transactional{turn: make(chan struct{}, 1), sim: s}
	w.line = &line{model: s.model}
	w.Group = newGroup(Config{Group: "g", Guarantee: ExactlyOnce, Begin: func(ctx context.Context, incarnation string) error {
		if err := w.line.ok(); err != nil {
			return err
		}
		s.model.set(func() { s.model.initialise(TransactionalID("g", incarnation)) })
		return nil
	}}, w.line, w)
	w.transact = func(ctx context.Context, t Task, position int64) error { return x.commit(ctx, w, t, position) }
	w.Group.steps = slices.Clone(takeOverSteps)
	for i, step := range takeOverSteps {
		w.Group.steps[i].do = func(o *taking, ctx context.Context) error {
			if !sleep(ctx, time.Duration(s.chance(int64(100*time.Millisecond)))) {
				return ctx.Err()
			}
			if s.chance(25) == 0 {
				x.gaveUp.Add(1)
				return errGaveUp
			}
			return step.do(o, ctx)
		}
	}
	w.busy.Go(func() { _ = w.Run(w.ctx) })
	w.Join(declared)
	s.model.set(func() { s.workers = append(s.workers, w) })
	return w
}

// chance is a random number below n, from any goroutine.
func (s *simulation) chance(n int64) int64 {
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	return s.dice.Int64N(n)
}

// commit is one transaction with one position.
func (x *transactional) commit(ctx context.Context, w *worker, t Task, position int64) error {
	select {
	case x.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-x.turn }()
	at, err := w.Transactional(t, map[string]int64{"orders": position})
	if err != nil {
		return err
	}
	p := &producer{x.sim.model, TransactionalID("g", at.Incarnation), 0}
	tps := tp("orders", at.Partition)
	for w.line.cut.Load() { // the producer goes on asking until it is answered
		if !sleep(w.ctx, 50*time.Millisecond) {
			return w.ctx.Err()
		}
	}
	a, err := x.sim.model.ask(w.ctx, groupmodel.TxnOffsetCommit{Transaction: p.id, Member: at.Member, Generation: at.Generation})
	if err != nil {
		return err
	}
	_, _ = x.sim.model.ask(w.ctx, groupmodel.EndTxn{Transaction: p.id})
	switch a.Code {
	case 0:
	case groupmodel.IllegalGeneration, groupmodel.Rebalancing:
		w.hurry()
		return ErrRebalancing
	case groupmodel.CoordinatorLoading, groupmodel.NotCoordinator, groupmodel.CoordinatorAway:
		return ErrRebalancing
	default:
		w.hurry()
		return ErrLost
	}
	if code := p.commitOffset(tps, committed{position, at.Metadata}); code != 0 {
		w.Fenced(at.Incarnation, errFenced)
		return ErrLost
	}
	if !sleep(w.ctx, time.Duration(x.sim.chance(int64(300*time.Millisecond)))) {
		return w.ctx.Err() // killed in the middle
	}
	for w.line.cut.Load() {
		if !sleep(w.ctx, 50*time.Millisecond) {
			return w.ctx.Err()
		}
	}
	if code := p.commit(); code != 0 {
		w.Fenced(at.Incarnation, errFenced)
		return ErrLost
	}
	if x.sim.chance(8) == 0 { // the answer was lost: whoever asks Kafka learns it
		x.unknowns.Add(1)
		return errUnknown
	}
	w.Transacted(t, map[string]int64{"orders": position}, at.Incarnation)
	return nil
}

// fencedAlive is called, under the model's mutex, when somebody initialises a transactional id of another.
func (s *simulation) fencedAlive(id string) {
	for i, w := range s.workers {
		incarnation, member := w.standing()
		if TransactionalID("g", incarnation) == id && s.model.group.Has(member) {
			s.ledger.errs = append(s.ledger.errs, fmt.Sprintf("worker %d (%s) is alive, and was fenced", i, member))
		}
	}
}

// standing is who a worker is; "" when its membership is over.
func (w *worker) standing() (incarnation, member string) {
	w.Group.mu.Lock()
	defer w.Group.mu.Unlock()
	if w.identity.generation < 0 || w.fenced != nil {
		return "", ""
	}
	return w.identity.incarnation, w.identity.member
}

func simulateExactlyOnce(t *testing.T, seed uint64) (moves, fences int) {
	s := newSimulation(t, seed)
	s.exactly, s.dice = true, rand.New(rand.NewPCG(seed, 6))
	begun := map[string]bool{}
	s.model.initHook = func(id string) {
		if !begun[id] { // its owner's own
			begun[id] = true
			return
		}
		fences++
		s.fencedAlive(id)
	}
	s.model.marked = func(tp kafka.TopicPartition, c committed) {
		was := s.ledger.last[tp]
		parsed, _, _ := parseClaim(c.metadata)
		if was.incarnation != parsed.Incarnation || c.offset != was.offset+1 || was.released {
			s.ledger.errs = append(s.ledger.errs, fmt.Sprintf("%s: a transaction of %s commits %d, after %+v", tp, parsed.Incarnation, c.offset, was))
		}
		s.ledger.writes++
		s.ledger.last[tp] = entry{was.member, parsed.Incarnation, c.offset, false}
	}
	defer func() {
		for _, w := range s.workers {
			w.kill()
		}
	}()
	for range 25 {
		s.step()
		time.Sleep(time.Duration(s.chance(int64(4 * time.Second))))
	}
	s.grow()
	pass(60 * time.Second)
	if errs := s.settled(); len(errs) > 0 {
		t.Fatalf("seed %d: %v\nhistory: %v", seed, errs[:min(5, len(errs))], s.history)
	}
	return s.ledger.moves, fences
}

func TestSimulatedGroupsUnderExactlyOnce(t *testing.T) {
	moves, fences := 0, 0
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			m, f := simulateExactlyOnce(t, seed)
			moves, fences = moves+m, fences+f
		})
	}
	t.Logf("%d tasks changed their owner, %d fences", moves, fences)
	if moves == 0 || fences == 0 {
		t.Error("nothing has happened")
	}
}

// takeAnyway takes a task over, and now and then gives it up in the middle; then it tries again, or hands the task back.
func (w *worker) takeAnyway(ctx context.Context, t Task, at *assignedTask) (TakeOver, bool) {
	for {
		w.mu.Lock()
		again := w.again
		w.mu.Unlock()
		over, err := w.TakeOver(ctx, t)
		if err == nil {
			return over, true
		}
		if errors.Is(err, ErrLost) || ctx.Err() != nil {
			return TakeOver{}, false
		}
		select {
		case <-at.revoke: // never opened: there is nothing that the worker would have to finish
			w.mu.Lock()
			if w.open[t] == at {
				delete(w.open, t)
			}
			w.mu.Unlock()
			w.Release(t)
			return TakeOver{}, false
		case <-again:
		case <-ctx.Done():
			return TakeOver{}, false
		case <-time.After(500 * time.Millisecond):
		}
	}
}
