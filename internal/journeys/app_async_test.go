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

// A batch takes longer than max_processing, but records of it are done, or the handler says that it goes on:
// the worker is not hung.
func TestAppLongBatchIsNoHang(t *testing.T) {
	for style, env := range map[string]string{"async each": "", "async process": "APP_PROGRESS=1"} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			j := newApp(t, oneBroker(t), 1, style, "APP_PAUSE=0.02", env)
			j.load(0, 300)
			s := j.pair("--max-processing", "2s")
			j.checkLists()
			if hung := s.since(0, func(e entry) bool { return e.is("the worker is hung, leaving the group") || e.is("lost") }); len(hung) > 0 {
				t.Errorf("a worker that works is hung: %s", hung[0].text)
			}
			s.drain()
		})
	}
}

// A handler that takes longer than max_processing without a word loses its task. Its work is dropped, also
// when it comes to its end, and is done again.
func TestAppHungHandler(t *testing.T) {
	t.Parallel()
	j := newApp(t, oneBroker(t), 1, "async process")
	j.ask("handled", "hold")
	j.load(0, 100)
	s := j.pair("--max-processing", "1s")
	s.wait("at", "point", "handled")
	s.wait("the worker is hung, leaving the group")
	s.wait("lost")
	j.letGo("handled")
	j.load(100, 100)
	j.checkLists()
	noOverlap(t, s.process)
	s.drain()
	j.appStores("seen", j.tables())
}

// A second pair joins in the middle of a long batch. With @app.each a task is handed over between two
// records, at once; with @app.process behind the batch. Nothing is lost, nothing is done twice.
func TestAppRevokedWithinBatch(t *testing.T) {
	for style, within := range map[string]time.Duration{"async each": 3 * time.Second, "each": 3 * time.Second, "async process": 10 * time.Second} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			j := newApp(t, oneBroker(t), 4, style, "APP_PAUSE=0.004")
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

// Many tasks are busy with synchronous handlers, one record after the other, when a second pair joins. The
// loop turns between records often enough for everybody: half of the tasks are handed over, none is lost.
func TestAppHandsOverManyTasks(t *testing.T) {
	t.Parallel()
	j := newApp(t, oneBroker(t), 32, "each")
	other := *j
	other.place, other.state = newPlace(t), t.TempDir()
	j.place.timed, other.place.timed = true, true
	j.keys = 200
	j.load(0, 160_000)
	one := j.pair("--revoke-timeout", "30s")
	j.flowing(1000)
	mark := one.mark()
	two := other.pair("--revoke-timeout", "30s")
	one.waitSince(mark, "revoking", "code", "rebalance")
	until(t, "a task is let go", func() bool { return len(releases(one.process)) > 0 })
	if at := j.committed(); at > 150_000 {
		t.Errorf("%d of the inputs were done by then: nothing is shown", at)
	}
	j.shared(2)
	j.checkLists()
	longest := time.Duration(0)
	for _, d := range releases(one.process) {
		longest = max(longest, d)
	}
	t.Logf("the last of %d tasks was handed over within %v", len(releases(one.process)), longest)
	if late := one.since(mark, func(e entry) bool { return e.is("revoke timed out") || e.is("lost") }); len(late) > 0 {
		t.Errorf("%d tasks were not handed over in time", len(late))
	}
	one.drain()
	two.drain()
	j.appStores("seen", j.tables(), other.tables())
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
