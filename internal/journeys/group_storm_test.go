//go:build kafka

package journeys

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pillion/pillion/internal/kafkatest"
)

// Three nodes and three pairs: the coordinator of the group is killed while a task is handed over, the
// leaders of changelogs move under copies that follow them, and a node that leads is killed.
func TestGroupOnThreeNodes(t *testing.T) {
	t.Parallel()
	c := kafkatest.Cluster(t, 3)
	g := newGang(t, c.Addrs(), 3)
	f := g.feed(0)
	g.join("a", "b")
	g.settled("a", "b")
	g.flowing(500)

	g.join("c") // and while it is given its share:
	coordinator := c.Coordinator(g.group)
	coordinator.Kill()
	g.settled("a", "b", "c")
	g.flowing(500)
	coordinator.Start()

	for p := range int32(3) {
		c.MoveLeader(g.changelog(), p, c.Leader(g.changelog(), p).ID()%3+1)
	}
	g.flowing(500)
	leader := c.Leader(g.changelog(), 1)
	leader.Kill()
	g.flowing(500)
	g.end("a")
	g.settled("b", "c")
	leader.Start()
	f.end()
	g.check()
	g.end("b", "c")
	g.sound()
}

// Three pairs with copies in one storm: workers are killed and come back, pairs drain and come back with
// or without their disk, in any order. No sidecar is killed, so everything is exact.
func TestGroupStorm(t *testing.T) {
	t.Parallel()
	g := newGang(t, oneBroker(t), 4, "--restart")
	f := g.feed(0)
	names := []string{"a", "b", "c"}
	g.join(names...)
	g.settled(names...)
	g.flowing(500)

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 12 {
		name := names[rnd.IntN(len(names))]
		switch rnd.IntN(3) {
		case 0:
			t.Logf("kill worker %s", name)
			mark := g.workers[name].mark()
			killChild(g.pairs[name])
			g.workers[name].waitSince(mark, "connected")
		case 1:
			t.Logf("drain %s, and start it again", name)
			g.end(name)
			g.join(name)
			g.workers[name].wait("connected")
		case 2:
			t.Logf("drain %s, and start it without its disk", name)
			g.end(name)
			g.dirs[name] = ""
			g.join(name)
			g.workers[name].wait("connected")
		}
		if rnd.IntN(2) == 0 {
			g.settled(names...)
		}
		g.flowing(rnd.Int64N(600))
	}
	g.settled(names...)
	f.end()
	g.check()
	g.end(slices.Clone(names)...)
	g.sound()
}
