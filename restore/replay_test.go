package restore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pillion/pillion/internal/fetch"
	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// log is a Kafka of one partition that says what it is told to.
type log struct {
	mu                  sync.Mutex
	topic               kafka.Topic
	start, high, stable int64
	epochEnd            int64
	configs             map[string]string
	fail                map[string]error
	asked               map[string]int
	during              func(*log, string) // called at each question, under mu
}

func newLog(end int64) *log {
	return &log{
		topic: kafka.Topic{Name: "topic", ID: [16]byte{1}, Partitions: []kafka.Partition{{}}},
		high:  end, stable: end, epochEnd: end,
		configs: map[string]string{policyKey: "compact", retentionKey: "86400000"},
		fail:    map[string]error{}, asked: map[string]int{},
	}
}

func (l *log) ask(what string) error {
	l.asked[what]++
	if l.during != nil {
		l.during(l, what)
	}
	return l.fail[what]
}

func (l *log) Refresh(context.Context, ...string) (map[string]kafka.Topic, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.ask("topic")
	return map[string]kafka.Topic{"topic": l.topic}, err
}

func (l *log) ForgetLeader(kafka.TopicPartition) {}

func (l *log) ListOffsets(_ context.Context, at int64, committed bool, tps ...kafka.TopicPartition) (map[kafka.TopicPartition]kafka.Offset, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what, offset := "high", &l.high
	switch {
	case at == kafka.Earliest:
		what, offset = "start", &l.start
	case committed:
		what, offset = "stable", &l.stable
	}
	err := l.ask(what)
	return map[kafka.TopicPartition]kafka.Offset{tps[0]: {Offset: *offset}}, err
}

func (l *log) EpochEnd(context.Context, kafka.TopicPartition, int32) (int32, int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return 1, l.epochEnd, l.ask("epoch")
}

func (l *log) TopicConfigs(context.Context, string, ...string) (map[string]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.configs, l.ask("configs")
}

// hand is a fetcher that the test works by hand.
type hand struct {
	added   chan fetch.Partition
	removed chan struct{}
}

func newHand() *hand {
	return &hand{added: make(chan fetch.Partition, 10), removed: make(chan struct{}, 10)}
}

func (h *hand) Add(p fetch.Partition) func() {
	h.added <- p
	return sync.OnceFunc(func() {
		h.removed <- struct{}{}
		p.Sink.Stopped(nil)
	})
}

// send gives the sink a frame of no records that reaches a position.
func send(t testing.TB, p fetch.Partition, from int64, to fetch.Position) {
	t.Helper()
	b := frame.NewBuilder(frame.Restore)
	b.Reset(p.Stream, p.Epoch, from)
	if err := p.Sink.Frame(t.Context(), b.Finish(nil, to.Next, p.Checkpoint(to.Next, to.LeaderEpoch)), to); err != nil {
		t.Errorf("Frame: %v", err)
	}
	p.Sink.Progress(to)
}

func byHand(t testing.TB, l *log, w *worker) (*Manager, *hand) {
	h := newHand()
	m, err := newManager(Config{Fetcher: h, Handler: w}, l)
	if err != nil {
		t.Fatal(err)
	}
	run(t, m.Run)
	return m, h
}

func TestSourceEndIsCapturedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := newLog(10), newWorker(t)
		m, h := byHand(t, l, w)
		stop := m.Start(w.request("topic", Source, 0)).Stop
		p := <-h.added
		l.mu.Lock()
		l.stable, l.high = 15, 20
		l.mu.Unlock()
		send(t, p, 0, fetch.Position{Next: 10})
		synctest.Wait()
		if len(w.events) != 0 {
			t.Fatalf("%+v", <-w.events)
		}
		l.mu.Lock()
		l.stable = 30 // not asked a third time
		l.mu.Unlock()
		send(t, p, 10, fetch.Position{Next: 15})
		w.expect("reached")
		send(t, p, 15, fetch.Position{Next: 30}) // goes on
		stop()
		<-h.removed
	})
}

func TestChangelogEndsAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := newLog(10), newWorker(t)
		m, h := byHand(t, l, w)
		m.Start(w.request("topic", Changelog, 10))
		p := <-h.added
		if p.Until != 10 || p.Kind != frame.Restore || p.LastEpoch != -1 {
			t.Errorf("%+v", p)
		}
		send(t, p, 0, fetch.Position{Next: 10, LeaderEpoch: 4})
		e := w.expect("reached")
		<-h.removed
		if c, err := ParseCheckpoint(e.at); err != nil || c.Next != 10 || c.LeaderEpoch != 4 {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

func TestValidation(t *testing.T) {
	good := Checkpoint{TopicID: [16]byte{1}, Next: 5, LeaderEpoch: 1, Time: time.Now()}
	for name, c := range map[string]struct {
		change func(*log, *Checkpoint)
		code   string // empty: good
	}{
		"good":           {func(*log, *Checkpoint) {}, ""},
		"another id":     {func(_ *log, c *Checkpoint) { c.TopicID[0] = 9 }, protocol.CodeRecreated},
		"no ids":         {func(l *log, _ *Checkpoint) { l.topic.ID = [16]byte{} }, ""},
		"past the end":   {func(_ *log, c *Checkpoint) { c.Next = 11 }, protocol.CodePastEnd},
		"below":          {func(l *log, _ *Checkpoint) { l.start = 6 }, protocol.CodeBelowLogStart},
		"truncated":      {func(l *log, _ *Checkpoint) { l.epochEnd = 4 }, protocol.CodeTruncated},
		"epoch unknown":  {func(l *log, _ *Checkpoint) { l.epochEnd = -1 }, protocol.CodeTruncated},
		"no epoch":       {func(l *log, c *Checkpoint) { l.epochEnd = 4; c.LeaderEpoch = -1 }, ""},
		"old":            {func(_ *log, c *Checkpoint) { c.Time = c.Time.Add(-25 * time.Hour) }, protocol.CodeTombstonesExpired},
		"of tomorrow":    {func(_ *log, c *Checkpoint) { c.Time = c.Time.Add(24 * time.Hour) }, protocol.CodeTombstonesExpired},
		"of soon":        {func(_ *log, c *Checkpoint) { c.Time = c.Time.Add(time.Minute) }, ""},
		"old at the end": {func(_ *log, c *Checkpoint) { c.Time = c.Time.Add(-25 * time.Hour); c.Next = 10 }, ""},
		"old, deleting":  {func(l *log, c *Checkpoint) { c.Time = c.Time.Add(-25 * time.Hour); l.configs[policyKey] = "delete" }, ""},
		"old, forbidden": {func(l *log, c *Checkpoint) {
			c.Time = c.Time.Add(-25 * time.Hour)
			l.fail["configs"] = &kafka.Error{Code: 29}
		}, protocol.CodeTombstonesExpired},
		// The second answer, of the present leader, counts.
		"leader behind": {func(l *log, _ *Checkpoint) {
			l.high = 4
			l.during = func(l *log, what string) {
				if what == "high" && l.asked["high"] > 1 {
					l.high = 10
				}
			}
		}, ""},
		"end known better": {func(l *log, _ *Checkpoint) { l.high = 4 }, ""}, // the take-over saw 10
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, w, at := newLog(10), newWorker(t), good
				at.Time = time.Now()
				c.change(l, &at)
				w.checkpoint = at.String()
				m, h := byHand(t, l, w)
				stop := m.Start(w.request("topic", Changelog, 10)).Stop
				synctest.Wait()
				switch {
				case c.code == "" && at.Next < 10:
					if p := <-h.added; p.Offset != at.Next || p.LastEpoch != at.LeaderEpoch {
						t.Errorf("%+v", p)
					}
				case c.code == "":
					w.expect("reached")
				default:
					if e := w.expect("reset"); e.code != c.code || e.start != l.start {
						t.Errorf("%+v", e)
					}
				}
				stop()
			})
		})
	}
}

func TestTransientErrorsAreRepeated(t *testing.T) {
	for _, what := range []string{"topic", "start", "high", "stable", "epoch", "configs"} {
		synctest.Test(t, func(t *testing.T) {
			l, w := newLog(10), newWorker(t)
			w.checkpoint = Checkpoint{TopicID: [16]byte{1}, Next: 5, Time: time.Now()}.String()
			l.fail[what] = context.DeadlineExceeded
			l.during = func(l *log, asked string) {
				if asked == what && l.asked[what] > 3 {
					delete(l.fail, what)
				}
			}
			m, h := byHand(t, l, w)
			m.Start(w.request("topic", Changelog, 10))
			<-h.added
		})
	}
}

func TestMissingTopicFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := newLog(10), newWorker(t)
		l.topic.Err = &kafka.Error{Code: codeUnknownTopic}
		m, _ := byHand(t, l, w)
		began := time.Now()
		m.Start(w.request("topic", Changelog, 10))
		var missing *missingError
		if e := w.expect("failed"); !errors.As(e.err, &missing) || time.Since(began) < missingFor {
			t.Errorf("%v after %v", e.err, time.Since(began))
		}
		l.topic.Err = &kafka.Error{Code: 29}
		began = time.Now()
		m.Start(w.request("topic", Changelog, 10))
		if e := w.expect("failed"); time.Since(began) != 0 {
			t.Errorf("%v after %v", e.err, time.Since(began))
		}
	})
}

func TestLogChangesAfterTheCheck(t *testing.T) {
	for code, err := range map[string]error{
		protocol.CodeBelowLogStart: &fetch.OutOfRangeError{Position: 5, LogStart: 8, End: 10},
		protocol.CodePastEnd:       &fetch.OutOfRangeError{Position: 5, LogStart: 0, End: 4},
		protocol.CodeTruncated:     &fetch.TruncatedError{Position: 5, EndOffset: 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, w := newLog(10), newWorker(t)
			m, h := byHand(t, l, w)
			m.Start(w.request("topic", Changelog, 10))
			// Before the first frame the log is looked at again ...
			p := <-h.added
			l.mu.Lock()
			l.start = 2
			l.mu.Unlock()
			p.Sink.Stopped(err)
			if p = <-h.added; p.Offset != 2 {
				t.Errorf("restarted at %d", p.Offset)
			}
			// ... after it nothing may be skipped.
			send(t, p, 2, fetch.Position{Next: 5})
			p.Sink.Stopped(err)
			if e := w.expect("reset"); e.code != code {
				t.Errorf("%+v, want %s", e, code)
			}
		})
	}
}

// A changelog that lost its end would be waited for without end.
func TestLogEndsBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := newLog(10), newWorker(t)
		m, h := byHand(t, l, w)
		m.Start(w.request("topic", Changelog, 10))
		p := <-h.added
		l.mu.Lock()
		l.high = 7
		l.mu.Unlock()
		began := time.Now()
		send(t, p, 0, fetch.Position{Next: 7, HighWatermark: 7})
		if e := w.expect("reached"); e.next != 7 || time.Since(began) < 30*time.Second {
			t.Errorf("%+v after %v", e, time.Since(began))
		}
		<-h.removed
	})
}

// INVARIANT: a checkpoint's time is not later than when the store was whole.
func TestCheckpointTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := newLog(10), newWorker(t)
		old := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
		w.checkpoint = Checkpoint{TopicID: [16]byte{1}, Next: 5, LeaderEpoch: 1, Time: old}.String()
		m, h := byHand(t, l, w)
		began := time.Now()
		stop := m.Start(w.request("topic", Source, 0)).Stop
		p := <-h.added
		at := func() time.Time {
			c, err := ParseCheckpoint(w.checkpoint)
			if err != nil {
				t.Fatal(err)
			}
			return c.Time
		}
		send(t, p, 5, fetch.Position{Next: 8, StableOffset: 10})
		if !at().Equal(old) {
			t.Errorf("before the end the time is %v, want %v", at(), old)
		}
		time.Sleep(10 * time.Minute)
		send(t, p, 8, fetch.Position{Next: 10, StableOffset: 10})
		w.expect("reached")
		time.Sleep(10 * time.Minute) // idle: the time moves by itself
		p.Sink.Progress(fetch.Position{Next: 10, StableOffset: 10})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := at(); got.Before(began.Add(18*time.Minute)) || got.After(began.Add(20*time.Minute)) {
			t.Errorf("the time is %v after the start", got.Sub(began))
		}
		stop()
		<-h.removed
	})
}

func TestMeter(t *testing.T) {
	var m meter
	now := time.UnixMilli(0)
	if rate, eta := m.tick(now, 0, 0, 100); rate != 0 || eta >= 0 {
		t.Errorf("at first %d, %v", rate, eta)
	}
	if rate, eta := m.tick(now.Add(time.Second), 10, 20, 80); rate != 10 || eta != 4*time.Second {
		t.Errorf("then %d, %v", rate, eta)
	}
	if _, eta := m.tick(now.Add(2*time.Second), 10, 20, 0); eta != 0 {
		t.Errorf("at the end %v", eta)
	}
}
