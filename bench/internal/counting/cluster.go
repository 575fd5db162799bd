package counting

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

var errExists = errors.New("the topic exists")

// cluster is what the bench itself asks Kafka.
type cluster struct {
	addrs []string
	cl    *kgo.Client
}

func connect(addrs []string) (*cluster, error) {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(9, 9) // OffsetFetch that names topics by their names
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.MaxVersions(versions))
	return &cluster{addrs, cl}, err
}

func (c *cluster) create(ctx context.Context, topic string, partitions int, configs map[string]string) error {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, int32(partitions), -1
	for name, v := range configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = name, kmsg.StringPtr(v)
		t.Configs = append(t.Configs, c)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 30_000
	req.Topics = append(req.Topics, t)
	res, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return err
	}
	for _, r := range res.Topics {
		err = kerr.ErrorForCode(r.ErrorCode)
	}
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return errExists
	}
	return err
}

func (c *cluster) remove(ctx context.Context, topic string) error {
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 30_000
	req.TopicNames, req.Topics = []string{topic}, append(req.Topics, t)
	res, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return err
	}
	for _, r := range res.Topics {
		err = kerr.ErrorForCode(r.ErrorCode)
	}
	return err
}

// ends are the high watermarks.
func (c *cluster) ends(ctx context.Context, topic string, partitions int) ([]int64, error) {
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for p := range partitions {
		each := kmsg.NewListOffsetsRequestTopicPartition()
		each.Partition, each.Timestamp = int32(p), -1
		t.Partitions = append(t.Partitions, each)
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.Topics = append(req.Topics, t)
	res, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return nil, err
	}
	ends := make([]int64, partitions)
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, err
			}
			ends[p.Partition] = p.Offset
		}
	}
	return ends, nil
}

// committed are the positions of a group; nothing committed is 0. Those of a transaction count when it has ended.
func (c *cluster) committed(ctx context.Context, group, topic string, partitions int) ([]int64, error) {
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic = topic
	for p := range partitions {
		t.Partitions = append(t.Partitions, int32(p))
	}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.Topics = group, append(g.Topics, t)
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Groups = append(req.Groups, g)
	res, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return nil, err
	}
	positions := make([]int64, partitions)
	for _, g := range res.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
			return nil, err
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, err
				}
				positions[p.Partition] = max(0, p.Offset)
			}
		}
	}
	return positions, nil
}

// table is what a changelog makes of those who read committed, and how it was written.
type table struct {
	rows                   map[string]string
	written, transactional int
}

// fold reads a changelog that nobody writes any more to its end.
func (c *cluster) fold(ctx context.Context, topic string, partitions int) (table, error) {
	t := table{rows: map[string]string{}}
	ends, err := c.ends(ctx, topic, partitions)
	if err != nil {
		return t, err
	}
	from := map[int32]kgo.Offset{}
	for p, end := range ends {
		if end > 0 {
			from[int32(p)] = kgo.NewOffset().AtStart()
		}
	}
	// Markers show where the reader is when a log ends with one.
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.addrs...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		return t, err
	}
	defer cl.Close()
	for len(from) > 0 {
		polled := cl.PollFetches(ctx)
		if err := polled.Err(); err != nil {
			return t, fmt.Errorf("read %s: %w", topic, err)
		}
		polled.EachRecord(func(r *kgo.Record) {
			t.add(r)
			if r.Offset+1 >= ends[r.Partition] {
				delete(from, r.Partition)
			}
		})
	}
	return t, nil
}

func (t *table) add(r *kgo.Record) {
	if r.Attrs.IsControl() {
		return
	}
	t.written++
	if r.Attrs.IsTransactional() {
		t.transactional++
	}
	if r.Value == nil {
		delete(t.rows, string(r.Key))
		return
	}
	t.rows[string(r.Key)] = string(r.Value)
}
