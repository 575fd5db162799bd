//go:build kafka

package journeys

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pillion/pillion/internal/kafkatest"
)

// record is the n-th input of a job: numbered, and its key belongs to one partition.
func (j *job) record(n int) kafkatest.Record {
	p := int32(n) % j.partitions
	return kafkatest.KV(fmt.Sprintf("key-%d-%d", p, n/int(j.partitions)%j.keys), fmt.Sprintf("value-%d", n)).On(p)
}

// load produces inputs from number from on, and waits for them.
func (j *job) load(from, count int) {
	j.t.Helper()
	records := make([]kafkatest.Record, count)
	for i := range records {
		records[i] = j.record(from + i)
	}
	kafkatest.Produce(j.t, j.addrs, j.in, records)
}

// feeder produces inputs all the time, some at once, through failures of brokers.
type feeder struct {
	j    *job
	stop context.CancelFunc
	done sync.WaitGroup
	err  error
}

// feed starts to produce inputs from number from on: a few every few milliseconds, as records flow.
func (j *job) feed(from int) *feeder {
	j.t.Helper()
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(j.addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.MetadataMinAge(100*time.Millisecond), kgo.UnknownTopicRetries(-1),
	)
	if err != nil {
		j.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	f := &feeder{j: j, stop: stop}
	f.done.Go(func() {
		defer cl.Close()
		tick := time.NewTicker(j.pause)
		defer tick.Stop()
		for n := from; ctx.Err() == nil; {
			for range 20 {
				r := j.record(n)
				cl.Produce(context.Background(), &kgo.Record{Topic: j.in, Partition: r.Partition, Key: r.Key, Value: r.Value}, f.acknowledged)
				n++
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		bye, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := cl.Flush(bye); err != nil {
			f.err = err
		}
	})
	j.t.Cleanup(func() { stop(); f.done.Wait() })
	return f
}

func (f *feeder) acknowledged(_ *kgo.Record, err error) {
	if err != nil {
		f.err = err
	}
}

// end stops producing; all that was produced is acknowledged then.
func (f *feeder) end() {
	f.j.t.Helper()
	f.stop()
	f.done.Wait()
	if f.err != nil {
		f.j.t.Fatalf("feed the job: %v", f.err)
	}
}

// flowing waits until some more inputs have been committed.
func (j *job) flowing(more int64) {
	j.t.Helper()
	from := j.committed()
	until(j.t, fmt.Sprintf("%d more inputs are committed", more), func() bool { return j.committed() >= from+more })
}
