//go:build kafka

package journeys

import (
	"testing"

	"github.com/pillion/pillion/internal/kafkatest"
)

// The only broker is killed and started again while records flow, while a commit is on its way, and
// during a restore. Everything goes on by itself; nothing is lost, and nothing is written twice.
func TestBrokerKilled(t *testing.T) {
	t.Parallel()
	b := kafkatest.Broker(t, kafkatest.Latest)
	j := newJob(t, b.Addrs(), 2)
	s := j.sidecar("--worker-grace", "60s")
	w := j.worker(s)
	f := j.feed(0)
	j.flowing(200)

	b.Kill() // wherever things are
	b.Start()
	j.flowing(200)

	b.Pause() // nothing answers: a commit cannot come to its end
	until(t, "a commit waits for the broker", func() bool { return s.metric("pillion_commits_outstanding") > 0 })
	b.Kill()
	b.Start()
	j.flowing(200)

	f.end()
	j.check()
	s.drain()
	w.exit()
	j.files()
}

// The same in the middle of a long replay.
func TestBrokerKilledDuringRestore(t *testing.T) {
	t.Parallel()
	b := kafkatest.Broker(t, kafkatest.Latest)
	j := big(t, b.Addrs())
	j.load(0, bigRows)
	s := j.sidecar("--compression-type", "none", "--worker-grace", "60s")
	w := j.worker(s)
	j.finish()
	w.kill()

	j.loseDisk()
	j.ask("restore", "20 stop")
	w = j.worker(s)
	w.wait("at", "point", "restore")
	b.Kill()
	w.signal(sigcont)
	b.Start()
	if n := w.wait("whole").num("records"); n != bigRows {
		t.Errorf("%d records replayed, the changelog has %d", n, bigRows)
	}
	j.load(bigRows, 100)
	j.check()
	s.drain()
	w.exit()
	j.files()
}

// One journey on the Kafka before.
func TestPreviousKafka(t *testing.T) {
	t.Parallel()
	b := kafkatest.Broker(t, kafkatest.Previous)
	j := newJob(t, b.Addrs(), 3)
	s := j.pair("--restart")
	f := j.feed(0)
	j.flowing(200)
	killChild(s)
	j.flowing(200)
	f.end()
	j.check()
	s.drain()
	s = j.pair("--restart")
	j.load(1_000_000, 300)
	j.check()
	s.drain()
	j.files()
}
