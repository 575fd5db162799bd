//go:build kafka

package journeys

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
)

// letGo ends a hold that was asked for.
func (j *job) letGo(point string) {
	j.t.Helper()
	if err := os.Remove(filepath.Join(j.state, "at-"+point)); err != nil {
		j.t.Fatal(err)
	}
}

// noOverlap checks that no task had two handlers at once.
func noOverlap(t *testing.T, said ...*process) {
	t.Helper()
	for _, p := range said {
		if n := len(p.since(0, func(e entry) bool { return e.is("overlap") })); n > 0 {
			t.Errorf("two handlers of a task ran at the same time, %d times", n)
		}
	}
}

// While a task's handler awaits, the others go on: each of two handlers waits for what the other one does.
func TestAppTasksInterleave(t *testing.T) {
	for _, style := range []string{"async process", "async each"} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			j := newApp(t, oneBroker(t), 2, style)
			put := func(partition int32, values ...string) {
				records := ofValues(values...)
				for i := range records {
					records[i] = records[i].On(partition)
					records[i].Key = []byte{'a' + byte(partition)}
				}
				kafkatest.Produce(t, j.addrs, j.in, records)
			}
			put(0, "wait one", "open two", "wait three", "last")
			put(1, "open one", "wait two", "open three", "last of all")
			s := j.pair()
			j.checkLists()
			noOverlap(t, s.process)
			s.drain()
			j.appStores("seen", j.tables())
		})
	}
}

// What is done is committed while later records of the same batch are worked on.
func TestAppCommitsWithinBatch(t *testing.T) {
	t.Parallel()
	j := newApp(t, oneBroker(t), 1, "async each", "APP_PAUSE=0.005")
	j.ask("handled", "300 hold")
	j.load(0, 400)
	s := j.pair()
	s.wait("at", "point", "handled")
	until(t, "most of what was done is committed", func() bool { return j.committed() > 200 })
	if n := j.committed(); n > 300 {
		t.Errorf("%d inputs are committed, 300 were handled", n)
	}
	j.letGo("handled")
	j.checkLists()
	s.drain()
}

// A second pair joins in the middle of a long batch. With @app.each a task is handed over between two
// records, at once; with @app.process behind the batch. Nothing is lost, nothing is done twice.
func TestAppRevokedWithinBatch(t *testing.T) {
	for style, within := range map[string]time.Duration{"async each": time.Second, "each": time.Second, "async process": 8 * time.Second} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			j := newApp(t, oneBroker(t), 4, style, "APP_PAUSE=0.002")
			other := *j
			other.place, other.state = newPlace(t), t.TempDir()
			j.window = 64 << 10
			j.load(0, 8000)
			one := j.pair("--session-timeout", "10s")
			one.running(4)
			f := j.feed(8000)
			j.flowing(100)
			two := other.pair("--session-timeout", "10s")
			j.shared(2)
			one.wait("revoking", "code", "rebalance")
			one.wait("task released")
			took := releases(one.process)
			if len(took) == 0 {
				t.Error("nothing was handed over, so that nothing is shown")
			}
			for task, d := range took {
				if t.Logf("%s was handed over within %v", task, d.Round(time.Millisecond)); d > within {
					t.Errorf("%s was handed over within %v, more than %v", task, d, within)
				}
			}
			f.end()
			j.checkLists()
			noOverlap(t, one.process, two.process)
			for _, s := range []*sidecar{one, two} {
				if lost := s.since(0, func(e entry) bool { return e.is("lost") }); len(lost) > 0 {
					t.Errorf("%d tasks were lost, not revoked", len(lost))
				}
				s.drain()
			}
			j.appStores("seen", j.tables(), other.tables())
		})
	}
}

// releases is how long each task took from revoking to its release, by the sidecar's log.
func releases(s *process) map[string]time.Duration {
	revoked, took := map[string]time.Time{}, map[string]time.Duration{}
	for _, e := range s.since(0, func(entry) bool { return true }) {
		at, err := time.Parse("2006-01-02T15:04:05.000Z0700", e.str("@timestamp"))
		if err != nil {
			continue
		}
		if e.is("task revoked") {
			revoked[e.str("task")] = at
		} else if began, ok := revoked[e.str("task")]; ok && e.is("task released") {
			took[e.str("task")] = at.Sub(began)
		}
	}
	return took
}
