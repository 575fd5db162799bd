package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const keys = 200_000

// fill writes the topic's records unless it is there: keys of 14 bytes, values of about 110 that
// look like JSON, batches of so many bytes before compression.
func fill(ctx context.Context, topic, codec string) error {
	compression, ok := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[codec]
	if !ok {
		return fmt.Errorf("no codec %q", codec)
	}
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(*brokers, ",")...), kgo.ProducerBatchCompression(compression),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ManualFlushing(),
		kgo.MaxBufferedRecords(1<<20), kgo.ProducerBatchMaxBytes(1_000_000),
	)
	if err != nil {
		return err
	}
	defer cl.Close()
	if created, err := create(ctx, cl, topic); err != nil || !created {
		return err
	}
	r := rand.New(rand.NewPCG(1, 2))
	const each = 135 // bytes of a record in a batch
	perFlush := *batch / each * *partitions
	var failed error
	for i := range *records {
		cl.Produce(ctx, record(r, topic, int32(i%*partitions)), func(_ *kgo.Record, err error) {
			if err != nil {
				failed = err
			}
		})
		if i%perFlush == perFlush-1 || i == *records-1 {
			if err := cl.Flush(ctx); err != nil {
				return err
			}
		}
	}
	return failed
}

func record(r *rand.Rand, topic string, partition int32) *kgo.Record {
	value := fmt.Sprintf(`{"id":%d,"name":"user-%06d","score":%.6f,"city":"%08x","tags":["%04x","%04x"],"ok":%t}`,
		r.IntN(1e9), r.IntN(keys), r.Float64()*1000, r.Uint32(), r.IntN(1<<16), r.IntN(1<<16), r.IntN(2) == 0)
	return &kgo.Record{
		Topic: topic, Partition: partition,
		Key:   fmt.Appendf(nil, "key-%010d", r.IntN(keys)),
		Value: []byte(value),
	}
}

func create(ctx context.Context, cl *kgo.Client, topic string) (bool, error) {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, int32(*partitions), -1
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
