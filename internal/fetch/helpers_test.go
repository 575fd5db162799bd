package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/protocol/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 60 * time.Second

// collector is a sink that keeps everything, and checks what every sink may rely on.
type collector struct {
	t testing.TB

	mu       sync.Mutex
	changed  chan struct{}
	records  []kafkatest.Record
	frames   []*frame.Frame
	pos      Position
	progress []Position
	stopped  bool
	err      error
	gate     chan struct{} // not nil: Frame waits for it to be closed
	refuse   error
}

func newCollector(t testing.TB) *collector {
	return &collector{t: t, changed: make(chan struct{}), pos: Position{Next: -1}}
}

func (c *collector) update(fn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fn()
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *collector) Frame(ctx context.Context, b []byte, p Position) error {
	f, err := frame.Parse(b)
	if err != nil {
		c.t.Errorf("a frame that cannot be parsed: %v", err)
		return err
	}
	c.mu.Lock()
	gate := c.gate
	c.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c.update(func() {
		if c.stopped {
			c.t.Error("a frame after Stopped")
		}
		if c.pos.Next >= 0 && f.Base != c.pos.Next {
			c.t.Errorf("a frame with base %d after position %d", f.Base, c.pos.Next)
		}
		if f.Next != p.Next || f.Next <= f.Base {
			c.t.Errorf("a frame from %d to %d with position %d", f.Base, f.Next, p.Next)
		}
		c.pos = p
		c.frames = append(c.frames, f)
		for r := range f.Records {
			c.records = append(c.records, toRecord(f, r))
		}
		err = c.refuse
	})
	return err
}

func toRecord(f *frame.Frame, r frame.Record) kafkatest.Record {
	out := kafkatest.Record{Offset: r.Offset, Key: r.Key, Value: r.Value, LogAppendTime: f.Has(frame.FlagLogAppendTime)}
	if f.Has(frame.FlagTimestamps) {
		out.Timestamp = time.UnixMilli(r.Timestamp)
	}
	for k, v := range frame.Headers(r.Headers) {
		out.Headers = append(out.Headers, kafkatest.Header{Key: string(k), Value: v})
	}
	return out
}

func (c *collector) Progress(p Position) {
	c.update(func() {
		if c.pos.Next >= 0 && p.Next != c.pos.Next {
			c.t.Errorf("progress at %d after position %d", p.Next, c.pos.Next)
		}
		c.progress = append(c.progress, p)
	})
}

func (c *collector) Stopped(err error) {
	c.update(func() {
		if c.stopped {
			c.t.Error("Stopped twice")
		}
		c.stopped, c.err = true, err
	})
}

// until waits for a state.
func (c *collector) until(what string, done func() bool) {
	c.t.Helper()
	deadline := time.After(patience)
	for {
		c.mu.Lock()
		ok, changed, stopped, err := done(), c.changed, c.stopped, c.err
		c.mu.Unlock()
		if ok {
			return
		}
		if stopped {
			c.t.Fatalf("stopped (%v) before: %s", err, what)
		}
		select {
		case <-changed:
		case <-deadline:
			c.t.Fatalf("waited too long for: %s (position %+v, %d records)", what, c.pos, len(c.records))
		}
	}
}

// end waits for Stopped.
func (c *collector) end() error {
	c.t.Helper()
	c.until("stopped", func() bool { return c.stopped })
	return c.err
}

// running makes a fetcher that runs until the test ends.
func running(t testing.TB, addrs []string, change func(*Config)) *Fetcher {
	t.Helper()
	client, err := kafka.New(kafka.Config{Bootstrap: addrs, MetadataMaxAge: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Client: client, MaxWait: 100 * time.Millisecond}
	if change != nil {
		change(&cfg)
	}
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	run(t, f)
	t.Cleanup(client.Close) // before run's, which is first to be called
	return f
}

// run runs a fetcher until the test ends.
func run(t testing.TB, f *Fetcher) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if held := f.room.held(); held != 0 {
			t.Errorf("%d bytes of the room are still held", held)
		}
	})
}

// part is a partition as most tests want it.
func part(topic string, partition int32, sink Sink) Partition {
	return Partition{
		Topic: topic, Partition: partition, LastEpoch: -1, Until: -1, Kind: frame.Records,
		Stream: 7, Epoch: 3, Timestamps: true, Headers: true, MaxFrame: 128 << 20, Sink: sink,
	}
}

// same compares records, and tells the first difference.
func same(t testing.TB, got, want []kafkatest.Record) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if d := differ(got[i], want[i]); d != "" {
			t.Fatalf("record %d of %d: %s", i, len(want), d)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
}

func differ(got, want kafkatest.Record) string {
	equal := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	headers := func(a, b kafkatest.Header) bool { return a.Key == b.Key && equal(a.Value, b.Value) }
	switch {
	case got.Offset != want.Offset:
		return fmt.Sprintf("offset %d, want %d", got.Offset, want.Offset)
	case !equal(got.Key, want.Key):
		return fmt.Sprintf("offset %d: key %q (nil %v), want %q", got.Offset, got.Key, got.Key == nil, want.Key)
	case !equal(got.Value, want.Value):
		return fmt.Sprintf("offset %d: value %.40q (nil %v), want %.40q", got.Offset, got.Value, got.Value == nil, want.Value)
	case got.Timestamp.UnixMilli() != want.Timestamp.UnixMilli():
		return fmt.Sprintf("offset %d: time %v, want %v", got.Offset, got.Timestamp, want.Timestamp)
	case got.LogAppendTime != want.LogAppendTime:
		return fmt.Sprintf("offset %d: log append time %v", got.Offset, got.LogAppendTime)
	case !slices.EqualFunc(got.Headers, want.Headers, headers):
		return fmt.Sprintf("offset %d: headers %v, want %v", got.Offset, got.Headers, want.Headers)
	}
	return ""
}

// as gives the error as a type, or fails.
func as[E error](t testing.TB, err error) E {
	t.Helper()
	var e E
	if !errors.As(err, &e) {
		t.Fatalf("got %T (%v), want %T", err, err, e)
	}
	return e
}
