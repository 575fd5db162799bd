package kafkatest

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// FakeCluster is an in-process Kafka. All of kfake's own methods are there:
// Control, Fault, MoveTopicPartition, WaitGroupStable, Compact, ...
type FakeCluster struct {
	*kfake.Cluster
}

// Fake starts an in-process Kafka of three brokers (nodes 0 to 2) that ends
// with the test. Topics are not created by being asked for. Sessions of a
// group may be as short as 50 ms. Any option of kfake may be given, and a
// later one wins: Fake(t, kfake.NumBrokers(1), kfake.SeedTopics(4, "in")).
//
// It is not Kafka in every corner: coordinators answer from the first moment,
// a topic's message.timestamp.type is ignored, and some error codes differ.
// What rests on such a corner is tested with Broker.
func Fake(t testing.TB, opts ...kfake.Opt) *FakeCluster {
	t.Helper()
	all := append([]kfake.Opt{
		kfake.NumBrokers(3),
		kfake.GroupMinSessionTimeout(50 * time.Millisecond),
	}, opts...)
	c, err := kfake.NewCluster(all...)
	if err != nil {
		t.Fatalf("kafkatest: start the in-process kafka: %v", err)
	}
	t.Cleanup(c.Close)
	return &FakeCluster{Cluster: c}
}

// Addrs are the addresses of all brokers, for bootstrap_servers.
func (f *FakeCluster) Addrs() []string { return f.ListenAddrs() }

// Topic creates a topic at once and without a request.
func (f *FakeCluster) Topic(t testing.TB, name string, partitions int32, configs map[string]string) {
	t.Helper()
	if err := f.CreateTopic(name, partitions, configs); err != nil {
		t.Fatalf("kafkatest: create topic %s: %v", name, err)
	}
}
