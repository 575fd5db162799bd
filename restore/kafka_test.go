package restore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/fetch"
	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/protocol"
)

func TestOnFake(t *testing.T) { testKafka(t, kafkatest.Fake(t).Addrs()) }

// testKafka is what must hold on every Kafka.
func testKafka(t *testing.T, addrs []string) {
	for name, test := range map[string]func(*testing.T, []string, string){
		"empty":        testEmpty,
		"replay":       testReplay,
		"transactions": testTransactions,
		"open":         testOpenTransaction,
		"deleted head": testDeletedHead,
		"recreated":    testRecreated,
		"past end":     testPastEnd,
		"follow":       testFollow,
		"idle":         testIdle,
		"finish":       testFinish,
		"progress":     testProgress,
		"tombstones":   testTombstones,
	} {
		t.Run(name, func(t *testing.T) { test(t, addrs, strings.ReplaceAll(name, " ", "-")) })
	}
}

// rows are records with keys k0.. and the rows that they make.
func rows(from, to int) (records []kafkatest.Record, want map[string]string) {
	want = map[string]string{}
	for i := from; i < to; i++ {
		k, v := fmt.Sprintf("k%d", i%50), fmt.Sprintf("v%d", i)
		records, want[k] = append(records, kafkatest.KV(k, v)), v
	}
	return records, want
}

func high(t testing.TB, addrs []string, topic string) int64 {
	return kafkatest.EndOffsets(t, addrs, topic)[0].HighWatermark
}

func testEmpty(t *testing.T, addrs []string, topic string) {
	kafkatest.CreateTopic(t, addrs, topic, 1, nil)
	for _, kind := range []Kind{Changelog, Source, Global} {
		w := newWorker(t)
		m, _ := managed(t, addrs, w, Config{})
		stop := m.Start(w.request(topic, kind, 0)).Stop
		e := w.expect("reached")
		if c, err := ParseCheckpoint(e.at); err != nil || c.Next != 0 || c.TopicID != kafkatest.TopicID(t, addrs, topic) {
			t.Errorf("checkpoint %+v, %v", c, err)
		}
		stop()
	}
}

func testReplay(t *testing.T, addrs []string, topic string) {
	kafkatest.CreateTopic(t, addrs, topic, 1, nil)
	records, want := rows(0, 500)
	kafkatest.Produce(t, addrs, topic, records, kafkatest.InBatchesOf(30))
	end := high(t, addrs, topic)
	kafkatest.Produce(t, addrs, topic, []kafkatest.Record{kafkatest.KV("later", "no")})
	w := newWorker(t)
	m, _ := managed(t, addrs, w, Config{})
	m.Start(w.request(topic, Changelog, end))
	if e := w.expect("reached"); e.next != end {
		t.Errorf("reached at %d, want %d", e.next, end)
	}
	w.holds(want)

	// The next life replays only what came after.
	w.reopen()
	m.Start(w.request(topic, Changelog, end+1))
	w.expect("reached")
	want["later"] = "no"
	w.holds(want)
	if w.records != 1 {
		t.Errorf("%d records, want 1", w.records)
	}
	w.reopen()
	m.Start(w.request(topic, Changelog, end+1))
	w.expect("reached")
	if w.records != 0 || w.empty != 0 {
		t.Errorf("%d records and %d empty frames of a whole store", w.records, w.empty)
	}
}

func testTransactions(t *testing.T, addrs []string, topic string) {
	kafkatest.CreateTopic(t, addrs, topic, 1, nil)
	records, want := rows(0, 100)
	kafkatest.Produce(t, addrs, topic, records, kafkatest.Committed(topic+"-a"))
	kafkatest.Produce(t, addrs, topic, []kafkatest.Record{kafkatest.KV("k1", "aborted"), kafkatest.KV("bad", "x")}, kafkatest.Aborted(topic+"-b"))
	end := high(t, addrs, topic)
	for _, kind := range []Kind{Changelog, Source} {
		w := newWorker(t)
		m, _ := managed(t, addrs, w, Config{})
		stop := m.Start(w.request(topic, kind, end)).Stop
		// The marker may have landed after the end was asked for; a source's end is captured again.
		if e := w.expect("reached"); e.next < end || kind == Changelog && e.next != end {
			t.Errorf("%s reached at %d, want %d", kind, e.next, end)
		}
		w.holds(want)
		stop()
	}
}

func testDeletedHead(t *testing.T, addrs []string, topic string) {
	kafkatest.CreateTopic(t, addrs, topic, 1, map[string]string{"cleanup.policy": "compact,delete"})
	records, _ := rows(0, 100)
	kafkatest.Produce(t, addrs, topic, records, kafkatest.InBatchesOf(10))
	w := newWorker(t)
	m, _ := managed(t, addrs, w, Config{})
	m.Start(w.request(topic, Changelog, 20))
	w.expect("reached")
	kafkatest.DeleteRecords(t, addrs, topic, 0, 60)

	// What the store has not seen is gone: it starts over.
	w.reopen()
	m.Start(w.request(topic, Changelog, 100))
	e := w.expect("reset")
	if e.code != protocol.CodeBelowLogStart || e.start != 60 || !strings.Contains(e.at, "offset 20") {
		t.Errorf("%+v", e)
	}
	w.wipe()
	m.Start(w.request(topic, Changelog, 100))
	w.expect("reached")
	_, want := rows(60, 100)
	w.holds(want)

	// Nothing is left at all.
	kafkatest.DeleteRecords(t, addrs, topic, 0, 100)
	w.reopen()
	w.wipe()
	m.Start(w.request(topic, Changelog, 100))
	if e := w.expect("reached"); !strings.HasPrefix(e.at, "v1:") {
		t.Errorf("%+v", e)
	}
}

func testRecreated(t *testing.T, addrs []string, topic string) {
	recreate := func() {
		kafkatest.DeleteTopic(t, addrs, topic)
		kafkatest.CreateTopic(t, addrs, topic, 1, nil)
	}
	kafkatest.CreateTopic(t, addrs, topic, 1, nil)
	records, want := rows(0, 10)
	kafkatest.Produce(t, addrs, topic, records)
	w := newWorker(t)
	m, _ := managed(t, addrs, w, Config{})
	stop := m.Start(w.request(topic, Source, 0)).Stop
	w.expect("reached")
	w.holds(want)
	stop()
	recreate()
	kafkatest.Produce(t, addrs, topic, records)
	w.reopen()
	m.Start(w.request(topic, Source, 0))
	if e := w.expect("reset"); e.code != protocol.CodeRecreated || e.start != 0 {
		t.Errorf("%+v", e)
	}

	// While it is being followed.
	w.reopen()
	w.wipe()
	m.Start(w.request(topic, Source, 0))
	w.expect("reached")
	changelog := newWorker(t)
	m2, _ := managed(t, addrs, changelog, Config{})
	r := changelog.request(topic, Changelog, 10)
	r.Follow = true
	m2.Start(r)
	changelog.expect("reached")
	recreate()
	if e := w.expect("reset"); e.code != protocol.CodeRecreated {
		t.Errorf("%+v", e)
	}
	if e := changelog.expect("failed"); e.err == nil || !isRecreated(e.err) {
		t.Errorf("%+v", e)
	}
}

func testPastEnd(t *testing.T, addrs []string, topic string) {
	kafkatest.CreateTopic(t, addrs, topic, 1, nil)
	records, _ := rows(0, 10)
	kafkatest.Produce(t, addrs, topic, records)
	id := kafkatest.TopicID(t, addrs, topic)
	for _, c := range []struct {
		checkpoint string
		code       string
	}{
		{Checkpoint{TopicID: id, Next: 11, LeaderEpoch: -1, Time: time.Now()}.String(), protocol.CodePastEnd},
		{"v1:nonsense", protocol.CodeBadCheckpoint},
		{"v9:" + strings.Repeat("A", 48), protocol.CodeBadCheckpoint},
	} {
		w := newWorker(t)
		w.checkpoint = c.checkpoint
		m, _ := managed(t, addrs, w, Config{})
		m.Start(w.request(topic, Changelog, 10))
		if e := w.expect("reset"); e.code != c.code {
			t.Errorf("%+v, want %s", e, c.code)
		}
	}
}

func testFollow(t *testing.T, addrs []string, topic string) {
	kafkatest.CreateTopic(t, addrs, topic, 1, nil)
	records, want := rows(0, 100)
	kafkatest.Produce(t, addrs, topic, records)
	w := newWorker(t)
	m, _ := managed(t, addrs, w, Config{})
	stop := m.Start(w.request(topic, Global, 0)).Stop
	w.expect("reached")
	w.holds(want)
	more, changed := rows(100, 120)
	kafkatest.Produce(t, addrs, topic, more)
	w.until("what came later", func() bool { return w.next == 120 })
	for k, v := range changed {
		want[k] = v
	}
	w.holds(want)
	stop()
}

func testIdle(t *testing.T, addrs []string, topic string) {
	kafkatest.CreateTopic(t, addrs, topic, 1, nil)
	records, want := rows(0, 3)
	kafkatest.Produce(t, addrs, topic, records)
	w := newWorker(t)
	m, _ := managed(t, addrs, w, Config{ProgressEvery: time.Millisecond, IdleEvery: time.Millisecond})
	m.Start(w.request(topic, Source, 0))
	w.expect("reached")
	w.until("two frames without records", func() bool { return w.empty >= 2 })
	w.holds(want)
}

func testProgress(t *testing.T, addrs []string, topic string) {
	kafkatest.CreateTopic(t, addrs, topic, 1, nil)
	records, _ := rows(0, 100)
	kafkatest.Produce(t, addrs, topic, records)
	w := newWorker(t)
	w.gate.Pause()
	m, _ := managed(t, addrs, w, Config{ProgressEvery: time.Millisecond})
	m.Start(w.request(topic, Changelog, 100))
	var p Progress
	w.until("progress", func() bool { // it goes on meanwhile
		if len(w.progress) < 3 {
			return false
		}
		p = w.progress[2]
		return true
	})
	if p.Remaining != 100 || p.ETA >= 0 || p.Records != 0 {
		t.Errorf("%+v", p)
	}
	w.gate.Resume()
	w.expect("reached")

	// A gate that closes ends a request without a word.
	w.reopen()
	w.wipe()
	w.gate.Close()
	m.Start(w.request(topic, Changelog, 100))
}

func testTombstones(t *testing.T, addrs []string, topic string) {
	kafkatest.CreateTopic(t, addrs, topic, 1, map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "3600000"})
	records, _ := rows(0, 10)
	kafkatest.Produce(t, addrs, topic, records)
	id := kafkatest.TopicID(t, addrs, topic)
	w := newWorker(t)
	m, _ := managed(t, addrs, w, Config{})
	try := func(next int64, age time.Duration) {
		w.reopen()
		w.checkpoint = Checkpoint{TopicID: id, Next: next, LeaderEpoch: -1, Time: time.Now().Add(-age)}.String()
		m.Start(w.request(topic, Changelog, 10))
	}
	try(5, 2*time.Hour)
	if e := w.expect("reset"); e.code != protocol.CodeTombstonesExpired || e.start != 0 {
		t.Errorf("%+v", e)
	}
	try(5, time.Minute)
	w.expect("reached")
	try(10, 48*time.Hour) // nothing can have been missed
	w.expect("reached")
}

func isRecreated(err error) bool {
	var recreated *fetch.RecreatedError
	return errors.As(err, &recreated)
}
