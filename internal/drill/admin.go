package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// again calls fn until it is done, fails or the context ends; it asks, since nothing tells.
func again(ctx context.Context, what string, fn func() (done bool, err error)) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		done, err := fn()
		if done && err == nil {
			return nil
		}
		if err != nil {
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s: %w", what, ctx.Err()), last)
		}
	}
}

func (c *cluster) createTopic(ctx context.Context, name string, partitions int32) error {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, -1
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10_000
	req.Topics = append(req.Topics, topic)
	return again(ctx, "create topic "+name, func() (bool, error) {
		res, err := req.RequestWith(ctx, c.admin)
		if err != nil {
			return false, err
		}
		err = kerr.ErrorForCode(res.Topics[0].ErrorCode)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return false, err
		}
		parts, err := c.partitions(ctx, name)
		return err == nil && len(parts) == int(partitions) && !slices.ContainsFunc(parts, leaderless), err
	})
}

func leaderless(p kmsg.MetadataResponseTopicPartition) bool { return p.Leader < 0 || p.ErrorCode != 0 }

func (c *cluster) deleteTopic(ctx context.Context, name string) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 10_000
	req.TopicNames = []string{name}
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = kmsg.StringPtr(name)
	req.Topics = append(req.Topics, topic)
	return again(ctx, "delete topic "+name, func() (bool, error) {
		res, err := req.RequestWith(ctx, c.admin)
		if err != nil {
			return false, err
		}
		if err := kerr.ErrorForCode(res.Topics[0].ErrorCode); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return false, err
		}
		_, err = c.partitions(ctx, name)
		return errors.Is(err, kerr.UnknownTopicOrPartition), nil
	})
}

// partitions are a topic's, as any broker says.
func (c *cluster) partitions(ctx context.Context, topic string) ([]kmsg.MetadataResponseTopicPartition, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, t)
	res, err := req.RequestWith(ctx, c.admin)
	if err != nil {
		return nil, err
	}
	if len(res.Topics) != 1 {
		return nil, errors.New("the answer names no topic")
	}
	return res.Topics[0].Partitions, kerr.ErrorForCode(res.Topics[0].ErrorCode)
}

// inSync waits until every partition of these topics has all its replicas in sync.
func (c *cluster) inSync(ctx context.Context, topics ...string) error {
	return again(ctx, "wait for replicas to be in sync", func() (bool, error) {
		for _, topic := range topics {
			parts, err := c.partitions(ctx, topic)
			if err != nil {
				return false, err
			}
			for _, p := range parts {
				if leaderless(p) || len(p.ISR) < len(p.Replicas) {
					return false, nil
				}
			}
		}
		return true, nil
	})
}

// move makes a broker the leader of one partition of some topics. It calls now directly before the first leader
// changes, with the node that led.
func (c *cluster) move(ctx context.Context, partition, to int32, now func(from int32), topics ...string) error {
	from := int32(-1)
	for _, topic := range topics {
		led, err := c.prefer(ctx, topic, partition, to)
		if err != nil {
			return fmt.Errorf("reassign %s/%d: %w", topic, partition, err)
		}
		if led != to {
			from = led
		}
	}
	if from < 0 {
		return errNothingToMove
	}
	req := kmsg.NewPtrElectLeadersRequest()
	req.TimeoutMillis = 5_000
	for _, topic := range topics {
		rt := kmsg.NewElectLeadersRequestTopic()
		rt.Topic, rt.Partitions = topic, []int32{partition}
		req.Topics = append(req.Topics, rt)
	}
	now(from)
	return again(ctx, "elect", func() (bool, error) {
		if _, err := req.RequestWith(ctx, c.admin); err != nil {
			return false, err
		}
		for _, topic := range topics {
			parts, err := c.partitions(ctx, topic)
			if err != nil {
				return false, err
			}
			for _, p := range parts {
				if p.Partition == partition && p.Leader != to {
					return false, nil
				}
			}
		}
		return true, nil
	})
}

var errNothingToMove = errors.New("it leads already")

// prefer puts a broker first in a partition's replicas, and says who leads.
func (c *cluster) prefer(ctx context.Context, topic string, partition, to int32) (leader int32, err error) {
	parts, err := c.partitions(ctx, topic)
	if err != nil {
		return 0, err
	}
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Partition, p.Replicas = partition, []int32{to}
	for _, mp := range parts {
		if mp.Partition != partition {
			continue
		}
		leader = mp.Leader
		for _, r := range mp.Replicas {
			if r != to {
				p.Replicas = append(p.Replicas, r)
			}
		}
	}
	rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, p)
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = 5_000
	req.Topics = append(req.Topics, rt)
	res, err := req.RequestWith(ctx, c.admin)
	if err != nil {
		return leader, err
	}
	return leader, kerr.ErrorForCode(res.ErrorCode)
}

// groupState is what the coordinator says of the group.
func (c *cluster) groupState(ctx context.Context, group string) (state string, members int, err error) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	res, err := req.RequestWith(ctx, c.admin)
	if err != nil {
		return "", 0, err
	}
	if len(res.Groups) != 1 {
		return "", 0, errors.New("the answer names no group")
	}
	return res.Groups[0].State, len(res.Groups[0].Members), kerr.ErrorForCode(res.Groups[0].ErrorCode)
}
