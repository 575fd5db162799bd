package groupclient

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
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

// simulation is one seeded history of a group.
type simulation struct {
	t       *testing.T
	rnd     *rand.Rand
	model   *model
	ledger  *ledger
	workers []*worker
	history []string
	warm    bool // tasks move to copies that are warm

	exactly bool       // members commit by transactions
	dice    *rand.Rand // of their goroutines; under the model's mutex
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
	if s.exactly {
		s.exactlyOnce(declared)
		return
	}
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
