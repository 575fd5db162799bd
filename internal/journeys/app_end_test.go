//go:build kafka

package journeys

import (
	"syscall"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
)

// stop() in a handler: the unit in hand is the last one, it is committed, and the exit code is 0.
func TestAppStopsItself(t *testing.T) {
	for style, after := range map[string]int64{"each": 6, "async each": 6, "process": 10, "async process": 10} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			j := newApp(t, oneBroker(t), 1, style)
			values := append(numbered(0, 5), "stop")
			values = append(values, numbered(5, 4)...)
			j.produce(ofValues(values...)...)
			s := j.pair()
			if code := s.exit(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			s.wait("end")
			j.holds(after, values[:after]...)
			j.appStores("seen", j.tables())
		})
	}
}

// SIGTERM while records flow: what is in hand is committed, the exit code is 0, and the next start goes on there.
func TestAppSigterm(t *testing.T) {
	for _, style := range []string{"process", "async each"} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			j := newApp(t, oneBroker(t), 2, style)
			f := j.feed(0)
			s := j.pair()
			j.flowing(300)
			s.drain()
			s.wait("end")
			apart := j.sidecar()
			w := j.worker(apart)
			j.flowing(300)
			if code := w.stop(); code != 0 {
				t.Errorf("the worker's exit code is %d", code)
			}
			w.wait("end")
			w = j.worker(apart)
			j.flowing(300)
			f.end()
			j.checkLists()
			apart.drain()
			if code := w.exit(); code != 0 {
				t.Errorf("the worker's exit code is %d", code)
			}
			if whole := j.appStores("seen", j.tables()); whole != 2 {
				t.Errorf("%d stores are whole, want 2", whole)
			}
		})
	}
}

// A handler never ends. SIGTERM ends its worker all the same, within stop()'s ten seconds; what was before is
// committed, and the record comes again.
func TestAppSigtermToHandlerThatNeverEnds(t *testing.T) {
	t.Parallel()
	j := newApp(t, oneBroker(t), 1, "async each")
	j.produce(ofValues("one", "two", "never ends", "three")...)
	s := j.sidecar()
	w := j.worker(s)
	w.wait("never ends")
	began := time.Now()
	if code := w.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the end took %v", took)
	}
	j.holds(2, "one", "two")
	w = j.worker(s)
	if first := w.wait("first record").num("offset"); first != 2 {
		t.Errorf("the next start begins at %d, want 2", first)
	}
	w.wait("never ends")
	w.signal(syscall.SIGTERM)
	w.signal(syscall.SIGINT) // another one ends it at once
	began = time.Now()
	if code := w.exit(); code == 0 {
		t.Error("the exit code is 0 after a second signal")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the end after a second signal took %v", took)
	}
}

// The same where the handler blocks its process for ever: the sidecar gives up at its limit, and ends the worker
// some ten seconds later.
func TestAppDrainOfHandlerThatBlocks(t *testing.T) {
	for _, style := range []string{"process", "each"} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			j := newApp(t, oneBroker(t), 1, style)
			j.produce(ofValues("one", "two")...)
			s := j.pair("--drain-timeout", "4s", "--revoke-timeout", "2s")
			j.finish()
			j.produce(ofValues("three", "never ends")...)
			s.wait("never ends")
			began := time.Now()
			code := s.stop()
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("the end took %v", took)
			}
			t.Logf("exit code %d after %v", code, time.Since(began).Round(time.Millisecond))
			if at := j.position(); at > 3 {
				t.Errorf("position %d is behind a record that was not handled", at)
			}
		})
	}
}

// What @app.every does is committed, in every task and without a single record, and goes on behind a kill
// where it was.
func TestAppEvery(t *testing.T) {
	t.Parallel()
	j := newApp(t, oneBroker(t), 2, "")
	j.program = "app_every.py"
	s := j.pair("--restart")
	ticks := func() map[string][]int64 {
		all := map[string][]int64{}
		for _, r := range kafkatest.ReadAll(t, j.addrs, j.out, true) {
			all[string(r.Key)] = append(all[string(r.Key)], long(r.Value))
		}
		return all
	}
	for n := range 3 {
		until(t, "both tasks tick", func() bool {
			all := ticks()
			return len(all["partition 0"]) >= 10*(n+1) && len(all["partition 1"]) >= 10*(n+1)
		})
		killChild(s)
	}
	until(t, "both tasks tick", func() bool { return len(ticks()["partition 0"]) >= 50 && len(ticks()["partition 1"]) >= 50 })
	s.drain()
	counts := map[int32]int64{}
	for _, r := range kafkatest.ReadAll(t, j.addrs, j.changelogOf("counts"), true) {
		counts[r.Partition] = long(r.Value)
	}
	for p, key := range []string{"partition 0", "partition 1"} {
		all := ticks()[key]
		for i, n := range all {
			if n != int64(i+1) {
				t.Errorf("%s: tick %d is the number %d: lost or repeated", key, i+1, n)
				break
			}
		}
		if counts[int32(p)] != int64(len(all)) {
			t.Errorf("%s: the table has %d, and there were %d ticks", key, counts[int32(p)], len(all))
		}
	}
	j.appStores("counts", j.tables())
}

// long is a number as Kafka's LongSerializer writes it.
func long(b []byte) (n int64) {
	for _, each := range b {
		n = n<<8 | int64(each)
	}
	return n
}
