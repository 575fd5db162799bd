package restore

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pillion/pillion/internal/fetch"
	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 60 * time.Second

// event is one call of the handler.
type event struct {
	what  string // reached, reset, failed
	code  string
	at    string
	start int64
	err   error
	next  int64 // position of the store when the call came

	end, records int64 // of reached
}

// worker is the store of one stream and the handler of its request.
type worker struct {
	t      testing.TB
	credit *gate.Credit
	gate   *gate.Gate
	events chan event

	mu         sync.Mutex
	changed    chan struct{}
	rows       map[string]string
	records    int
	empty      int // frames without records
	next       int64
	checkpoint string
	progress   []Progress
}

const stream = 7

func newWorker(t testing.TB) *worker {
	w := &worker{t: t, events: make(chan event, 100), changed: make(chan struct{}), rows: map[string]string{}, next: -1}
	w.credit = gate.NewCredit(w, 1<<50, 1<<50)
	w.credit.Open(stream)
	w.gate = gate.New(1, w.credit)
	return w
}

// reopen gives the worker a new epoch; the store stays.
func (w *worker) reopen() {
	w.gate.Close()
	w.gate = gate.New(1, w.credit)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next, w.records, w.empty = -1, 0, 0
}

func (w *worker) wipe() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rows, w.checkpoint = map[string]string{}, ""
}

func (w *worker) request(topic string, kind Kind, end int64) Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Request{Task: "set/0", Epoch: 1, Table: "t", Stream: stream, Topic: topic, Kind: kind, Checkpoint: w.checkpoint, End: end, MaxFrame: 1 << 20, Gate: w.gate}
}

// Enqueue applies a frame as the client's store does.
func (w *worker) Enqueue(_ *gate.Gate, _ uint32, b []byte) {
	f, err := frame.Parse(b)
	if err != nil {
		w.t.Errorf("a frame that cannot be parsed: %v", err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next >= 0 && f.Base != w.next {
		w.t.Errorf("a frame from %d after position %d", f.Base, w.next)
	}
	c, err := ParseCheckpoint(string(f.Checkpoint()))
	if err != nil || c.Next != f.Next {
		w.t.Errorf("frame up to %d with checkpoint %+v, %v", f.Next, c, err)
	}
	for r := range f.Records {
		if w.records++; r.Value == nil {
			delete(w.rows, string(r.Key))
		} else {
			w.rows[string(r.Key)] = string(r.Value)
		}
	}
	if f.Count == 0 {
		w.empty++
	}
	w.next, w.checkpoint = f.Next, string(f.Checkpoint())
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *worker) position() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next
}

func (w *worker) Reached(r Request, at string, records int64) {
	w.events <- event{what: "reached", at: at, next: w.position(), end: r.End, records: records}
}

func (w *worker) Reset(_ Request, code, message string, start int64) {
	w.events <- event{what: "reset", code: code, at: message, start: start}
}

func (w *worker) Failed(_ Request, err error) { w.events <- event{what: "failed", err: err} }

func (w *worker) Progress(_ Request, p Progress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.progress = append(w.progress, p)
	close(w.changed)
	w.changed = make(chan struct{})
}

// expect waits for the next event.
func (w *worker) expect(what string) event {
	w.t.Helper()
	select {
	case e := <-w.events:
		if e.what != what {
			w.t.Fatalf("%+v, want %s", e, what)
		}
		return e
	case <-time.After(patience):
		w.t.Fatalf("no %s", what)
	}
	panic("unreachable")
}

// until waits for a state of the store.
func (w *worker) until(what string, done func() bool) {
	w.t.Helper()
	deadline := time.After(patience)
	for {
		w.mu.Lock()
		ok, changed := done(), w.changed
		w.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			w.t.Fatalf("%s never came", what)
		}
	}
}

func (w *worker) holds(want map[string]string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if fmt.Sprint(w.rows) != fmt.Sprint(want) {
		w.t.Errorf("rows %v, want %v", w.rows, want)
	}
}

// run runs something until the test ends.
func run(t testing.TB, what func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- what(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// managed makes a manager over a real fetcher.
func managed(t testing.TB, addrs []string, h Handler, cfg Config) (*Manager, *kafka.Client) {
	t.Helper()
	client, err := kafka.New(kafka.Config{Bootstrap: addrs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	fetcher, err := fetch.New(fetch.Config{Client: client, FrameBytes: 1 << 10, MaxWait: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Client, cfg.Fetcher, cfg.Handler = client, fetcher, h
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	run(t, fetcher.Run)
	run(t, m.Run)
	return m, client
}
