//go:build kafka

package journeys

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/restore"
)

// With --restart the sidecar stays: nothing repeats, the group does not notice, and what is replayed
// is at most the one commit of each task that the killed worker had no answer for.
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
		for _, e := range s.waitAll(mark, 3, "whole") {
			if n := e.num("records"); n > int64(j.keys) {
				t.Errorf("%d records of %s replayed, a commit has at most %d", n, e.str("task"), j.keys)
			}
		}
	}
	j.flowing(200)
	f.end()
	j.check()
	if now := s.generation(); now != generation {
		t.Errorf("generation %d, was %d", now, generation)
	}
	s.drain()
	j.files()
}

// The commit is on its way in Kafka when the worker dies: it comes to its end without it, the next
// worker replays exactly its rows, and nothing is processed twice.
func TestWorkerKilledBetweenCommitAndCommitted(t *testing.T) {
	t.Parallel()
	changelog := func(j *job) func(kmsg.Request) bool { return writesTo(t, j.addrs, j.changelog()) }
	output := func(j *job) func(kmsg.Request) bool { return writesTo(t, j.addrs, j.out) }
	every := func(*job) func(kmsg.Request) bool { return func(kmsg.Request) bool { return true } }
	for name, step := range map[string]struct {
		guarantee string
		key       int16
		match     func(*job) func(kmsg.Request) bool
	}{
		"changelog":               {exactlyOnce, produceKey, changelog},
		"positions":               {exactlyOnce, txnOffsetCommitKey, every},
		"end":                     {exactlyOnce, endTxnKey, every},
		"changelog at least once": {atLeastOnce, produceKey, changelog},
		"output at least once":    {atLeastOnce, produceKey, output},
		"positions at least once": {atLeastOnce, offsetCommitKey, func(*job) func(kmsg.Request) bool { return pastClaim }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := kafkatest.Fake(t)
			j := newJob(t, fake.Addrs(), 1)
			j.guarantee = step.guarantee
			kafkatest.CreateTopic(t, j.addrs, j.changelog(), 1, map[string]string{"cleanup.policy": "compact"})
			held := holdBack(t, fake, step.key, step.match(j))
			j.load(0, 100)
			s := j.pair("--restart")
			held.request()
			generation, mark := s.generation(), s.mark()
			killChild(s)
			s.waitSince(mark, "connected") // and is assigned nothing while the commit has no end
			if n := len(s.since(mark, func(e entry) bool { return e.is("assigned") })); n > 0 {
				t.Error("a task was opened while a commit of it had no end")
			}
			held.release()
			restored := s.waitSince(mark, "whole")
			j.load(100, 100)
			j.check()
			if n := restored.num("records"); n != int64(j.keys) {
				t.Errorf("%d records replayed, the commit has written %d", n, j.keys)
			}
			if now := s.generation(); now != generation {
				t.Errorf("generation %d, was %d", now, generation)
			}
			s.drain()
			j.files()
		})
	}
}

// big makes a job whose table is large: one key for each input, wide rows.
func big(t *testing.T, addrs []string) *job {
	t.Helper()
	j := newJob(t, addrs, 1)
	j.keys, j.pad, j.window = 1_000_000, 400, 1<<20
	return j
}

const bigRows = 60_000

// Killed in the middle of a long replay, by hand: the next worker goes on from its checkpoint.
func TestWorkerKilledDuringRestore(t *testing.T) {
	t.Parallel()
	const rows = 110_000
	j := big(t, oneBroker(t))
	j.load(0, rows)
	s := j.sidecar("--compression-type", "none", "--worker-grace", "30s")
	w := j.worker(s)
	j.finish()
	generation := s.generation()
	w.kill()

	j.loseDisk()
	j.ask("restore", "114 stop") // some 39 MB: more than the store gathers before it writes
	w = j.worker(s)
	w.wait("at", "point", "restore")
	w.kill()

	w = j.worker(s)
	next := checkpointNext(t, w.wait("assigned"))
	replayed := w.wait("whole").num("records")
	left := int64(0)
	for _, r := range kafkatest.ReadAll(t, j.addrs, j.changelog(), true) {
		if r.Offset >= next { // markers of transactions take offsets, too
			left++
		}
	}
	if next == 0 || replayed != left {
		t.Errorf("%d records replayed from the checkpoint at %d, behind which are %d", replayed, next, left)
	}
	j.load(rows, 100)
	j.check()
	if now := s.generation(); now != generation {
		t.Errorf("generation %d, was %d", now, generation)
	}
	s.drain()
	if code := w.exit(); code != 0 {
		t.Errorf("the worker's exit code is %d", code)
	}
	j.files()
}

// checkpointNext is the offset in a checkpoint; 0 when there is none.
func checkpointNext(t *testing.T, assigned entry) int64 {
	t.Helper()
	text := assigned.str("checkpoint")
	if text == "" {
		return 0
	}
	at, err := restore.ParseCheckpoint(text)
	if err != nil {
		t.Fatal(err)
	}
	return at.Next
}

// A worker that stays away longer than the grace costs the membership; a later one joins again.
func TestWorkerGoneBeyondTheGrace(t *testing.T) {
	t.Parallel()
	j := newJob(t, oneBroker(t), 2)
	s := j.sidecar("--worker-grace", "500ms")
	w := j.worker(s)
	f := j.feed(0)
	j.flowing(200)
	w.kill()
	s.wait("no worker came back within the grace, leaving the group")
	kafkatest.WaitGroup(t, j.addrs, j.group, func(g kafkatest.Group) bool { return len(g.Members) == 0 })
	until(t, "the sidecar is no member", func() bool { return s.metric("pillion_group_member") == 0 })
	w = j.worker(s)
	s.running(2)
	j.flowing(200)
	f.end()
	j.check()
	s.drain()
	w.exit()
	j.files()
}

// While a worker stands still the heartbeats go on, for longer than the session timeout.
func TestWorkerStoppedWithinTheLimit(t *testing.T) {
	t.Parallel()
	fake := kafkatest.Fake(t)
	j := newJob(t, fake.Addrs(), 2)
	beats := make(chan struct{}, 10_000)
	fake.ControlKey(heartbeatKey, func(kmsg.Request) (kmsg.Response, error, bool) { //nolint:revive // kfake's order
		fake.KeepControl()
		beats <- struct{}{}
		return nil, nil, false
	})
	s := j.sidecar("--session-timeout", "1s", "--heartbeat-interval", "100ms")
	w := j.worker(s)
	f := j.feed(0)
	j.flowing(200)
	generation := s.generation()
	j.ask("records", "stop")
	w.wait("at", "point", "records")
	for range len(beats) {
		<-beats
	}
	for range 30 { // three session timeouts
		select {
		case <-beats:
		case <-time.After(patience):
			t.Fatal("no heartbeat while the worker stands still")
		}
	}
	w.signal(sigcont)
	w.wait("goes on")
	j.flowing(200)
	f.end()
	j.check()
	if now := s.generation(); now != generation {
		t.Errorf("generation %d, was %d", now, generation)
	}
	if n := s.metric("pillion_worker_connects_total"); n != 1 {
		t.Errorf("the worker connected %v times", n)
	}
	s.drain()
	w.exit()
	j.files()
}

// A worker that stands still beyond the limit is hung: the group is left. When it goes on, the commit
// that it was about to make belongs to an epoch that is over, and nothing of it may be seen.
func TestWorkerStoppedBeyondTheLimit(t *testing.T) {
	t.Parallel()
	j := newJob(t, oneBroker(t), 2)
	j.load(0, 200)
	j.ask("commit", "stop")
	s := j.sidecar("--max-processing", "1s")
	w := j.worker(s)
	w.wait("at", "point", "commit")
	s.wait("the worker is hung, leaving the group")
	kafkatest.WaitGroup(t, j.addrs, j.group, func(g kafkatest.Group) bool { return len(g.Members) == 0 })
	if status, _ := s.get("/worker-livez"); status != 503 {
		t.Errorf("/worker-livez answers %d", status)
	}
	w.signal(sigcont)
	w.wait("commit", "ok", false)
	if n := len(kafkatest.ReadAll(t, j.addrs, j.out, false)) + len(kafkatest.ReadAll(t, j.addrs, j.changelog(), false)); n > 200+2*j.keys {
		t.Errorf("%d records in output and changelog after the loss", n)
	}
	s.running(2)
	j.load(200, 200)
	j.check()
	s.drain()
	w.exit()
	j.files()
}

// A blocked event loop answers nothing, not even pings, and costs nothing within the limit.
func TestWorkerBlocksItsLoopForAMinute(t *testing.T) {
	t.Parallel()
	j := newJob(t, oneBroker(t), 2)
	s := j.sidecar("--session-timeout", "6s")
	w := j.worker(s)
	j.load(0, 200)
	j.finish()
	generation := s.generation()
	j.ask("records", "block 60")
	j.load(200, 2_000)
	w.wait("at", "point", "records")
	w.waitFor(0, "the end of the block", func(e entry) bool { return e.is("goes on") })
	j.check()
	if now := s.generation(); now != generation {
		t.Errorf("generation %d, was %d", now, generation)
	}
	if n := s.metric("pillion_worker_connects_total"); n != 1 {
		t.Errorf("the worker connected %v times", n)
	}
	s.drain()
	w.exit()
	j.files()
}
