//go:build kafka

package fetch

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
)

// TestRealBroker reads what only a real broker makes: compacted segments, batches larger than what
// is asked for, markers of several transactions; and goes on when the broker was killed.
func TestRealBroker(t *testing.T) {
	broker := kafkatest.Broker(t, "4.4.0")
	addrs := broker.Addrs()
	read := func(t *testing.T, f *Fetcher, topic string, partitions int32) {
		t.Helper()
		for {
			want := kafkatest.ReadAll(t, addrs, topic, true)
			ends := kafkatest.EndOffsets(t, addrs, topic)
			got := map[int32]*collector{}
			for p := range partitions {
				c := newCollector(t)
				in := part(topic, p, c)
				in.Until = ends[p].HighWatermark
				f.Add(in)
				if err := c.end(); err != nil {
					t.Fatal(err)
				}
				if c.pos.Next != in.Until {
					t.Errorf("ended at %d, want %d", c.pos.Next, in.Until)
				}
				got[p] = c
			}
			if !reflect.DeepEqual(want, kafkatest.ReadAll(t, addrs, topic, true)) {
				continue // the broker has compacted in between
			}
			for p := range partitions {
				same(t, got[p].records, only(want, p))
			}
			return
		}
	}
	small := func(c *Config) { c.PartitionBytes, c.ResponseBytes, c.BufferBytes = 8<<10, 32<<10, 1<<20 }

	t.Run("codecs", func(t *testing.T) {
		kafkatest.CreateTopic(t, addrs, "codecs", 3, nil)
		for i, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
			for p := range int32(3) {
				records := variety(500, uint64(i))
				for i := range records {
					records[i].Partition = p
				}
				kafkatest.Produce(t, addrs, "codecs", records, kafkatest.Compressed(codec), kafkatest.InBatchesOf(200))
			}
		}
		read(t, running(t, addrs, nil), "codecs", 3)
		read(t, running(t, addrs, small), "codecs", 3)
	})
	t.Run("transactions", func(t *testing.T) {
		kafkatest.CreateTopic(t, addrs, "txn", 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
		a, b := kafkatest.Begin(t, addrs, "a"), kafkatest.Begin(t, addrs, "b")
		for i := range 4 {
			a.Produce("txn", variety(30, uint64(i))...)
			b.Produce("txn", variety(30, uint64(i+50))...)
		}
		a.Abort()
		b.Commit()
		abortInside(t, addrs, "txn")
		kafkatest.Produce(t, addrs, "txn", variety(10, 99), kafkatest.Aborted("tail"))
		read(t, running(t, addrs, nil), "txn", 1)
	})
	t.Run("compacted", func(t *testing.T) {
		kafkatest.CreateTopic(t, addrs, "compacted", 1, map[string]string{
			"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001",
			"min.compaction.lag.ms": "0", "max.compaction.lag.ms": "100", "delete.retention.ms": "0",
		})
		for round := range 3 {
			var records []kafkatest.Record
			for i := range 1000 {
				records = append(records, kafkatest.KV(fmt.Sprint(i%50), fmt.Sprint(round, i)))
			}
			kafkatest.Produce(t, addrs, "compacted", records, kafkatest.InBatchesOf(100), kafkatest.Compressed("lz4"))
		}
		kafkatest.ReadUntil(t, addrs, "compacted", func([]kafkatest.Record) bool {
			kafkatest.Produce(t, addrs, "compacted", []kafkatest.Record{kafkatest.KV("roll", "")}) // rolls the segment
			return len(kafkatest.ReadAll(t, addrs, "compacted", true)) < 1000
		})
		read(t, running(t, addrs, nil), "compacted", 1)
	})
	t.Run("killed", func(t *testing.T) {
		kafkatest.CreateTopic(t, addrs, "killed", 1, nil)
		f := running(t, addrs, func(c *Config) { c.MaxWait = 5 * time.Second })
		c := newCollector(t)
		f.Add(part("killed", 0, c))
		want := kafkatest.Produce(t, addrs, "killed", variety(100, 1))
		c.until("the records", func() bool { return len(c.records) == 100 })
		broker.Kill()
		broker.Start()
		want = append(want, kafkatest.Produce(t, addrs, "killed", variety(100, 2))...)
		c.until("those after the kill", func() bool { return len(c.records) == 200 })
		same(t, c.records, want)
	})
}
