package produce

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/protocol/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limited is a context that ends a test which hangs.
func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func newClient(t testing.TB, addrs []string) *kafka.Client {
	t.Helper()
	c, err := kafka.New(kafka.Config{Bootstrap: addrs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// running makes a producer over a cluster and runs it until the test ends.
func running(t testing.TB, cfg Config, c cluster) *Producer {
	t.Helper()
	p, err := newProducer(cfg, c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return p
}

// rec is a record of a test; nil is null.
type rec struct {
	key, value []byte
	at         int64
	headers    []byte
}

func kv(key, value string) rec {
	return rec{key: []byte(key), value: []byte(value), at: frame.NoTimestamp}
}

// writes makes one writes frame.
func writes(records ...rec) []byte {
	b := frame.NewBuilder(frame.Writes)
	timestamps := false
	for _, r := range records {
		timestamps = timestamps || r.at != frame.NoTimestamp
	}
	b.WithTimestamps(timestamps)
	b.Reset(1, 1, 1)
	for i, r := range records {
		b.Append(int64(i), r.at, r.key, r.value, r.headers)
	}
	return b.Finish(nil, 0, nil)
}

func changelog(topic string, partition int32, frames ...[]byte) Write {
	return Write{Topic: topic, Partition: partition, Changelog: true, Head: -1, Frames: frames}
}

func output(topic string, frames ...[]byte) Write {
	return Write{Topic: topic, Partition: -1, Frames: frames}
}

// text is records as the test compares them.
func text(records []kafkatest.Record) []string {
	var out []string
	for _, r := range records {
		out = append(out, fmt.Sprintf("%d@%d %s=%s", r.Partition, r.Offset, show(r.Key), show(r.Value)))
	}
	return out
}

func show(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", b)
}

func equal(t testing.TB, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d, want %d\n got %.2000v\nwant %.2000v", what, len(got), len(want), got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: at %d %s, want %s", what, i, got[i], want[i])
		}
	}
}

// pause waits, or says false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
