package feed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pillion/pillion/internal/fetch"
	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/protocol/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience = 60 * time.Second
	stream   = 3
)

// worker takes records and is the handler.
type worker struct {
	t      testing.TB
	credit *gate.Credit
	gate   *gate.Gate
	sent   chan int64
	ends   chan string

	mu      sync.Mutex
	records []string
	next    int64
}

func newWorker(t testing.TB) *worker {
	w := &worker{t: t, sent: make(chan int64, 1000), ends: make(chan string, 10), next: -1}
	w.credit = gate.NewCredit(w, 1<<50, 1<<50)
	w.credit.Open(stream)
	w.gate = gate.New(1, w.credit)
	return w
}

func (w *worker) Enqueue(_ *gate.Gate, _ uint32, b []byte) {
	f, err := frame.Parse(b)
	if err != nil || f.Kind != frame.Records || f.Stream != stream || f.Epoch != 1 {
		w.t.Errorf("frame %+v, %v", f, err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next >= 0 && f.Base != w.next {
		w.t.Errorf("a frame from %d after %d", f.Base, w.next)
	}
	w.next = f.Next
	for r := range f.Records {
		if r.Timestamp == frame.NoTimestamp {
			w.t.Error("a record without a timestamp")
		}
		w.records = append(w.records, fmt.Sprintf("%d:%s", r.Offset, r.Key))
	}
	w.sent <- f.Next
}

func (w *worker) LostPosition(_ Request, message string) { w.ends <- "lost: " + message }

func (w *worker) Failed(_ Request, err error) { w.ends <- "failed: " + err.Error() }

func (w *worker) until(next int64) {
	w.t.Helper()
	for deadline := time.After(patience); ; {
		select {
		case at := <-w.sent:
			if at >= next {
				return
			}
		case <-deadline:
			w.t.Fatalf("never came to %d", next)
		}
	}
}

func (w *worker) end() string {
	w.t.Helper()
	select {
	case e := <-w.ends:
		return e
	case <-time.After(patience):
		w.t.Fatal("never ended")
		return ""
	}
}

func (w *worker) request(topic string, position int64) Request {
	return Request{Task: "set/0", Epoch: 1, Topic: topic, Stream: stream, Position: position, MaxFrame: 1 << 20, Gate: w.gate}
}

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

func feeding(t testing.TB, addrs []string, h Handler) *Feeder {
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
	f, err := New(Config{Fetcher: fetcher, Handler: h})
	if err != nil {
		t.Fatal(err)
	}
	run(t, fetcher.Run)
	run(t, f.Run)
	return f
}

func records(from, to int) []kafkatest.Record {
	var out []kafkatest.Record
	for i := from; i < to; i++ {
		out = append(out, kafkatest.KV(fmt.Sprintf("k%d", i), "v"))
	}
	return out
}

func TestOnFake(t *testing.T) { testKafka(t, kafkatest.Fake(t).Addrs()) }

// testKafka is what must hold on every Kafka.
func testKafka(t *testing.T, addrs []string) {
	t.Run("feeds", func(t *testing.T) { testFeeds(t, addrs) })
	t.Run("lost", func(t *testing.T) { testLost(t, addrs) })
	t.Run("recreated", func(t *testing.T) { testRecreated(t, addrs) })
}

func testFeeds(t *testing.T, addrs []string) {
	kafkatest.CreateTopic(t, addrs, "feeds", 1, nil)
	kafkatest.Produce(t, addrs, "feeds", records(0, 100), kafkatest.InBatchesOf(7))
	w := newWorker(t)
	stop := feeding(t, addrs, w).Start(w.request("feeds", 40))
	w.until(100)
	kafkatest.Produce(t, addrs, "feeds", records(100, 120))
	w.until(120)
	stop()
	if len(w.records) != 80 || w.records[0] != "40:k40" || w.records[79] != "119:k119" {
		t.Errorf("%d records: %.200v", len(w.records), w.records)
	}
}

func testLost(t *testing.T, addrs []string) {
	kafkatest.CreateTopic(t, addrs, "lost", 1, nil)
	kafkatest.Produce(t, addrs, "lost", records(0, 10))
	kafkatest.DeleteRecords(t, addrs, "lost", 0, 5)
	w := newWorker(t)
	f := feeding(t, addrs, w)
	for _, position := range []int64{3, 11} {
		f.Start(w.request("lost", position))
		want := fmt.Sprintf("lost: task set/0, source lost/0, position %d: lost/0: position %[1]d is out of range, the log has 5 to 10", position)
		if e := w.end(); e != want {
			t.Errorf("position %d: %s", position, e)
		}
	}
	if len(w.records) != 0 {
		t.Errorf("records %v", w.records)
	}
}

func testRecreated(t *testing.T, addrs []string) {
	kafkatest.CreateTopic(t, addrs, "again", 1, nil)
	kafkatest.Produce(t, addrs, "again", records(0, 10))
	w := newWorker(t)
	r := w.request("again", 0)
	r.TopicID = kafkatest.TopicID(t, addrs, "again")
	f := feeding(t, addrs, w)
	f.Start(r)
	w.until(10)
	kafkatest.DeleteTopic(t, addrs, "again")
	kafkatest.CreateTopic(t, addrs, "again", 1, nil)
	if e := w.end(); !strings.Contains(e, "lost: task set/0, source again/0, position 0: topic again was deleted and created again") {
		t.Errorf("%s", e)
	}
}

func TestGateHoldsBack(t *testing.T) {
	fake := kafkatest.Fake(t)
	fake.Topic(t, "in", 1, nil)
	kafkatest.Produce(t, fake.Addrs(), "in", records(0, 10))
	w := newWorker(t)
	w.gate.Pause()
	f := feeding(t, fake.Addrs(), w)
	f.Start(w.request("in", 0))
	w.gate.Resume()
	w.until(10)
	w.gate.Close() // ends the request without a word
	kafkatest.Produce(t, fake.Addrs(), "in", records(10, 20))
	w.gate = gate.New(1, w.credit)
	w.next = -1
	f.Start(w.request("in", 10))
	w.until(20)
}

// stuck is a fetcher that stops a partition while it is being added.
type stuck struct{ err error }

func (s stuck) Add(p fetch.Partition) func() {
	p.Sink.Stopped(s.err)
	return func() {}
}

func TestEnds(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{fetch.ErrStopped, ""},
		{nil, ""},
		{&fetch.TruncatedError{Topic: "in", Position: 9, LastEpoch: 4, EndEpoch: 3, EndOffset: 7}, "lost: task set/0, source in/0, position 0: " +
			"in/0: position 9 was read in leader epoch 4, which now ends at 7 (epoch 3): the log was truncated"},
		{errors.New("odd"), "failed: reading task set/0, source in/0, position 0: odd"},
	} {
		w := newWorker(t)
		f, err := New(Config{Fetcher: stuck{c.err}, Handler: w})
		if err != nil {
			t.Fatal(err)
		}
		early := f.Start(w.request("in", 0)) // stopped before Run
		early()
		run(t, f.Run)
		f.Start(w.request("in", 0))
		if c.want != "" {
			if got := w.end(); got != c.want {
				t.Errorf("%v: %s", c.err, got)
			}
		}
		if len(w.ends) != 0 {
			t.Errorf("%v: %s", c.err, <-w.ends)
		}
	}
}
