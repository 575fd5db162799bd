//go:build kafka

package journeys

import (
	"syscall"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
)

// SIGTERM: the commit that the worker is about to make still lands, the worker ends, the group is
// empty, the exit code is 0.
func TestDrain(t *testing.T) {
	t.Parallel()
	j := newJob(t, oneBroker(t), 1)
	j.load(0, 100)
	j.ask("commit", "stop")
	s := j.pair("--restart")
	s.wait("at", "point", "commit")
	s.signal(syscall.SIGTERM)
	s.wait("draining")
	if err := syscall.Kill(s.workerPID(), sigcont); err != nil {
		t.Fatal(err)
	}
	if code := s.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if n := j.committed(); n != 100 {
		t.Errorf("%d inputs are committed after the drain, the last commit had 100", n)
	}
	if g := kafkatest.GroupState(t, j.addrs, j.group); len(g.Members) > 0 {
		t.Errorf("the group is %s with %d members after the drain", g.State, len(g.Members))
	}
	if n := len(s.since(0, func(e entry) bool { return e.is("end") })); n != 1 {
		t.Errorf("the worker came to its end %d times", n)
	}
	j.check()
	j.files()
}

// A second signal ends everything at once, whatever the worker does.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	j := newJob(t, oneBroker(t), 1)
	j.load(0, 100)
	j.ask("commit", "stop")
	s := j.pair("--restart", "--drain-timeout", "10m", "--revoke-timeout", "5m", "--session-timeout", "1s", "--heartbeat-interval", "200ms")
	s.wait("at", "point", "commit")
	pid := s.workerPID()
	s.signal(syscall.SIGTERM)
	s.wait("draining")
	began := time.Now()
	s.signal(syscall.SIGINT) // another one: SIGTERM so soon would be the first once more
	if code := s.exit(); code == 0 {
		t.Error("the exit code is 0 although nothing was finished")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the end took %v", took)
	}
	if syscall.Kill(pid, 0) == nil {
		t.Error("the worker is still there")
	}
	s = j.pair("--restart")
	j.check()
	s.stop()
	j.files()
}

// The exit code is the worker's.
func TestExitCodeOfTheWorker(t *testing.T) {
	t.Parallel()
	j := newJob(t, oneBroker(t), 1)
	s := j.place.run(t, j.addrs, nil, "--group-id", j.group, "--", python(t), "-c", "raise SystemExit(7)")
	if code := s.exit(); code != 7 {
		t.Errorf("exit code %d, the worker's was 7", code)
	}
}
