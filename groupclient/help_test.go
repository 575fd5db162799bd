package groupclient

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// event is one call of the Handler.
type event struct {
	what    string // assigned, rebalancing, lost, fatal, waiting
	code    string
	text    string
	at      time.Time
	given   Assignment
	failure error
}

// recorder is a Handler that keeps what it hears.
type recorder struct {
	mu     sync.Mutex
	events []event
	news   chan struct{}
	react  func(event) // called from Run's goroutine
}

func newRecorder() *recorder { return &recorder{news: make(chan struct{}, 1)} }

func (r *recorder) add(e event) {
	e.at = time.Now()
	r.mu.Lock()
	r.events = append(r.events, e)
	react := r.react
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default:
	}
	if react != nil {
		react(e)
	}
}

func (r *recorder) Assigned(a Assignment)       { r.add(event{what: "assigned", given: a}) }
func (r *recorder) Rebalancing()                { r.add(event{what: "rebalancing"}) }
func (r *recorder) Lost(code string, err error) { r.add(event{what: "lost", code: code, failure: err}) }
func (r *recorder) Fatal(err error)             { r.add(event{what: "fatal", failure: err}) }
func (r *recorder) Waiting(code, message string) {
	r.add(event{what: "waiting", code: code, text: message})
}

func (r *recorder) all() []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

func (r *recorder) has(what string) bool {
	return slices.ContainsFunc(r.all(), func(e event) bool { return e.what == what })
}

// last is the newest event of a kind.
func (r *recorder) last(t testing.TB, what string) event {
	t.Helper()
	events := r.all()
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].what == what {
			return events[i]
		}
	}
	t.Fatalf("no %q among %v", what, events)
	return event{}
}

// until waits for the newest events to be as wanted.
func (r *recorder) until(t testing.TB, what string, done func(events []event) bool) []event {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	for {
		if events := r.all(); done(events) {
			return events
		}
		select {
		case <-r.news:
		case <-deadline.C:
			t.Fatalf("waited in vain for %s; events: %+v", what, r.all())
		}
	}
}

// assigned waits until the newest assignment has these tasks.
func (r *recorder) assigned(t testing.TB, what string, done func(Assignment) bool) Assignment {
	t.Helper()
	events := r.until(t, what, func(events []event) bool {
		for i := len(events) - 1; i >= 0; i-- {
			if events[i].what == "assigned" {
				return done(events[i].given)
			}
		}
		return false
	})
	for i := len(events) - 1; ; i-- {
		if events[i].what == "assigned" {
			return events[i].given
		}
	}
}

func orders(partitions int32) Prepared {
	return Prepared{Group: "g", Sets: []PreparedSet{{
		Name: "orders", Sources: []string{"orders"}, Partitions: partitions,
		Tables: []PreparedTable{{Name: "counts", Topic: "g-counts-changelog"}},
	}}}
}

func tasks(set string, partitions ...int32) []Task { return tasksOf(set, partitions) }

// bench is a model with its members on a fake clock.
type bench struct {
	t     *testing.T
	model *model
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, model: newModel()}
	b.model.topic("orders", 4, 1)
	b.model.topic("g-counts-changelog", 4, 2)
	return b
}

type member struct {
	*Group
	*recorder
	stop func()
}

// start runs a member until the test's end, or stop.
func (b *bench) start(change ...func(*Config)) *member {
	cfg := Config{Group: "g"}
	for _, c := range change {
		c(&cfg)
	}
	m := &member{recorder: newRecorder()}
	m.Group = newGroup(cfg, b.model, m.recorder)
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	m.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("Run: %v", err)
		}
	})
	b.t.Cleanup(m.stop)
	return m
}

// onFakeClock runs a test in a bubble. Members have to be stopped inside of it.
func onFakeClock(t *testing.T, run func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		run(t, b)
	})
}

// pass lets the clock run.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *recorder) string() string {
	var s string
	for _, e := range r.all() {
		s += fmt.Sprintf("%s %s %s %v %v\n", e.what, e.code, e.text, e.given, e.failure)
	}
	return s
}
