//go:build kafka

package produce

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/internal/kafkatest"
)

func TestTransactionsOnKafka(t *testing.T) {
	for _, version := range []string{kafkatest.Latest, kafkatest.Previous} {
		t.Run(version, func(t *testing.T) {
			addrs := kafkatest.Broker(t, version).Addrs()
			for _, test := range []struct {
				name string
				run  func(*testing.T, []string)
			}{{"units", testUnits}, {"past", testPast}, {"fenced", testFenced}, {"foreign", testForeign}, {"fenced at each step", testFencedAtEachStep}} {
				t.Run(test.name, func(t *testing.T) { test.run(t, addrs) })
			}
		})
	}
}

// Answers are lost, the id is taken over, the broker is killed and started again: each unit whole or
// absent, as it was told.
func TestTransactionsChurnOnKafka(t *testing.T) {
	b := kafkatest.Broker(t, kafkatest.Latest)
	c := tamper(newClient(t, b.Addrs()))
	for key, n := range map[kmsg.Key]int{kmsg.Produce: 67, kmsg.EndTxn: 17, kmsg.TxnOffsetCommit: 31, kmsg.AddOffsetsToTxn: 37, kmsg.AddPartitionsToTxn: 41, kmsg.InitProducerID: 5} {
		c.on(key, every(n))
	}
	churn := &txnChurn{addrs: b.Addrs(), cluster: c, commits: 120}
	fence := func() { churn.fence(t) }
	churn.disturb = []func(){fence, fence, func() { b.Kill(); b.Start() }, fence, fence}
	churn.run(t)
}

// The broker is killed directly before a request of each kind and directly after its answer.
func TestTransactionsKilledAtEachStep(t *testing.T) {
	b := kafkatest.Broker(t, kafkatest.Latest)
	c := tamper(newClient(t, b.Addrs()))
	churn := &txnChurn{addrs: b.Addrs(), cluster: c, commits: 60, timeout: 30 * time.Second}
	for _, key := range txnSteps {
		for _, answered := range []bool{false, true} {
			if !answered && key != kmsg.Produce && key != kmsg.EndTxn {
				continue // as after the answer to the one before
			}
			churn.disturb = append(churn.disturb, func() {
				interrupt(c, key, answered, b.Kill)
				b.Start()
			})
		}
	}
	churn.run(t)
}

// A leader dies in the middle, and the coordinators of the transactions and of the group.
func TestTransactionsOnACluster(t *testing.T) {
	k := kafkatest.Cluster(t, 3)
	c := newClient(t, k.Addrs())
	churn := &txnChurn{addrs: k.Addrs(), cluster: c, commits: 60}
	kill := func(node int32) { b := k.Node(node); b.Kill(); b.Start() }
	coordinator := func(kind kafka.CoordinatorKind, key string) int32 {
		node, err := c.Coordinator(limited(t), kind, key)
		if err != nil {
			t.Error(err)
		}
		return node
	}
	churn.disturb = []func(){
		func() { kill(k.Leader("table", 0).ID()) },
		func() { kill(coordinator(kafka.Transaction, churn.current.cfg.ID)) },
		func() { churn.fence(t) },
		func() { kill(coordinator(kafka.Group, txnGroup)) },
	}
	churn.run(t)
}
