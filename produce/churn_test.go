package produce

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/internal/kafkatest"
)

// churn writes commits of four tasks while disturb is called at several points in the middle, and then
// compares the logs with what was told.
type churn struct {
	addrs   []string
	cluster cluster
	commits int      // of each task
	disturb []func() // spread evenly over the commits
	// The in-process Kafka does not tell the end of an epoch before the next one has a batch, so that
	// an epoch that begins between acknowledgement and question is taken for that of the batch.
	late bool
}

const churnTasks = 4

// disturbing calls each disturbance when it is due, and waits for the group.
func disturbing(group *sync.WaitGroup, due <-chan struct{}, disturb []func()) {
	finished := make(chan struct{})
	go func() { group.Wait(); close(finished) }()
	for _, each := range disturb {
		select {
		case <-due:
			each()
		case <-finished:
		}
	}
	<-finished
}

type churned struct {
	key string
	at  Landed
}

func (c churn) run(t *testing.T) {
	t.Helper()
	p := running(t, Config{MaxBatchBytes: 1 << 10}, c.cluster)
	var (
		group sync.WaitGroup
		done  [churnTasks][]churned
		count atomic.Int64
	)
	every := int64(churnTasks*c.commits) / int64(len(c.disturb)+1)
	due := make(chan struct{}, len(c.disturb))
	for n := range churnTasks {
		group.Go(func() {
			for i := range c.commits {
				var table, out []rec
				for j := range 20 {
					key := fmt.Sprintf("t%d-%05d-%02d", n, i, j)
					table, out = append(table, kv(key, "a row of some length that fills a batch")), append(out, kv(key, "out"))
				}
				r, err := p.Write(limited(t), []Write{changelog("table", int32(n), writes(table...)), output("out", writes(out...))})
				if err != nil {
					t.Errorf("commit %d of task %d: %v", i, n, err)
					return
				}
				done[n] = append(done[n], churned{fmt.Sprintf("t%d-%05d", n, i), r.Changelogs["table"]})
				if k := count.Add(1); k%every == 0 && k/every <= int64(len(c.disturb)) {
					due <- struct{}{}
				}
			}
		})
	}
	disturbing(&group, due, c.disturb)
	if !t.Failed() {
		c.check(t, done)
	}
}

func (c churn) check(t *testing.T, done [churnTasks][]churned) {
	t.Helper()
	byOffset := map[int32]map[int64]kafkatest.Record{}
	for _, topic := range []string{"table", "out"} {
		seen := map[string]int{}
		last := map[string]string{}
		for _, r := range kafkatest.ReadAll(t, c.addrs, topic, true) {
			key := string(r.Key)
			seen[key]++
			place := fmt.Sprint(r.Partition, key[:2])
			if key <= last[place] {
				t.Errorf("%s/%d: %s after %s", topic, r.Partition, key, last[place])
			}
			last[place] = key
			if topic == "table" {
				if byOffset[r.Partition] == nil {
					byOffset[r.Partition] = map[int64]kafkatest.Record{}
				}
				byOffset[r.Partition][r.Offset] = r
			}
		}
		if want := churnTasks * c.commits * 20; len(seen) != want {
			t.Errorf("%s holds %d keys, want %d", topic, len(seen), want)
		}
		for key, n := range seen {
			if n != 1 {
				t.Errorf("%s holds %s %d times", topic, key, n)
			}
		}
	}
	unknown, all := 0, 0
	for n, commits := range done {
		for _, k := range commits {
			all++
			first, end := byOffset[int32(n)][k.at.Base], byOffset[int32(n)][k.at.Next-1]
			if string(first.Key) != k.key+"-00" || string(end.Key) != k.key+"-19" {
				t.Errorf("commit %s landed at %+v, where %s to %s are", k.key, k.at, first.Key, end.Key)
			}
			if k.at.LeaderEpoch == -1 { // just started brokers do not tell it; a checkpoint may do without
				unknown++
				continue
			}
			if late := c.late && k.at.LeaderEpoch > end.LeaderEpoch; k.at.LeaderEpoch != end.LeaderEpoch && !late {
				t.Errorf("commit %s has leader epoch %d, its last batch %d", k.key, k.at.LeaderEpoch, end.LeaderEpoch)
			}
		}
	}
	if unknown > all/10 {
		t.Errorf("the leader epoch of %d of %d commits is not known", unknown, all)
	}
}

// lossy loses every third answer.
type lossy struct {
	*kafka.Client
	n atomic.Int64
}

func (l *lossy) Do(ctx context.Context, node int32, req kmsg.Request) (kmsg.Response, error) {
	resp, err := l.Client.Do(ctx, node, req)
	if err == nil && l.n.Add(1)%3 == 0 {
		return nil, fmt.Errorf("the connection broke: %w", io.ErrUnexpectedEOF)
	}
	return resp, err
}

func TestLostAnswersAndMovedLeaders(t *testing.T) {
	fake := kafkatest.Fake(t)
	fake.Topic(t, "table", churnTasks, nil)
	fake.Topic(t, "out", 6, nil)
	move := func() {
		for partition := range int32(6) {
			_ = fake.MoveTopicPartition("out", partition, (kafkatest.Leader(t, fake.Addrs(), "out", partition)+1)%3)
		}
		_ = fake.MoveTopicPartition("table", 0, (kafkatest.Leader(t, fake.Addrs(), "table", 0)+1)%3)
	}
	churn{addrs: fake.Addrs(), cluster: &lossy{Client: newClient(t, fake.Addrs())}, commits: 30, late: true, disturb: []func(){move, move, move}}.run(t)
}
