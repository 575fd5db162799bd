//go:build kafka

package journeys

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafkatest"
)

// lost are the inputs whose commits the worker saw fail: what may be processed once more.
func lost(w *process) func(kafkatest.Record) bool {
	failed := w.since(0, func(e entry) bool { return e.is("commit", "ok", false) })
	return func(r kafkatest.Record) bool {
		return slices.ContainsFunc(failed, func(e entry) bool {
			return e.num("partition") == int64(r.Partition) && e.num("base") <= r.Offset && r.Offset < e.num("next")
		})
	}
}

// The sidecar is killed and started again; its worker stays and connects to the next one. Nothing is
// lost or comes twice; at least once commits in flight may be repeated.
func TestSidecarKilledWhileRecordsFlow(t *testing.T) {
	for _, guarantee := range []string{exactlyOnce, atLeastOnce} {
		t.Run(guarantee, func(t *testing.T) {
			t.Parallel()
			killWhileRecordsFlow(t, guarantee)
		})
	}
}

func killWhileRecordsFlow(t *testing.T, guarantee string) {
	j := newJob(t, oneBroker(t), 3)
	j.guarantee = guarantee
	flags := []string{"--session-timeout", "1s", "--heartbeat-interval", "200ms"}
	s := j.sidecar(flags...)
	w := j.worker(s)
	f := j.feed(0)
	for range 2 {
		s.running(3)
		j.flowing(200)
		s.kill()
		s = j.sidecar(flags...)
	}
	s.running(3)
	j.flowing(200)
	f.end()
	j.finish()
	again := j.checkButFor(lost(w))
	t.Logf("%d inputs came twice", len(again))
	s.drain()
	w.exit()
	j.files()
}

// Killed exactly between the acknowledgement of a commit's writes and the commit of its positions:
// at least once that commit is repeated, and no other.
func TestSidecarKilledBetweenProduceAndPositions(t *testing.T) {
	t.Parallel()
	fake := kafkatest.Fake(t)
	j := newJob(t, fake.Addrs(), 1)
	j.guarantee = atLeastOnce
	flags := []string{"--session-timeout", "1s", "--heartbeat-interval", "200ms"}
	j.load(0, 100)
	s := j.sidecar(flags...)
	w := j.worker(s)
	j.finish()

	held := holdBack(t, fake, offsetCommitKey, func(r kmsg.Request) bool {
		return r.(*kmsg.OffsetCommitRequest).Topics[0].Partitions[0].Offset > 100
	})
	j.load(100, 50)
	at := held.request().(*kmsg.OffsetCommitRequest).Topics[0].Partitions[0].Offset
	s.kill()
	held.forget()
	s = j.sidecar(flags...)
	j.load(150, 50)
	again := j.checkButFor(func(r kafkatest.Record) bool { return r.Offset >= 100 && r.Offset < at })
	if int64(len(again)) != at-100 {
		t.Errorf("%d outputs came twice, the commit in flight had %d", len(again), at-100)
	}
	s.drain()
	w.exit()
	j.files()
}

// Killed at each step of a transaction: before its positions are there, and before its end. Exactly once
// nothing of it is to be seen, and the next sidecar does all of it anew.
func TestSidecarKilledInItsTransaction(t *testing.T) {
	for name, key := range map[string]int16{"positions": txnOffsetCommitKey, "end": endTxnKey} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := kafkatest.Fake(t)
			j := newJob(t, fake.Addrs(), 1)
			flags := []string{"--session-timeout", "1s", "--heartbeat-interval", "200ms"}
			j.load(0, 100)
			s := j.sidecar(flags...)
			w := j.worker(s)
			j.finish()

			held := holdBack(t, fake, key, func(kmsg.Request) bool { return true })
			j.load(100, 50)
			held.request()
			s.kill()
			held.forget()
			s = j.sidecar(flags...)
			j.load(150, 50)
			j.check()
			s.drain()
			w.exit()
			j.files()
		})
	}
}
