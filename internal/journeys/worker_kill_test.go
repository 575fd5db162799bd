//go:build kafka

package journeys

import "testing"

// With --restart the sidecar stays: nothing repeats, and the group does not notice.
func TestWorkerKilledWhileRecordsFlow(t *testing.T) {
	t.Parallel()
	j := newJob(t, oneBroker(t), 3)
	s := j.pair("--restart")
	f := j.feed(0)
	s.running(3)
	generation := s.generation()
	for range 3 {
		j.flowing(200)
		mark := s.mark()
		killChild(s)
		s.waitSince(mark, "start")
	}
	j.flowing(200)
	f.end()
	j.check()
	if now := s.generation(); now != generation {
		t.Errorf("generation %d, was %d", now, generation)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	j.files()
}
