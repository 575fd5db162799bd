package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// readTime is how long one topic may take to be read: also an open transaction is waited for.
const readTime = 90 * time.Second

// readLog reads a topic with read_committed from some offsets to its high watermarks, by position: control
// records and aborted tails count. It gives the records in the order of partition and offset, and the ends.
func (c *cluster) readLog(ctx context.Context, topic string, from map[int32]int64) (records []*kgo.Record, ends map[int32]int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	err = again(ctx, "ask for the ends of "+topic, func() (bool, error) {
		ends, err = c.highWatermarks(ctx, topic)
		return err == nil, err
	})
	if err != nil {
		return nil, nil, err
	}
	places, left := map[int32]kgo.Offset{}, map[int32]bool{}
	for p, end := range ends {
		places[p] = kgo.NewOffset().At(from[p])
		if from[p] < end {
			left[p] = true
		} else {
			delete(places, p)
		}
	}
	if len(left) == 0 {
		return nil, ends, nil
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.kafka.Addrs()...), kgo.ClientID("drill"), kgo.KeepControlRecords(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: places}),
		kgo.FetchMaxWait(200*time.Millisecond))
	if err != nil {
		return nil, nil, err
	}
	defer cl.Close()
	for len(left) > 0 {
		got := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil, nil, fmt.Errorf("read %s: partitions %v do not reach their ends (is a transaction open?): %w", topic, left, ctx.Err())
		}
		got.EachRecord(func(r *kgo.Record) {
			if r.Offset >= ends[r.Partition] {
				return
			}
			if r.Offset == ends[r.Partition]-1 {
				delete(left, r.Partition)
			}
			if !r.Attrs.IsControl() {
				records = append(records, r)
			}
		})
	}
	slices.SortStableFunc(records, func(a, b *kgo.Record) int {
		if a.Partition != b.Partition {
			return int(a.Partition - b.Partition)
		}
		return int(a.Offset - b.Offset)
	})
	return records, ends, nil
}

func (c *cluster) highWatermarks(ctx context.Context, topic string) (map[int32]int64, error) {
	parts, err := c.partitions(ctx, topic)
	if err != nil {
		return nil, err
	}
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	for _, p := range parts {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = p.Partition, -1
		rt.Partitions = append(rt.Partitions, rp)
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	req.Topics = append(req.Topics, rt)
	res, err := req.RequestWith(ctx, c.admin)
	if err != nil {
		return nil, err
	}
	out := map[int32]int64{}
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 {
				out[p.Partition] = p.Offset
			}
		}
	}
	if len(out) != len(parts) {
		return nil, fmt.Errorf("%d of %d partitions of %s say where they end", len(out), len(parts), topic)
	}
	return out, nil
}

// committed are the positions of a group now, by partition of a topic.
func (c *cluster) committed(ctx context.Context, group, topic string) (map[int32]int64, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	rg := kmsg.NewOffsetFetchRequestGroup()
	req.Group, rg.Group = group, group
	req.Groups = append(req.Groups, rg)
	res, err := req.RequestWith(ctx, c.admin)
	if err != nil {
		return nil, err
	}
	out := map[int32]int64{}
	for _, g := range res.Groups {
		for _, t := range g.Topics {
			if t.Topic != topic && t.TopicID == [16]byte{} {
				continue
			}
			for _, p := range t.Partitions {
				out[p.Partition] = p.Offset
			}
		}
	}
	return out, nil
}

// positionsOf reads the coordinator's own log: every position of the group's source that was ever committed.
func positionsOf(records []*kgo.Record, group, topic string, source int) (list []Position) {
	for _, r := range records {
		var key kmsg.OffsetCommitKey
		if len(r.Key) < 2 || r.Key[0] != 0 || r.Key[1] > 1 || key.ReadFrom(r.Key) != nil || key.Group != group || key.Topic != topic || r.Value == nil {
			continue
		}
		var value kmsg.OffsetCommitValue
		if value.ReadFrom(r.Value) != nil {
			continue
		}
		list = append(list, Position{Source: source, Partition: key.Partition, Next: value.Offset})
	}
	return list
}

func inputsOf(records []*kgo.Record, source int) (list []Input, err error) {
	for _, r := range records {
		in := Input{Source: source, Partition: r.Partition, Offset: r.Offset, Key: string(r.Key)}
		if err := json.Unmarshal(r.Value, &in); err != nil {
			return nil, fmt.Errorf("input %d of partition %d: %w", r.Offset, r.Partition, err)
		}
		list = append(list, in)
	}
	return list, nil
}

func outputsOf(records []*kgo.Record) (list []Output, err error) {
	for _, r := range records {
		o := Output{Partition: r.Partition, Offset: r.Offset, At: r.Timestamp.UnixMilli(), Key: string(r.Key)}
		if err := json.Unmarshal(r.Value, &o); err != nil {
			return nil, fmt.Errorf("output %d of partition %d: %w", r.Offset, r.Partition, err)
		}
		list = append(list, o)
	}
	return list, nil
}

func rowsOf(records []*kgo.Record) (list []Row) {
	for _, r := range records {
		list = append(list, Row{Partition: r.Partition, Offset: r.Offset, Key: string(r.Key), Value: r.Value})
	}
	return list
}
