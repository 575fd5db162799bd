package kafkatest

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ByKey, as a record's partition, spreads by the key like Kafka's Java client.
const ByKey int32 = -1

// Record is what is produced and what is read. A nil key or value is null, an
// empty one is empty: both ways.
type Record struct {
	Partition int32
	Offset    int64 // only when read, or as answered to Produce
	Key       []byte
	Value     []byte
	Headers   []Header
	Timestamp time.Time // zero: now

	LeaderEpoch   int32 // only when read
	LogAppendTime bool  // only when read: the timestamp is the broker's
}

// Header is one of a record's headers: ordered, repeatable; a nil value is null.
type Header struct {
	Key   string
	Value []byte
}

// KV is the short way to write a record of partition 0.
func KV(key, value string) Record {
	return Record{Key: []byte(key), Value: []byte(value)}
}

// Tombstone is a record of partition 0 whose value is null.
func Tombstone(key string) Record {
	return Record{Key: []byte(key)}
}

// On gives a copy of the record that goes to another partition.
func (r Record) On(partition int32) Record {
	r.Partition = partition
	return r
}

func (r Record) toKgo(topic string) *kgo.Record {
	out := &kgo.Record{Topic: topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return out
}

func fromKgo(r *kgo.Record) Record {
	out := Record{
		Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value,
		Timestamp: r.Timestamp, LeaderEpoch: r.LeaderEpoch, LogAppendTime: r.Attrs.TimestampType() == 1,
	}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, Header{Key: h.Key, Value: h.Value})
	}
	return out
}
