package groupsim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/session"
)

// Settings of every sidecar, short so that a history is short.
const (
	sessionTimeout   = 6 * time.Second
	rebalanceTimeout = 6 * time.Second
	heartbeatEvery   = 1500 * time.Millisecond
	workerGrace      = 4 * time.Second
	revokeTimeout    = 3 * time.Second
	maxProcessing    = 8 * time.Second
	drainTimeout     = 6 * time.Second
)

// settleWithin is how long everything may take to come to rest when no fault is left: sessions of the dead
// end, two rebalances, a revoke, and the longest pause before something is tried again.
const settleWithin = 70 * time.Second

// Options of one run.
type Options struct {
	Seed   uint64
	Mutant Mutant
	Record bool // keep the history
}

// Outcome of one run. Err is empty when all invariants held.
type Outcome struct {
	Err     string
	History []string
	Tally   Tally
}

// Tally says what a run has seen, so that a test can tell that the runs see enough.
type Tally struct {
	Events, Generations, Moves, Commits, Repeats, Faults, Records, Promotions, Demotions, Unreleased, Refused, Warmups int
	Transactions, Fences, TimedOut, Aborted, Unknown, Fenced, SelfFenced                                               int
}

// Add sums tallies up.
func (t *Tally) Add(o Tally) {
	t.Events += o.Events
	t.Generations += o.Generations
	t.Moves += o.Moves
	t.Commits += o.Commits
	t.Repeats += o.Repeats
	t.Faults += o.Faults
	t.Records += o.Records
	t.Promotions += o.Promotions
	t.Demotions += o.Demotions
	t.Unreleased += o.Unreleased
	t.Refused += o.Refused
	t.Warmups += o.Warmups
	t.Transactions += o.Transactions
	t.Fences += o.Fences
	t.TimedOut += o.TimedOut
	t.Aborted += o.Aborted
	t.Unknown += o.Unknown
	t.Fenced += o.Fenced
	t.SelfFenced += o.SelfFenced
}

// World is one run.
type World struct {
	opt   Options
	rng   *rand.Rand
	now   time.Duration
	queue queue
	seq   uint64
	start time.Time

	kafka *kafka
	pairs []*pair
	tally Tally

	lives       int
	takeOvers   int64
	conns       int
	replicas    int
	warmups     int           // max_warmup_replicas
	exact       bool          // exactly_once
	renews      bool          // a transaction without an end is ended by a new epoch, and not by EndTxn once more
	endLimit    time.Duration // for which the end of a transaction may be without an answer until a commit is unknown
	copyPause   time.Duration // between two frames of a copy, at most
	drops       float64       // of requests or answers
	static      bool          // all members are static ones
	killPlanner bool          // the next leader dies in the middle of its plan
	calm        bool          // no faults any more
	history     []string
}

// broken ends a run: an invariant does not hold.
type broken struct{ why string }

func (w *World) fail(format string, args ...any) {
	panic(broken{fmt.Sprintf(format, args...)})
}

// note writes a line of the history. Callers ask recording first where arguments cost something.
func (w *World) note(format string, args ...any) {
	if w.opt.Record {
		w.history = append(w.history, fmt.Sprintf("%8.3fs ", w.now.Seconds())+fmt.Sprintf(format, args...))
	}
}

func (w *World) clock() time.Time { return w.start.Add(w.now) }

// between is a random time.
func (w *World) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.rng.Int64N(int64(most-least)+1))
}

func (w *World) chance(p float64) bool { return p > 0 && w.rng.Float64() < p }

// after calls do when the time has come. Calls for the same time keep their order.
func (w *World) after(d time.Duration, do func()) {
	w.seq++
	w.queue.push(entry{w.now + max(d, 0), w.seq, do})
}

// pass runs everything up to a time, or until done says so.
func (w *World) pass(until time.Duration, done func() bool) bool {
	for len(w.queue) > 0 && w.queue[0].at <= until {
		e := w.queue.pop()
		w.now = e.at
		w.tally.Events++
		if w.tally.Events > 400_000 {
			w.fail("the run does not end: something happens over and over")
		}
		e.do()
		if done != nil && done() {
			return true
		}
	}
	w.now = until
	return false
}

func newDice(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// Run makes one history from a seed, and checks all invariants on the way.
func Run(opt Options) (out Outcome) {
	w := &World{opt: opt, rng: newDice(opt.Seed), start: time.Unix(1_000_000, 0)}
	defer func() {
		out.Tally, out.History = w.tally, w.history
		switch r := recover().(type) {
		case nil:
		case broken:
			out.Err = fmt.Sprintf("at %.3fs: %s", w.now.Seconds(), r.why)
		default:
			panic(r)
		}
	}()
	w.exact = opt.Seed%2 == 0
	w.kafka = newKafka(w)
	w.replicas, w.warmups = w.rng.IntN(3), w.rng.IntN(3)
	w.static = w.chance(0.2)
	w.copyPause = []time.Duration{15 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second}[w.rng.IntN(3)]
	w.drops = []float64{0, 0.02, 0.1}[w.rng.IntN(3)]
	if w.exact {
		w.renews, w.endLimit = w.chance(0.5), []time.Duration{time.Second, 10 * time.Second}[w.rng.IntN(2)]
	}
	for range 2 + w.rng.IntN(2) {
		w.addPair()
	}
	w.faults()
	w.heal()
	w.rest()
	return out
}

// polled asks a costly question a few times a second.
func (w *World) polled(done func() bool) func() bool {
	var next time.Duration
	return func() bool {
		if w.now < next {
			return false
		}
		next = w.now + 400*time.Millisecond
		return done()
	}
}

func (w *World) machineConfig() session.Config {
	guarantee := protocol.AtLeastOnce
	if w.exact {
		guarantee = protocol.ExactlyOnce
	}
	return session.Config{
		Group: "g", Guarantee: guarantee, WorkerGrace: workerGrace, RevokeTimeout: revokeTimeout,
		MaxProcessing: maxProcessing, DrainTimeout: drainTimeout,
	}
}

// entry of the queue.
type entry struct {
	at  time.Duration
	seq uint64
	do  func()
}

// queue is a heap: what is due first is at 0.
type queue []entry

func (e entry) before(o entry) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

func (q *queue) push(e entry) {
	h := append(*q, e)
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
	*q = h
}

func (q *queue) pop() entry {
	h := *q
	top, last := h[0], len(h)-1
	h[0] = h[last]
	h[last] = entry{}
	h = h[:last]
	for i := 0; ; {
		low := 2*i + 1
		if low >= len(h) {
			break
		}
		if low+1 < len(h) && h[low+1].before(h[low]) {
			low++
		}
		if !h[low].before(h[i]) {
			break
		}
		h[i], h[low] = h[low], h[i]
		i = low
	}
	*q = h
	return top
}
