//go:build kafka

package journeys

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
)

// Lists in a table grow by t[k].append(x) while the worker is killed, wherever it is: every list is whole,
// nothing is repeated.
func TestAppWorkerKilled(t *testing.T) {
	for _, style := range styles {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			j := newApp(t, oneBroker(t), 3, style)
			s := j.pair("--restart")
			f := j.feed(0)
			for range 3 {
				s.running(3)
				j.flowing(1 + rand.Int64N(300))
				mark := s.mark()
				killChild(s)
				s.waitSince(mark, "start") // or the next kill would be of the one that is dead
			}
			j.flowing(200)
			f.end()
			j.checkLists()
			s.drain()
			if whole := j.appStores("seen", j.tables()); whole != 3 {
				t.Errorf("%d stores are whole, want 3", whole)
			}
		})
	}
}

// The handler has changed its list, and the worker is killed before it could say so.
func TestAppWorkerKilledInHandler(t *testing.T) {
	for _, style := range []string{"process", "each"} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			j := newApp(t, oneBroker(t), 1, style)
			j.load(0, 100)
			s := j.pair("--restart")
			j.finish()
			for n := range 3 {
				mark := s.mark()
				j.ask("handled", "stop")
				j.load(100+100*n, 100)
				s.waitSince(mark, "at", "point", "handled")
				killChild(s)
			}
			j.checkLists()
			s.drain()
			j.appStores("seen", j.tables())
		})
	}
}

// Killed in the middle of a restore, twice: the next worker goes on from its checkpoint, and appends to
// what was there.
func TestAppWorkerKilledInRestore(t *testing.T) {
	t.Parallel()
	j := newApp(t, oneBroker(t), 1, "process")
	j.keys, j.window = 30_000, 128<<10
	j.load(0, 60_000)
	s := j.sidecar("--compression-type", "none", "--worker-grace", "30s")
	w := j.worker(s)
	j.finish()
	w.kill()

	j.loseDisk()
	for _, at := range []string{"3 stop", "5 stop"} {
		j.ask("restore", at)
		w = j.worker(s)
		w.wait("at", "point", "restore")
		w.kill()
	}
	w = j.worker(s)
	w.wait("whole")
	j.load(60_000, 500)
	j.checkLists()
	s.drain()
	if code := w.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if whole := j.appStores("seen", j.tables()); whole != 1 {
		t.Errorf("%d stores are whole, want 1", whole)
	}
}

// The sidecar is killed under its worker, which connects to the next one without a word of user code. No
// element is lost, and none comes again; at least once those of commits in flight do.
func TestAppSidecarKilled(t *testing.T) {
	for _, c := range []struct{ style, guarantee string }{
		{"process", exactlyOnce}, {"async each", exactlyOnce}, {"each", atLeastOnce},
	} {
		t.Run(c.style+" "+c.guarantee, func(t *testing.T) {
			t.Parallel()
			const kills = 3
			j := newApp(t, oneBroker(t), 3, c.style)
			j.guarantee = c.guarantee
			flags := []string{"--session-timeout", "1s", "--heartbeat-interval", "200ms"}
			s := j.sidecar(flags...)
			w := j.worker(s)
			f := j.feed(0)
			for range kills {
				s.running(3)
				j.flowing(1 + rand.Int64N(300))
				s.kill()
				s = j.sidecar(flags...)
			}
			s.running(3)
			j.flowing(200)
			f.end()
			t.Logf("%d values came again", j.checkListsBut(kills))
			s.drain()
			if code := w.exit(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if n := len(w.since(0, func(e entry) bool { return e.is("start") })); n != 1 {
				t.Errorf("the worker was started %d times", n)
			}
			j.appStores("seen", j.tables())
		})
	}
}

// A worker dies for good, and the copies at the other pair become the tasks: their rows are whole.
func TestAppStandbyPromoted(t *testing.T) {
	t.Parallel()
	g := newGang(t, oneBroker(t), 4, quick...)
	g.program, g.declares = "app_lists.py", []string{"APP_STYLE=each"}
	f := g.feed(0)
	g.join("a", "b")
	g.settled("a", "b")
	g.flowing(500)
	had := int(g.pairs["a"].metric("pillion_tasks", `state="running"`))
	mark := g.workers["b"].mark()
	g.killWorker("a")
	g.settled("b")
	g.flowing(500)
	f.end()
	g.checkLists()
	promoted := g.workers["b"].since(mark, func(e entry) bool { return e.is("promoted") })
	if had == 0 || len(promoted) != had {
		t.Errorf("%d tasks were promoted at b, a had %d", len(promoted), had)
	}
	g.pairs["a"].exit()
	g.end("b")
	g.oneActive()
	dirs := []string{}
	for _, dir := range g.dirs {
		dirs = append(dirs, filepath.Join(dir, "tables"))
	}
	slices.Sort(dirs)
	if whole := g.appStores("seen", dirs...); whole < 4 {
		t.Errorf("%d stores are whole, want 4 at least", whole)
	}
}
