//go:build kafka

package journeys

import (
	"testing"

	"github.com/pillion/pillion/internal/kafkatest"
)

// Three nodes: leader, coordinator and bootstrap differ. The group's coordinator is killed; leaders
// are moved; the node that leads is killed: while records flow and commits go on.
func TestThreeNodes(t *testing.T) {
	t.Parallel()
	c := kafkatest.Cluster(t, 3)
	j := newJob(t, c.Addrs(), 3)
	s := j.sidecar("--worker-grace", "60s")
	w := j.worker(s)
	f := j.feed(0)
	j.flowing(200)

	coordinator := c.Coordinator(j.group)
	coordinator.Kill()
	j.flowing(200)
	coordinator.Start()

	for _, topic := range []string{j.in, j.changelog(), j.out} {
		c.MoveLeader(topic, 0, c.Leader(topic, 0).ID()%3+1)
	}
	j.flowing(200)

	leader := c.Leader(j.changelog(), 1)
	leader.Kill()
	j.flowing(200)
	leader.Start()

	f.end()
	j.check()
	s.drain()
	w.exit()
	j.files()
}

// Three nodes, in the middle of a long replay: the leader of the changelog is moved, then killed.
func TestLeaderLostDuringRestore(t *testing.T) {
	t.Parallel()
	c := kafkatest.Cluster(t, 3)
	j := big(t, c.Addrs())
	j.load(0, bigRows)
	s := j.sidecar("--compression-type", "none", "--worker-grace", "60s")
	w := j.worker(s)
	j.finish()
	w.kill()

	j.loseDisk()
	j.ask("restore", "10 stop")
	w = j.worker(s)
	w.wait("at", "point", "restore")
	c.MoveLeader(j.changelog(), 0, c.Leader(j.changelog(), 0).ID()%3+1)
	j.ask("restore", "20 stop")
	mark := w.mark()
	w.signal(sigcont)
	w.waitSince(mark, "at", "point", "restore")
	leader := c.Leader(j.changelog(), 0)
	leader.Kill()
	w.signal(sigcont)
	if n := w.wait("whole").num("records"); n != bigRows {
		t.Errorf("%d records replayed, the changelog has %d", n, bigRows)
	}
	leader.Start()
	j.load(bigRows, 100)
	j.check()
	s.drain()
	w.exit()
	j.files()
}
