package counting

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	perBatch  = 500
	valueSize = 100
)

// Job is what is to be counted: its records follow from its size alone, so that the right counts are
// known without reading anything.
type Job struct {
	records, keys, partitions int
}

// Topic is the source.
func (j Job) Topic() string {
	return fmt.Sprintf("bench-count-%d-%d-%d", j.records, j.keys, j.partitions)
}

// order is the key of each record: all keys equally often but for one record, in random order.
func (j Job) order() []int32 {
	order := make([]int32, j.records)
	for i := range order {
		order[i] = int32(i % j.keys)
	}
	r := rand.New(rand.NewPCG(1, 2))
	r.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
	return order
}

// counts are the rows of the table when everything was counted once: key to 8 bytes, big endian.
func (j Job) counts() map[string]string {
	table := make(map[string]string, j.keys)
	for k := range j.keys {
		n := j.records / j.keys
		if k < j.records%j.keys {
			n++
		}
		table[string(key(int32(k)))] = string(binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
	return table
}

func key(k int32) []byte { return fmt.Appendf(nil, "key-%08d", k) }

// value is random text, so that no codec makes little of it.
func value(r *rand.Rand) []byte {
	v := make([]byte, valueSize)
	for i := range v {
		v[i] = byte(' ' + r.IntN(95))
	}
	return v
}

// fill writes the records unless they are there. A key's records are all in one partition.
func (j Job) fill(ctx context.Context, c *cluster) error {
	switch err := c.create(ctx, j.Topic(), j.partitions, map[string]string{"retention.ms": "-1"}); {
	case errors.Is(err, errExists):
		return j.whole(ctx, c)
	case err != nil:
		return err
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.addrs...), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ManualFlushing(),
		kgo.MaxBufferedRecords(1<<20), kgo.ProducerBatchMaxBytes(1_000_000))
	if err != nil {
		return err
	}
	defer cl.Close()
	r := rand.New(rand.NewPCG(3, 4))
	var failed error
	note := func(_ *kgo.Record, err error) { failed = errors.Join(failed, err) } // called by one goroutine at a time
	for i, k := range j.order() {
		cl.Produce(ctx, &kgo.Record{Topic: j.Topic(), Partition: k % int32(j.partitions), Key: key(k), Value: value(r)}, note)
		if (i+1)%(perBatch*j.partitions) != 0 && i+1 < j.records {
			continue
		}
		if err := errors.Join(cl.Flush(ctx), failed); err != nil {
			return err
		}
	}
	return j.whole(ctx, c)
}

// whole says whether the topic has all records, which that of an interrupted run has not.
func (j Job) whole(ctx context.Context, c *cluster) error {
	ends, err := c.ends(ctx, j.Topic(), j.partitions)
	if err != nil {
		return err
	}
	if n := sum(ends); n != int64(j.records) {
		return fmt.Errorf("it has %d records, not %d: delete the topic and run again", n, j.records)
	}
	return nil
}

func sum(offsets []int64) (n int64) {
	for _, o := range offsets {
		n += o
	}
	return n
}
