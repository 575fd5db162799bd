package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// keys of the job, over all partitions.
const keys = 160

// load writes inputs all the time, and rewrites rows of the source table.
type load struct {
	client  *kgo.Client
	in, ref string
	rate    int
	random  *rand.Rand
	id      int64
	rev     int64

	mu     sync.Mutex
	paused bool
	failed error
	idle   sync.WaitGroup // records that Kafka has not acknowledged
}

func key(n int) string { return fmt.Sprintf("key-%03d", n) }

// newLoad writes every row of the source table once: a join always finds its row.
func newLoad(ctx context.Context, c *cluster, in, ref string, rate int, seed uint64) (*load, error) {
	l := &load{in: in, ref: ref, rate: rate, random: rand.New(rand.NewPCG(seed, 0xfeed)), paused: true}
	var err error
	l.client, err = kgo.NewClient(kgo.SeedBrokers(c.kafka.Addrs()...), kgo.ClientID("drill-load"), kgo.ProducerLinger(0),
		kgo.MetadataMinAge(50*time.Millisecond), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.UnknownTopicRetries(-1), kgo.RecordRetries(1<<30), kgo.DialTimeout(3*time.Second), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return nil, err
	}
	for n := range keys {
		l.refRow(ctx, n)
	}
	l.idle.Wait()
	return l, l.failed
}

func (l *load) run(ctx context.Context) {
	defer l.client.Close()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	due := 0.0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		l.mu.Lock()
		for due += float64(l.rate) * 0.02; due >= 1 && !l.paused; due-- {
			l.input(ctx)
			if l.random.IntN(8) == 0 {
				l.refRow(ctx, l.random.IntN(keys))
			}
		}
		due = min(due, 1)
		l.mu.Unlock()
	}
}

func (l *load) input(ctx context.Context) {
	l.id++
	value, _ := json.Marshal(Input{ID: l.id, Amount: l.random.Int64N(1000)}.value())
	l.send(ctx, l.in, key(l.random.IntN(keys)), value)
}

func (in Input) value() any {
	return struct {
		ID     int64 `json:"id"`
		Amount int64 `json:"amount"`
	}{in.ID, in.Amount}
}

func (l *load) refRow(ctx context.Context, n int) {
	l.rev++
	value, _ := json.Marshal(Ref{Factor: factor(key(n)), Rev: l.rev})
	l.send(ctx, l.ref, key(n), value)
}

func (l *load) send(ctx context.Context, topic, key string, value []byte) {
	l.idle.Add(1)
	l.client.Produce(ctx, &kgo.Record{Topic: topic, Key: []byte(key), Value: value}, func(_ *kgo.Record, err error) {
		if err != nil && ctx.Err() == nil {
			l.failed = err
		}
		l.idle.Done()
	})
}

// flow lets it write, or waits until everything that it has written is in Kafka.
func (l *load) flow(on bool) error {
	l.mu.Lock()
	l.paused = !on
	l.mu.Unlock()
	if !on {
		l.idle.Wait()
	}
	return l.failed
}

// created says that the topic of inputs is another one now, of the same name.
func (l *load) created() { l.client.PurgeTopicsFromProducing(l.in) }

// some writes a few inputs at once, while it is paused.
func (l *load) some(ctx context.Context, n int) error {
	l.mu.Lock()
	for range n {
		l.input(ctx)
	}
	l.mu.Unlock()
	l.idle.Wait()
	return l.failed
}
