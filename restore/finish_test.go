package restore

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pillion/pillion/internal/fetch"
	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/protocol"
)

// copyOf is the request of a standby.
func (w *worker) copyOf(topic string) Request {
	r := w.request(topic, Changelog, -1)
	r.Follow = true
	return r
}

func TestFinishAt(t *testing.T) {
	for name, c := range map[string]struct {
		ahead int64 // where the position is when FinishAt(12) comes
		more  []int64
		at    int64 // where it is at Reached
	}{
		"behind":               {10, []int64{11, 12}, 12},
		"at the end":           {12, nil, 12},
		"past the end":         {15, nil, 15},
		"a gap across the end": {11, []int64{14}, 14}, // compacted, or a marker
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, w := newLog(10), newWorker(t)
				m, h := byHand(t, l, w)
				replay := m.Start(w.copyOf("topic"))
				p := <-h.added
				if p.Until != -1 {
					t.Errorf("a copy ends at %d", p.Until)
				}
				send(t, p, 0, fetch.Position{Next: 10, HighWatermark: 20})
				if e := w.expect("reached"); e.end != -1 {
					t.Errorf("%+v", e)
				}
				if lag := replay.Lag(); lag != 10 {
					t.Errorf("lag %d, want 10", lag)
				}
				at := int64(10)
				if c.ahead > at {
					send(t, p, at, fetch.Position{Next: c.ahead})
					at = c.ahead
				}
				replay.FinishAt(12)
				for _, next := range c.more {
					synctest.Wait()
					if len(w.events) != 0 {
						t.Fatalf("at %d: %+v", at, <-w.events)
					}
					send(t, p, at, fetch.Position{Next: next})
					at = next
				}
				if e := w.expect("reached"); e.end != 12 || e.next != c.at {
					t.Errorf("%+v", e)
				}
				<-h.removed // nothing more is sent
			})
		})
	}
}

// FinishAt may come before the log has been looked at.
func TestFinishAtBeforeTheFirstFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := newLog(10), newWorker(t)
		m, h := byHand(t, l, w)
		l.mu.Lock() // the look takes its time
		m.Start(w.copyOf("topic")).FinishAt(12)
		l.mu.Unlock()
		p := <-h.added
		send(t, p, 0, fetch.Position{Next: 10})
		synctest.Wait()
		if len(w.events) != 0 {
			t.Fatalf("%+v", <-w.events)
		}
		send(t, p, 10, fetch.Position{Next: 12})
		if e := w.expect("reached"); e.end != 12 {
			t.Errorf("%+v", e)
		}
		<-h.removed
	})
}

// A log that has lost what the take-over saw is waited for, and then taken as it is; the answer names the
// end that was asked for.
func TestFinishAtOfALogThatShrank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := newLog(10), newWorker(t)
		m, h := byHand(t, l, w)
		replay := m.Start(w.copyOf("topic"))
		p := <-h.added
		send(t, p, 0, fetch.Position{Next: 10, HighWatermark: 10})
		w.expect("reached")
		time.Sleep(time.Hour) // a copy is never short of an end
		began := time.Now()
		replay.FinishAt(12)
		if e := w.expect("reached"); e.end != 12 || e.next != 10 || time.Since(began) < 30*time.Second {
			t.Errorf("%+v after %v", e, time.Since(began))
		}
		<-h.removed
	})
}

// A copy may be the last one: nothing is wiped for a changelog that was created anew.
func TestACopyOfARecreatedChangelogIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := newLog(10), newWorker(t)
		w.checkpoint = Checkpoint{TopicID: [16]byte{9}, Next: 5, Time: time.Now()}.String()
		m, _ := byHand(t, l, w)
		m.Start(w.copyOf("topic"))
		if e := w.expect("failed"); !strings.Contains(e.err.Error(), "nothing is wiped") {
			t.Errorf("%v", e.err)
		}
	})
}

// A copy is never ahead of Kafka.
func TestACopyThatIsAheadIsReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := newLog(10), newWorker(t)
		w.checkpoint = Checkpoint{TopicID: [16]byte{1}, Next: 11, Time: time.Now()}.String()
		m, _ := byHand(t, l, w)
		m.Start(w.copyOf("topic"))
		if e := w.expect("reset"); e.code != protocol.CodePastEnd {
			t.Errorf("%+v", e)
		}
	})
}

func testFinish(t *testing.T, addrs []string, topic string) {
	kafkatest.CreateTopic(t, addrs, topic, 1, nil)
	records, want := rows(0, 100)
	kafkatest.Produce(t, addrs, topic, records, kafkatest.Committed(topic+"-a"))
	w := newWorker(t)
	m, _ := managed(t, addrs, w, Config{})
	replay := m.Start(w.copyOf(topic))
	w.expect("reached")
	w.holds(want)
	before := replay.Records()

	more, changed := rows(100, 120)
	kafkatest.Produce(t, addrs, topic, more, kafkatest.Committed(topic+"-b"))
	kafkatest.Produce(t, addrs, topic, []kafkatest.Record{kafkatest.KV("k1", "aborted"), kafkatest.KV("bad", "x")}, kafkatest.Aborted(topic+"-c"))
	end := high(t, addrs, topic) // behind an aborted transaction and its marker
	replay.FinishAt(end)
	e := w.expect("reached")
	if e.end != end || e.records-before != 20 {
		t.Errorf("%+v after %d records, want end %d and 20 more", e, before, end)
	}
	for k, v := range changed {
		want[k] = v
	}
	w.holds(want)
	if c, err := ParseCheckpoint(e.at); err != nil || c.Next != end {
		t.Errorf("checkpoint %+v, %v", c, err)
	}

	// What comes later is the new active's.
	kafkatest.Produce(t, addrs, topic, []kafkatest.Record{kafkatest.KV("later", "no")})
	w.reopen()
	again := m.Start(w.copyOf(topic)) // goes on from the checkpoint, behind the markers
	w.until("what came later", func() bool { return w.rows["later"] == "no" })
	if w.records != 1 {
		t.Errorf("%d records, want 1", w.records)
	}
	again.Stop()
}
