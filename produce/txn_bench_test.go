//go:build kafka

package produce

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/internal/kafkatest/kafkaproc"
)

const (
	benchRound  = 3 * time.Second
	benchRounds = 3
	benchBatch  = 200 // records of a commit: half of them rows, half outputs
)

// BenchmarkTransactions compares commits in transactions with the same commits at least once (records,
// then positions), in turns against one broker: as fast as they go, one task and eight.
//
//	go test -tags kafka -run '^$' -bench Transactions -benchtime 1x ./produce
func BenchmarkTransactions(b *testing.B) {
	broker := kafkatest.Broker(b, kafkatest.Latest, kafkatest.Heap("512m"), func(c *kafkaproc.Config) { c.Fast = true })
	addrs := broker.Addrs()
	topics(b, addrs, "in")
	kafkatest.CreateTopic(b, addrs, "table", 8, nil)
	kafkatest.CreateTopic(b, addrs, "out", 8, nil)
	c := newClient(b, addrs)
	x := transacting(b, Config{}, c)
	ways := []struct {
		name   string
		commit func(ctx context.Context, task int, w []Write, offset int64) error
	}{
		{"at-least-once", func(ctx context.Context, task int, w []Write, offset int64) error {
			if _, err := x.p.Write(ctx, w); err != nil {
				return err
			}
			return offsetCommit(ctx, c, int32(task), offset)
		}},
		{"transactions", func(ctx context.Context, task int, w []Write, offset int64) error {
			_, err := x.Commit(ctx, Unit{Writes: w, Positions: at(int32(task), offset)})
			return err
		}},
	}
	for b.Loop() {
		for _, tasks := range []int{1, 8} {
			for _, way := range ways { // the JVM warms up
				benchCommits(b, tasks, way.commit)
			}
			perSecond := map[string][]float64{}
			for range benchRounds {
				for _, way := range ways {
					perSecond[way.name] = append(perSecond[way.name], benchCommits(b, tasks, way.commit))
				}
			}
			got := map[string]float64{}
			for name, all := range perSecond {
				got[name] = median(all)
			}
			for _, way := range ways {
				fmt.Printf("BENCH produce/%s/tasks-%d/commits %.0f 1/s\n", way.name, tasks, got[way.name])
				fmt.Printf("BENCH produce/%s/tasks-%d/latency %.2f ms\n", way.name, tasks, 1000*float64(tasks)/got[way.name])
				fmt.Printf("BENCH produce/%s/tasks-%d/records %.0f 1/s\n", way.name, tasks, benchBatch*got[way.name])
			}
			fmt.Printf("BENCH produce/transactions/tasks-%d/vs-at-least-once %.2f x\n", tasks, got["transactions"]/got["at-least-once"])
			if tasks == 8 {
				fmt.Printf("BENCH produce/transactions/vs-at-least-once %.2f x\n", got["transactions"]/got["at-least-once"])
			}
		}
	}
}

// benchCommits is how many commits in a second the tasks make together.
func benchCommits(b *testing.B, tasks int, commit func(context.Context, int, []Write, int64) error) float64 {
	ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
	defer cancel()
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		count int
	)
	began := time.Now()
	for task := range tasks {
		var table, out []rec
		for i := range benchBatch / 2 {
			key := fmt.Sprintf("%d-%d", task, i)
			table, out = append(table, kv(key, "a row of some length, as a table has many of them")), append(out, kv(key, "an output of some length, as there are many"))
		}
		w := []Write{changelog("table", int32(task), writes(table...)), output("out", writes(out...))}
		group.Go(func() {
			for i := int64(0); time.Since(began) < benchRound; i++ {
				if err := commit(ctx, task%4, w, i); err != nil {
					b.Error(err)
					return
				}
				mu.Lock()
				count++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return float64(count) / time.Since(began).Seconds()
}

func offsetCommit(ctx context.Context, c *kafka.Client, partition int32, offset int64) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = txnGroup, -1
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, offset, -1, kmsg.StringPtr(fmt.Sprintf("m%d", offset))
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.Partitions = "in", append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	for attempt := 0; ; attempt++ {
		got, err := c.ToGroup(ctx, txnGroup, req)
		if err != nil {
			return err
		}
		code := got.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
		if code == 0 {
			return nil
		}
		if !passes(code) || !kafka.Pause(ctx, attempt) {
			return &kafka.Error{Code: code, What: "OffsetCommit"}
		}
		c.ForgetCoordinator(kafka.Group, txnGroup)
	}
}

func median(of []float64) float64 {
	slices.SortFunc(of, cmp.Compare[float64])
	return of[len(of)/2]
}
