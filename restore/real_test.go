//go:build kafka

package restore

import (
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
)

func TestOnKafka(t *testing.T) {
	for _, version := range []string{kafkatest.Latest, kafkatest.Previous} {
		t.Run(version, func(t *testing.T) {
			addrs := kafkatest.Broker(t, version).Addrs()
			testKafka(t, addrs)
			t.Run("compacted", func(t *testing.T) { testCompacted(t, addrs) })
		})
	}
}

// testCompacted restores a log of which most is gone, its tail too.
func testCompacted(t *testing.T, addrs []string) {
	kafkatest.CreateTopic(t, addrs, "compacted", 1, map[string]string{
		"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001",
		"min.compaction.lag.ms": "0", "max.compaction.lag.ms": "100", "delete.retention.ms": "0",
	})
	records, want := rows(0, 1000)
	kafkatest.Produce(t, addrs, "compacted", records, kafkatest.InBatchesOf(10))
	kafkatest.Produce(t, addrs, "compacted", []kafkatest.Record{kafkatest.KV("x", "aborted")}, kafkatest.Aborted("compacted-a"))
	// Each further record rolls a segment when the one before is old enough; the tail of tombstones goes too.
	deadline := time.Now().Add(patience)
	for len(kafkatest.ReadAll(t, addrs, "compacted", true)) > 60 {
		kafkatest.Produce(t, addrs, "compacted", []kafkatest.Record{kafkatest.Tombstone("roll")})
		if time.Now().After(deadline) {
			t.Fatal("the log is not compacted")
		}
	}
	end := high(t, addrs, "compacted")
	for _, kind := range []Kind{Changelog, Source} {
		w := newWorker(t)
		m, _ := managed(t, addrs, w, Config{})
		stop := m.Start(w.request("compacted", kind, end)).Stop
		if e := w.expect("reached"); e.next < end {
			t.Errorf("reached at %d, want %d", e.next, end)
		}
		w.holds(want)
		stop()
	}
}

// The broker is killed in the middle of a replay, while the worker holds it back, and comes back.
func TestBrokerKilledWhileRestoring(t *testing.T) {
	b := kafkatest.Broker(t, kafkatest.Latest)
	kafkatest.CreateTopic(t, b.Addrs(), "killed", 1, nil)
	records, want := rows(0, 50_000)
	kafkatest.Produce(t, b.Addrs(), "killed", records, kafkatest.InBatchesOf(500))
	w := newWorker(t)
	m, _ := managed(t, b.Addrs(), w, Config{})
	m.Start(w.request("killed", Changelog, 50_000))
	w.until("the first frames", func() bool { return w.next > 1000 })
	w.gate.Pause()
	b.Kill()
	w.gate.Resume()
	b.Start()
	w.expect("reached")
	w.holds(want)
	if w.records != 50_000 {
		t.Errorf("%d records, want each once", w.records)
	}
}
