package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ReadAll reads a topic from its start to its end, ordered by partition and
// offset. The end is the high watermark of each partition at the time of the
// call. With readCommitted, aborted records are left out, and an open
// transaction below that end is waited for (ReadStable does not wait).
//
// It ends by position: control records, aborted tails and compacted gaps do
// not hold it up.
func ReadAll(t testing.TB, addrs []string, topic string, readCommitted bool) []Record {
	t.Helper()
	return read(t, addrs, topic, readCommitted, func(o Offsets) int64 { return o.HighWatermark })
}

// ReadStable reads what a read_committed consumer can see now: to the last
// stable offset.
func ReadStable(t testing.TB, addrs []string, topic string) []Record {
	t.Helper()
	return read(t, addrs, topic, true, func(o Offsets) int64 { return o.Stable })
}

// ReadUntil reads a topic with read_committed again and again until done says
// that it has seen enough; then it gives what was read.
func ReadUntil(t testing.TB, addrs []string, topic string, done func([]Record) bool) []Record {
	t.Helper()
	var out []Record
	with(t, "read "+topic+" until enough is there", addrs, func(ctx context.Context, cl *kgo.Client) error {
		r := reader{cl: cl, topic: topic, committed: true, at: map[int32]int64{}}
		err := again(ctx, "wait", func() (bool, error) {
			ends, err := endOffsets(ctx, cl, topic)
			if err != nil {
				return false, err
			}
			if err := r.to(ctx, ends, func(o Offsets) int64 { return o.Stable }); err != nil {
				return false, err
			}
			out = r.sorted()
			return done(out), nil
		})
		if err != nil {
			return fmt.Errorf("%d records seen: %w", len(out), err)
		}
		return nil
	})
	return out
}

func read(t testing.TB, addrs []string, topic string, committed bool, end func(Offsets) int64) []Record {
	t.Helper()
	var out []Record
	with(t, "read "+topic, addrs, func(ctx context.Context, cl *kgo.Client) error {
		ends, err := endOffsets(ctx, cl, topic)
		if err != nil {
			return err
		}
		r := reader{cl: cl, topic: topic, committed: committed, at: map[int32]int64{}}
		if err := r.to(ctx, ends, end); err != nil {
			return err
		}
		out = r.sorted()
		return nil
	})
	return out
}

// reader fetches with plain requests, since only they tell the position.
type reader struct {
	cl        *kgo.Client
	topic     string
	committed bool
	at        map[int32]int64
	records   []Record
}

func (r *reader) sorted() []Record {
	out := slices.Clone(r.records)
	slices.SortFunc(out, func(a, b Record) int {
		if a.Partition != b.Partition {
			return int(a.Partition - b.Partition)
		}
		return int(a.Offset - b.Offset)
	})
	return out
}

func (r *reader) to(ctx context.Context, ends map[int32]Offsets, end func(Offsets) int64) error {
	for p, o := range ends {
		r.at[p] = max(r.at[p], o.Start)
		what := fmt.Sprintf("partition %d: reach offset %d (is a transaction open?)", p, end(o))
		err := again(ctx, what, func() (bool, error) {
			for r.at[p] < end(o) {
				moved, err := r.fetch(ctx, p)
				if err != nil || !moved {
					return false, err
				}
			}
			return true, nil
		})
		if err != nil {
			return fmt.Errorf("at offset %d: %w", r.at[p], err)
		}
	}
	return nil
}

// fetch asks the partition's leader once. It has not moved when there was
// nothing, and when the leader was just not to be had.
func (r *reader) fetch(ctx context.Context, partition int32) (moved bool, err error) {
	meta, err := metadata(ctx, r.cl, r.topic)
	if err != nil {
		return false, err
	}
	leader := int32(-1)
	for _, p := range partitionsOf(meta) {
		if p.Partition == partition {
			leader = p.Leader
		}
	}
	if leader < 0 {
		return false, nil
	}
	res, err := r.request(partition, meta.Topics[0].TopicID).RequestWith(ctx, r.cl.Broker(int(leader)))
	if err != nil {
		return false, ctx.Err() // a broker that has just gone: ask again
	}
	if len(res.Topics) != 1 || len(res.Topics[0].Partitions) != 1 {
		return false, codeError(res.ErrorCode, nil)
	}
	isolation := kgo.ReadUncommitted()
	if r.committed {
		isolation = kgo.ReadCommitted()
	}
	fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: r.at[partition], IsolationLevel: isolation, Topic: r.topic, Partition: partition,
	}, &res.Topics[0].Partitions[0], kgo.DefaultDecompressor(), nil)
	if errors.Is(fp.Err, kerr.OffsetOutOfRange) || (fp.Err != nil && !kerr.IsRetriable(fp.Err)) {
		return false, fmt.Errorf("offset %d: %w", r.at[partition], fp.Err)
	}
	for _, rec := range fp.Records {
		r.records = append(r.records, fromKgo(rec))
	}
	moved = next > r.at[partition]
	r.at[partition] = max(next, r.at[partition])
	return moved, nil
}

func (r *reader) request(partition int32, id [16]byte) *kmsg.FetchRequest {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, r.at[partition], 4<<20
	p.CurrentLeaderEpoch = -1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = r.topic, id
	topic.Partitions = append(topic.Partitions, p)
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = -1, 100, 1, 16<<20
	req.SessionEpoch = -1
	if r.committed {
		req.IsolationLevel = 1
	}
	req.Topics = append(req.Topics, topic)
	return req
}
