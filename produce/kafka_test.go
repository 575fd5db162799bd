//go:build kafka

package produce

import (
	"testing"

	"github.com/pillion/pillion/internal/kafkatest"
)

func TestFaithfulOnKafka(t *testing.T) {
	testFaithful(t, kafkatest.Broker(t, kafkatest.Latest).Addrs())
}

// The broker is killed in the middle and started again: nothing twice, nothing lost.
func TestBrokerKilled(t *testing.T) {
	for _, version := range []string{kafkatest.Latest, kafkatest.Previous} {
		t.Run(version, func(t *testing.T) {
			b := kafkatest.Broker(t, version)
			kafkatest.CreateTopic(t, b.Addrs(), "table", churnTasks, nil)
			kafkatest.CreateTopic(t, b.Addrs(), "out", 6, nil)
			restart := func() { b.Kill(); b.Start() }
			churn{addrs: b.Addrs(), cluster: newClient(t, b.Addrs()), commits: 150, disturb: []func(){restart, restart}}.run(t)
		})
	}
}

// Leaders move, a leader dies: nothing twice, nothing lost.
func TestLeadersMove(t *testing.T) {
	c := kafkatest.Cluster(t, 3)
	kafkatest.CreateTopic(t, c.Addrs(), "table", churnTasks, nil)
	kafkatest.CreateTopic(t, c.Addrs(), "out", 6, nil)
	next := func(partition int32) int32 { return c.Leader("table", partition).ID()%3 + 1 }
	churn{
		addrs: c.Addrs(), cluster: &lossy{Client: newClient(t, c.Addrs())}, commits: 25,
		disturb: []func(){
			func() { c.MoveLeader("table", 0, next(0)); c.MoveLeader("table", 1, next(1)) },
			func() { b := c.Leader("table", 2); b.Kill(); b.Start() },
			func() { c.MoveLeader("table", 3, next(3)) },
		},
	}.run(t)
}
