package restore

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/pillion/pillion/internal/fetch"
	"github.com/pillion/pillion/internal/kafkatest"
)

// said are what the progress of a while said that it waits for.
func (w *worker) said() (waits []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.progress {
		waits = append(waits, p.Waits)
	}
	w.progress = nil
	return waits
}

// INVARIANT: a replay that an open transaction holds up says so after some seconds, to the worker and
// the log, and not before, nor when it goes on.
func TestAnOpenTransactionIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l, w := newLog(10), newWorker(t)
		m, h := byHand(t, l, w)
		m.log = hclog.New(&hclog.LoggerOptions{Output: &out, DisableTime: true})
		m.Start(w.request("topic", Changelog, 10))
		p := <-h.added
		send(t, p, 0, fetch.Position{Next: 4, StableOffset: 4, HighWatermark: 12})
		for second := range 30 {
			if second%5 == 4 { // the broker answers now and then, and says the same
				p.Sink.Progress(fetch.Position{Next: 4, StableOffset: 4, HighWatermark: 12})
			}
			time.Sleep(time.Second)
			synctest.Wait()
			waits := strings.Join(w.said(), "")
			if named := strings.Contains(waits, "a transaction that is open at offset 4 of topic/0"); named != (second >= 5) {
				t.Errorf("second %d: %q", second, waits)
			}
		}
		send(t, p, 4, fetch.Position{Next: 6, StableOffset: 6, HighWatermark: 12}) // another one
		time.Sleep(3 * time.Second)
		send(t, p, 6, fetch.Position{Next: 8, StableOffset: 12, HighWatermark: 12}) // none: it is only slow
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if waits := strings.Join(w.said(), ""); waits != "" {
			t.Errorf("it goes on, and says %q", waits)
		}
		send(t, p, 8, fetch.Position{Next: 10, StableOffset: 12, HighWatermark: 12})
		w.expect("reached")
		<-h.removed
		synctest.Wait()
		if got := strings.Count(out.String(), "[WARN]  a restore waits:"); got != 3 { // after 6 s, 16 s and 26 s
			t.Errorf("the log hears of it %d times:\n%s", got, out.String())
		}
	})
}

// A copy of a changelog that nobody has taken over yet is told to be whole at the high watermark, not
// before an open transaction.
func TestACopyIsWholeAtTheHighWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := newLog(10), newWorker(t)
		l.stable = 5
		m, h := byHand(t, l, w)
		r := w.request("topic", Changelog, -1)
		r.Follow = true
		stop := m.Start(r).Stop
		p := <-h.added
		send(t, p, 0, fetch.Position{Next: 5, StableOffset: 5, HighWatermark: 10})
		synctest.Wait()
		if len(w.events) != 0 {
			t.Fatalf("%+v", <-w.events)
		}
		send(t, p, 5, fetch.Position{Next: 10, StableOffset: 10, HighWatermark: 10})
		if e := w.expect("reached"); e.next != 10 {
			t.Errorf("%+v", e)
		}
		stop()
		<-h.removed
	})
}

// testOpenTransaction has a changelog whose last writer has left a transaction open.
func testOpenTransaction(t *testing.T, addrs []string, topic string) {
	kafkatest.CreateTopic(t, addrs, topic, 1, nil)
	records, want := rows(0, 100)
	kafkatest.Produce(t, addrs, topic, records)
	open := kafkatest.Begin(t, addrs, topic+"-open")
	open.Produce(topic, kafkatest.KV("k1", "open"))
	kafkatest.Produce(t, addrs, topic, []kafkatest.Record{kafkatest.KV("behind", "it")})
	end := high(t, addrs, topic)
	w := newWorker(t)
	m, _ := managed(t, addrs, w, Config{})
	m.Start(w.request(topic, Changelog, end))
	source := newWorker(t) // the last stable offset is its end, so that it does not wait
	others, _ := managed(t, addrs, source, Config{})
	stop := others.Start(source.request(topic, Source, 0)).Stop
	defer stop()
	if e := source.expect("reached"); e.next != 100 {
		t.Errorf("a source that others write is reached at %d, want the last stable offset, 100", e.next)
	}
	source.holds(want)
	w.until("words about the transaction", func() bool {
		return len(w.progress) > 0 && strings.Contains(w.progress[len(w.progress)-1].Waits, "open at offset 100 of "+topic+"/0")
	})
	w.holds(want)
	open.Commit()
	if e := w.expect("reached"); e.next != end {
		t.Errorf("reached at %d, want %d", e.next, end)
	}
	want["k1"], want["behind"] = "open", "it"
	w.holds(want)
}
