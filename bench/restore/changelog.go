package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	perBatch  = 500
	table     = "table"
	valueSize = 110
)

// changelog is the log of one variant. Its records follow from its size alone, so that the table they
// make is known without reading anything.
type changelog struct {
	variant
	order  []int32 // the key of each record
	digest string  // of the table
}

func newChangelog(v variant) *changelog {
	l := &changelog{variant: v, order: make([]int32, *records)}
	for i := range l.order {
		l.order[i] = int32(i % *keys)
	}
	r := rand.New(rand.NewPCG(1, 2))
	r.Shuffle(len(l.order), func(i, j int) { l.order[i], l.order[j] = l.order[j], l.order[i] })
	last := make([]int, *keys)
	for i, k := range l.order {
		last[k] = i
	}
	l.digest = digest(last)
	return l
}

// app is the application id of Kafka Streams, which names its changelogs after it.
func (l *changelog) app() string {
	return fmt.Sprintf("bench-restore-%s-%d-%d", l.name, *records, *keys)
}
func (l *changelog) topic() string  { return l.app() + "-" + table + "-changelog" }
func (l *changelog) source() string { return l.app() + "-source" }

// digest is SHA-256 over "key\nvalue\n" of each row, ordered by key. Every way makes the same of its table.
func digest(last []int) string {
	h := sha256.New()
	for k, i := range last { // keys have leading zeros: their order is that of the numbers
		h.Write(key(int32(k)))
		h.Write([]byte{'\n'})
		h.Write(value(i))
		h.Write([]byte{'\n'})
	}
	return hex.EncodeToString(h.Sum(nil))
}

func key(k int32) []byte { return fmt.Appendf(nil, "key-%010d", k) }

// value is what record i says: JSON, random but for its shape, as long as all others.
func value(i int) []byte {
	r := rand.New(rand.NewPCG(3, uint64(i)))
	return fmt.Appendf(nil, `{"id":%d,"name":"user-%06d","score":%d.%06d,"city":"%08x","tags":["%04x","%04x"],"ok":%d,"n":%d}`,
		1e8+r.IntN(9e8), r.IntN(1e6), 100+r.IntN(900), r.IntN(1e6), r.Uint32(), r.IntN(1<<16), r.IntN(1<<16), r.IntN(2), r.IntN(10))
}

// fill writes the log unless it is there. A key's records are all in one partition.
func (l *changelog) fill(ctx context.Context) error {
	compression := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "lz4": kgo.Lz4Compression()}[l.name]
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(*brokers, ",")...), kgo.ProducerBatchCompression(compression),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ManualFlushing(),
		kgo.MaxBufferedRecords(1<<20), kgo.ProducerBatchMaxBytes(1_000_000),
	)
	if err != nil {
		return err
	}
	defer cl.Close()
	created, err := l.create(ctx, cl, l.topic())
	if err != nil {
		return err
	}
	if _, err := l.create(ctx, cl, l.source()); err != nil {
		return err
	}
	if !created {
		return l.whole(ctx, cl)
	}
	for i, batch := range slices.Collect(slices.Chunk(l.order, perBatch*l.partitions)) {
		made := make([]*kgo.Record, len(batch))
		for j, k := range batch {
			made[j] = &kgo.Record{Topic: l.topic(), Partition: k % int32(l.partitions), Key: key(k), Value: value(i*perBatch*l.partitions + j)}
		}
		if err := produce(ctx, cl, made); err != nil {
			return err
		}
	}
	return l.whole(ctx, cl)
}

// produce sends the records as one batch per partition.
func produce(ctx context.Context, cl *kgo.Client, made []*kgo.Record) error {
	var failed error
	for _, r := range made {
		cl.Produce(ctx, r, func(_ *kgo.Record, err error) { failed = errors.Join(failed, err) })
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	return failed
}

// whole says whether the log has all its records, which a log of an interrupted run has not.
func (l *changelog) whole(ctx context.Context, cl *kgo.Client) error {
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = l.topic()
	for p := range l.partitions {
		each := kmsg.NewListOffsetsRequestTopicPartition()
		each.Partition, each.Timestamp = int32(p), -1
		t.Partitions = append(t.Partitions, each)
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.Topics = append(req.Topics, t)
	res, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	var n int64
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return err
			}
			n += p.Offset
		}
	}
	if n != int64(*records) {
		return fmt.Errorf("it has %d records, not %d: delete the topic and run again", n, *records)
	}
	return nil
}

func (l *changelog) create(ctx context.Context, cl *kgo.Client, topic string) (bool, error) {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, int32(l.partitions), -1
	for name, v := range map[string]string{"cleanup.policy": "delete", "retention.ms": "-1"} {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = name, kmsg.StringPtr(v)
		t.Configs = append(t.Configs, c)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 30_000
	req.Topics = append(req.Topics, t)
	res, err := req.RequestWith(ctx, cl)
	if err != nil {
		return false, err
	}
	for _, r := range res.Topics {
		err = kerr.ErrorForCode(r.ErrorCode)
	}
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return false, nil
	}
	return err == nil, err
}
