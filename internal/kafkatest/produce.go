package kafkatest

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

type produceConfig struct {
	batch       int
	codec       kgo.CompressionCodec
	transaction string
	abort       bool
	opts        []kgo.Opt
}

// ProduceOption changes how Produce writes.
type ProduceOption func(*produceConfig)

// InBatchesOf puts exactly n records of a partition into each record batch
// (fewer into the last), when records come ordered by partition.
func InBatchesOf(n int) ProduceOption { return func(c *produceConfig) { c.batch = n } }

// Compressed compresses the batches: none, gzip, snappy, lz4 or zstd.
func Compressed(codec string) ProduceOption {
	return func(c *produceConfig) {
		switch codec {
		case "gzip":
			c.codec = kgo.GzipCompression()
		case "snappy":
			c.codec = kgo.SnappyCompression()
		case "lz4":
			c.codec = kgo.Lz4Compression()
		case "zstd":
			c.codec = kgo.ZstdCompression()
		case "none":
			c.codec = kgo.NoCompression()
		default:
			panic("kafkatest: no such compression: " + codec)
		}
	}
}

// Committed writes all records in one transaction and commits it.
func Committed(transactionalID string) ProduceOption {
	return func(c *produceConfig) { c.transaction = transactionalID }
}

// Aborted writes all records in one transaction and aborts it.
func Aborted(transactionalID string) ProduceOption {
	return func(c *produceConfig) { c.transaction, c.abort = transactionalID, true }
}

// WithClientOptions hands options to the franz-go client, for what is not here.
func WithClientOptions(opts ...kgo.Opt) ProduceOption {
	return func(c *produceConfig) { c.opts = append(c.opts, opts...) }
}

// Produce writes records in their order (per partition) with acks=all, waits
// for all acknowledgements (and for the markers of a transaction), and gives
// the records back with their offsets.
func Produce(t testing.TB, addrs []string, topic string, records []Record, options ...ProduceOption) []Record {
	t.Helper()
	c := newProduceConfig(options)
	out := append([]Record(nil), records...)
	with(t, "produce to "+topic, addrs, func(ctx context.Context, cl *kgo.Client) error {
		return c.run(ctx, cl, topic, out)
	}, c.clientOptions()...)
	if c.transaction != "" {
		c.settle(t, addrs)
	}
	return out
}

func newProduceConfig(options []ProduceOption) *produceConfig {
	c := &produceConfig{batch: 5_000, codec: kgo.NoCompression()}
	for _, o := range options {
		o(c)
	}
	return c
}

func (c *produceConfig) clientOptions() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.RecordPartitioner(partitioner{inner: kgo.StickyKeyPartitioner(nil)}),
		kgo.ManualFlushing(),
		kgo.MaxBufferedRecords(c.batch + 1),
		kgo.ProducerBatchCompression(c.codec),
		kgo.ProducerBatchMaxBytes(1_000_000),
	}
	if c.transaction != "" {
		opts = append(opts, kgo.TransactionalID(c.transaction))
	}
	return append(opts, c.opts...)
}

func (c *produceConfig) run(ctx context.Context, cl *kgo.Client, topic string, records []Record) error {
	if c.transaction == "" {
		return c.flush(ctx, cl, topic, records)
	}
	if err := cl.BeginTransaction(); err != nil {
		return fmt.Errorf("begin transaction %s: %w", c.transaction, err)
	}
	if err := c.flush(ctx, cl, topic, records); err != nil {
		return err
	}
	if err := cl.EndTransaction(ctx, kgo.TransactionEndTry(!c.abort)); err != nil {
		return fmt.Errorf("end transaction %s: %w", c.transaction, err)
	}
	return nil
}

// settle waits until the transaction that has just ended has its markers: Kafka
// answers EndTxn when the end is decided and writes them after it, so what is
// written next could stand before them. InitProducerId is answered only when
// they are there (CONCURRENT_TRANSACTIONS until then, KIP-98).
func (c *produceConfig) settle(t testing.TB, addrs []string) {
	t.Helper()
	with(t, "wait for the markers of transaction "+c.transaction, addrs, func(ctx context.Context, cl *kgo.Client) error {
		_, _, err := cl.ProducerID(ctx)
		return err
	}, c.clientOptions()...)
}

// flush hands over one batch's records, waits for them, and goes on.
func (c *produceConfig) flush(ctx context.Context, cl *kgo.Client, topic string, records []Record) error {
	for len(records) > 0 {
		part := records[:min(c.batch, len(records))]
		records = records[len(part):]
		errs := make([]error, len(part))
		for i := range part {
			cl.Produce(ctx, part[i].toKgo(topic), func(r *kgo.Record, err error) {
				part[i].Partition, part[i].Offset, errs[i] = r.Partition, r.Offset, err
			})
		}
		if err := cl.Flush(ctx); err != nil {
			return fmt.Errorf("flush: %w", err)
		}
		for i, err := range errs {
			if err != nil {
				return fmt.Errorf("record for partition %d: %w", part[i].Partition, err)
			}
		}
	}
	return nil
}

// partitioner takes a record's own partition, or asks the key's.
type partitioner struct{ inner kgo.Partitioner }

func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return topicPartitioner{p.inner.ForTopic(topic)}
}

type topicPartitioner struct{ kgo.TopicPartitioner }

func (topicPartitioner) RequiresConsistency(*kgo.Record) bool { return true }

func (p topicPartitioner) Partition(r *kgo.Record, n int) int {
	if r.Partition >= 0 {
		return int(r.Partition) // out of range is the client's error
	}
	return p.TopicPartitioner.Partition(r, n)
}

// Transaction is an open transaction.
type Transaction struct {
	t     testing.TB
	addrs []string
	cl    *kgo.Client
	c     *produceConfig
}

// Begin opens a transaction that stays open until Commit or Abort; a test that
// ends before leaves it to Kafka's transaction timeout, as a dead producer does.
func Begin(t testing.TB, addrs []string, transactionalID string, options ...ProduceOption) *Transaction {
	t.Helper()
	c := newProduceConfig(append(options, Committed(transactionalID)))
	cl, err := client(addrs, c.clientOptions()...)
	if err != nil {
		t.Fatalf("kafkatest: begin a transaction: %v", err)
	}
	t.Cleanup(cl.CloseAllowingRebalance)
	if err := cl.BeginTransaction(); err != nil {
		t.Fatalf("kafkatest: begin transaction %s: %v", transactionalID, err)
	}
	return &Transaction{t: t, addrs: addrs, cl: cl, c: c}
}

// Produce writes records inside the transaction and waits for them.
func (x *Transaction) Produce(topic string, records ...Record) []Record {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	out := append([]Record(nil), records...)
	if err := x.c.flush(ctx, x.cl, topic, out); err != nil {
		x.t.Fatalf("kafkatest: produce to %s in transaction %s: %v", topic, x.c.transaction, err)
	}
	return out
}

// Commit ends the transaction, and its markers are written; its client is closed.
func (x *Transaction) Commit() { x.t.Helper(); x.end(kgo.TryCommit) }

// Abort ends the transaction, and its markers are written; its client is closed.
func (x *Transaction) Abort() { x.t.Helper(); x.end(kgo.TryAbort) }

func (x *Transaction) end(how kgo.TransactionEndTry) {
	x.t.Helper()
	defer x.cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	if err := x.cl.EndTransaction(ctx, how); err != nil {
		x.t.Fatalf("kafkatest: end transaction %s: %v", x.c.transaction, err)
	}
	x.c.settle(x.t, x.addrs)
}
