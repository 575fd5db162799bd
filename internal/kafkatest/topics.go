package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// CreateTopic creates a topic and waits until each partition has a leader on
// every broker's word. The replication factor is the broker's default. A topic
// that is there already is an error.
func CreateTopic(t testing.TB, addrs []string, name string, partitions int32, configs map[string]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	if err := TryCreateTopic(ctx, addrs, name, partitions, configs); err != nil {
		t.Fatalf("kafkatest: create topic %s at %v: %v", name, addrs, err)
	}
}

// TryCreateTopic is CreateTopic outside of tests.
func TryCreateTopic(ctx context.Context, addrs []string, name string, partitions int32, configs map[string]string) error {
	cl, err := client(addrs)
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := createTopic(ctx, cl, name, partitions, configs); err != nil {
		return err
	}
	return again(ctx, "wait for leaders", func() (bool, error) {
		return hasLeaders(ctx, cl, name, int(partitions))
	})
}

func createTopic(ctx context.Context, cl *kgo.Client, name string, partitions int32, configs map[string]string) error {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, -1
	for k, v := range configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = k, kmsg.StringPtr(v)
		topic.Configs = append(topic.Configs, c)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 30_000
	req.Topics = append(req.Topics, topic)
	return again(ctx, "create topic "+name, func() (bool, error) {
		res, err := req.RequestWith(ctx, cl)
		if err != nil {
			return false, err
		}
		if len(res.Topics) != 1 {
			return false, errors.New("the answer does not name the topic")
		}
		err = codeError(res.Topics[0].ErrorCode, res.Topics[0].ErrorMessage)
		if errors.Is(err, kerr.InvalidReplicationFactor) {
			return false, nil // a broker of a cluster that has just started is still fenced
		}
		return err == nil, err
	})
}

// hasLeaders asks every broker, since each learns of a topic by itself.
func hasLeaders(ctx context.Context, cl *kgo.Client, name string, partitions int) (bool, error) {
	meta, err := metadata(ctx, cl, name)
	if err != nil {
		return false, err
	}
	for _, b := range meta.Brokers {
		req := metadataRequest(name)
		res, err := req.RequestWith(ctx, cl.Broker(int(b.NodeID)))
		if err != nil {
			return false, nil // a broker that has just gone: ask again
		}
		for _, t := range res.Topics {
			if t.ErrorCode != 0 || len(t.Partitions) != partitions {
				return false, nil
			}
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 || p.Leader < 0 {
					return false, nil
				}
			}
		}
	}
	return true, nil
}

func metadataRequest(topics ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	return req
}

func metadata(ctx context.Context, cl *kgo.Client, topics ...string) (*kmsg.MetadataResponse, error) {
	return metadataRequest(topics...).RequestWith(ctx, cl)
}

// DeleteTopic deletes a topic and waits until it is gone.
func DeleteTopic(t testing.TB, addrs []string, name string) {
	t.Helper()
	with(t, "delete topic "+name, addrs, func(ctx context.Context, cl *kgo.Client) error {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TimeoutMillis = 30_000
		req.TopicNames = []string{name}
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, topic)
		res, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		for _, r := range res.Topics {
			if err := codeError(r.ErrorCode, r.ErrorMessage); err != nil {
				return err
			}
		}
		return again(ctx, "wait until it is gone", func() (bool, error) {
			meta, err := metadata(ctx, cl, name)
			if err != nil {
				return false, err
			}
			gone := len(meta.Topics) == 1 && meta.Topics[0].ErrorCode == kerr.UnknownTopicOrPartition.Code
			return gone, nil
		})
	})
}

// DeleteRecords deletes all records of a partition before an offset.
func DeleteRecords(t testing.TB, addrs []string, topic string, partition int32, before int64) {
	t.Helper()
	with(t, fmt.Sprintf("delete records of %s/%d before %d", topic, partition, before), addrs, func(ctx context.Context, cl *kgo.Client) error {
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition, p.Offset = partition, before
		rt := kmsg.NewDeleteRecordsRequestTopic()
		rt.Topic, rt.Partitions = topic, append(rt.Partitions, p)
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.TimeoutMillis = 30_000
		req.Topics = append(req.Topics, rt)
		res, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		for _, t := range res.Topics {
			for _, p := range t.Partitions {
				if err := codeError(p.ErrorCode, nil); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Leader says which node leads a partition now.
func Leader(t testing.TB, addrs []string, topic string, partition int32) int32 {
	t.Helper()
	leader := int32(-1)
	with(t, fmt.Sprintf("find the leader of %s/%d", topic, partition), addrs, func(ctx context.Context, cl *kgo.Client) error {
		return again(ctx, "wait for a leader", func() (bool, error) {
			meta, err := metadata(ctx, cl, topic)
			if err != nil {
				return false, err
			}
			for _, p := range partitionsOf(meta) {
				if p.Partition == partition && p.ErrorCode == 0 && p.Leader >= 0 {
					leader = p.Leader
				}
			}
			return leader >= 0, nil
		})
	})
	return leader
}

func partitionsOf(meta *kmsg.MetadataResponse) []kmsg.MetadataResponseTopicPartition {
	if len(meta.Topics) != 1 {
		return nil
	}
	return meta.Topics[0].Partitions
}

// TopicID is the id that Kafka gave the topic when it was created.
func TopicID(t testing.TB, addrs []string, topic string) [16]byte {
	t.Helper()
	var id [16]byte
	with(t, "find the id of "+topic, addrs, func(ctx context.Context, cl *kgo.Client) error {
		meta, err := metadata(ctx, cl, topic)
		if err != nil {
			return err
		}
		if len(meta.Topics) != 1 {
			return errors.New("the answer names no topic")
		}
		id = meta.Topics[0].TopicID
		return codeError(meta.Topics[0].ErrorCode, nil)
	})
	return id
}

// Offsets are the ends of a partition.
type Offsets struct {
	Start         int64 // the first offset that is still there
	Stable        int64 // the last stable offset: up to here a transaction's end is known
	HighWatermark int64
}

// EndOffsets asks for the ends of each partition of a topic.
func EndOffsets(t testing.TB, addrs []string, topic string) map[int32]Offsets {
	t.Helper()
	var out map[int32]Offsets
	with(t, "list offsets of "+topic, addrs, func(ctx context.Context, cl *kgo.Client) (err error) {
		out, err = endOffsets(ctx, cl, topic)
		return err
	})
	return out
}

func endOffsets(ctx context.Context, cl *kgo.Client, topic string) (map[int32]Offsets, error) {
	meta, err := metadata(ctx, cl, topic)
	if err != nil {
		return nil, err
	}
	out := map[int32]Offsets{}
	for _, p := range partitionsOf(meta) {
		out[p.Partition] = Offsets{}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("topic %s has no partition: does it exist?", topic)
	}
	for _, ask := range []struct {
		at        int64
		isolation int8
		set       func(*Offsets, int64)
	}{
		{-2, 0, func(o *Offsets, v int64) { o.Start = v }},
		{-1, 1, func(o *Offsets, v int64) { o.Stable = v }},
		{-1, 0, func(o *Offsets, v int64) { o.HighWatermark = v }},
	} {
		got, err := listOffsets(ctx, cl, topic, ask.at, ask.isolation, out)
		if err != nil {
			return nil, err
		}
		for p, v := range got {
			o := out[p]
			ask.set(&o, v)
			out[p] = o
		}
	}
	return out, nil
}

func listOffsets(ctx context.Context, cl *kgo.Client, topic string, at int64, isolation int8, of map[int32]Offsets) (map[int32]int64, error) {
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	for p := range of {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = p, at
		rt.Partitions = append(rt.Partitions, rp)
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, isolation
	req.Topics = append(req.Topics, rt)
	res, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	out := map[int32]int64{}
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			if err := codeError(p.ErrorCode, nil); err != nil {
				return nil, fmt.Errorf("partition %d: %w", p.Partition, err)
			}
			out[p.Partition] = p.Offset
		}
	}
	return out, nil
}
