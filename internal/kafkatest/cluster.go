//go:build kafka

package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafkatest/kafkaproc"
)

// RealCluster is a real Kafka of some nodes, each in its own rack (r1, r2, r3).
type RealCluster struct {
	Nodes []*RealBroker

	t     testing.TB
	kafka *kafkaproc.Kafka
}

// Cluster starts a real Kafka of n nodes and waits until each of them lists all.
// With three, topics have three replicas and two must be in sync; one broker
// may die, and its leaders are elsewhere after 2 to 3 s.
func Cluster(t testing.TB, n int, options ...Option) *RealCluster {
	t.Helper()
	c := kafkaproc.Config{Brokers: n, Dir: t.TempDir(), Properties: map[string]string{}}
	for _, o := range options {
		o(&c)
	}
	k, err := kafkaproc.New(context.Background(), c)
	if err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	t.Cleanup(func() {
		k.Close()
		if t.Failed() {
			for _, node := range k.Nodes {
				t.Logf("broker %d at %s complained of\n%s\nand its log ends with\n%s", node.ID, node.Addr, node.Trouble(20), node.Log(10))
			}
		}
	})
	if err := k.Start(context.Background()); err != nil {
		t.Fatalf("kafkatest: start kafka %s: %v", c.Version, err)
	}
	out := &RealCluster{t: t, kafka: k}
	for _, node := range k.Nodes {
		out.Nodes = append(out.Nodes, &RealBroker{t: t, node: node})
	}
	return out
}

// Addrs are the addresses of all nodes, for bootstrap_servers.
func (c *RealCluster) Addrs() []string {
	var out []string
	for _, n := range c.Nodes {
		out = append(out, n.Addr())
	}
	return out
}

// Node finds a node by its id.
func (c *RealCluster) Node(id int32) *RealBroker {
	c.t.Helper()
	for _, n := range c.Nodes {
		if n.ID() == id {
			return n
		}
	}
	c.t.Fatalf("kafkatest: the cluster has no node %d", id)
	return nil
}

// Leader is the node that leads a partition now.
func (c *RealCluster) Leader(topic string, partition int32) *RealBroker {
	c.t.Helper()
	return c.Node(Leader(c.t, c.Addrs(), topic, partition))
}

// Coordinator is the node that coordinates a group now.
func (c *RealCluster) Coordinator(group string) *RealBroker {
	c.t.Helper()
	node := int32(-1)
	with(c.t, "find the coordinator of group "+group, c.Addrs(), func(ctx context.Context, cl *kgo.Client) error {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey, req.CoordinatorKeys = group, []string{group} // by version
		return again(ctx, "wait", func() (bool, error) {
			res, err := req.RequestWith(ctx, cl)
			if err != nil {
				return false, err
			}
			node = res.NodeID
			if len(res.Coordinators) == 1 {
				node = res.Coordinators[0].NodeID
			}
			return node > 0, nil
		})
	})
	return c.Node(node)
}

// MoveLeader makes a running node the leader of a partition and waits until
// every broker says so.
func (c *RealCluster) MoveLeader(topic string, partition, to int32) {
	c.t.Helper()
	what := fmt.Sprintf("move the leader of %s/%d to node %d", topic, partition, to)
	with(c.t, what, c.Addrs(), func(ctx context.Context, cl *kgo.Client) error {
		if err := c.prefer(ctx, cl, topic, partition, to); err != nil {
			return fmt.Errorf("reassign: %w", err)
		}
		return again(ctx, "elect", func() (bool, error) {
			if err := elect(ctx, cl, topic, partition); err != nil {
				return false, err
			}
			return c.allSay(ctx, cl, topic, partition, to)
		})
	})
}

// prefer puts a node first in the partition's list of replicas.
func (c *RealCluster) prefer(ctx context.Context, cl *kgo.Client, topic string, partition, to int32) error {
	meta, err := metadata(ctx, cl, topic)
	if err != nil {
		return err
	}
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Partition, p.Replicas = partition, []int32{to}
	for _, mp := range partitionsOf(meta) {
		for _, r := range mp.Replicas {
			if mp.Partition == partition && r != to {
				p.Replicas = append(p.Replicas, r)
			}
		}
	}
	rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, p)
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = 30_000
	req.Topics = append(req.Topics, rt)
	res, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			if err := codeError(p.ErrorCode, p.ErrorMessage); err != nil {
				return err
			}
		}
	}
	return codeError(res.ErrorCode, res.ErrorMessage)
}

func elect(ctx context.Context, cl *kgo.Client, topic string, partition int32) error {
	rt := kmsg.NewElectLeadersRequestTopic()
	rt.Topic, rt.Partitions = topic, []int32{partition}
	req := kmsg.NewPtrElectLeadersRequest()
	req.TimeoutMillis = 30_000
	req.Topics = append(req.Topics, rt)
	res, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			err := codeError(p.ErrorCode, p.ErrorMessage)
			waits := errors.Is(err, kerr.ElectionNotNeeded) || errors.Is(err, kerr.PreferredLeaderNotAvailable)
			if err != nil && !waits {
				return err
			}
		}
	}
	return codeError(res.ErrorCode, nil)
}

// allSay asks each running node for the leader.
func (c *RealCluster) allSay(ctx context.Context, cl *kgo.Client, topic string, partition, leader int32) (bool, error) {
	for _, n := range c.Nodes {
		if !n.Running() {
			continue
		}
		req := metadataRequest(topic)
		res, err := req.RequestWith(ctx, cl.Broker(int(n.ID())))
		if err != nil {
			return false, ctx.Err()
		}
		for _, p := range partitionsOf(res) {
			if p.Partition == partition && p.Leader != leader {
				return false, nil
			}
		}
	}
	return true, nil
}
