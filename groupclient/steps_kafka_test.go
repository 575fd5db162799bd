//go:build kafka

package groupclient

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
)

func TestEachStepOfATakeOverOnKafka(t *testing.T) {
	addrs := kafkatest.Broker(t, kafkatest.Latest).Addrs()
	stepsByRequests(t, addrs)
	t.Run("a_failed_take-over_is_handed_over", func(t *testing.T) { partingByRequests(t, addrs) })
	t.Run("a_fenced_member_is_back_at_once", func(t *testing.T) { fencedByRequests(t, addrs) })
}

// A slow but living former owner, stopped for longer than its session between each two steps of its own take-over:
// it never fences the new owner, and its claim is refused. Without the check of the generation it does fence.
func TestASlowOwnerOnKafka(t *testing.T) {
	addrs := kafkatest.Broker(t, kafkatest.Latest).Addrs()
	without := slices.Delete(slices.Clone(takeOverSteps), at(takeOverSteps, "generation"), at(takeOverSteps, "generation")+1)
	results := make([][]string, len(takeOverSteps)+1)
	var all sync.WaitGroup
	for stop := range takeOverSteps {
		s := newStage(t, addrs, released)
		all.Go(func() { results[stop] = rawSlowOwner(s, takeOverSteps, stop) })
	}
	s := newStage(t, addrs, released)
	all.Go(func() { results[len(takeOverSteps)] = rawSlowOwner(s, without, 0) })
	all.Wait()
	for stop, wrong := range results[:len(takeOverSteps)] {
		if len(wrong) > 0 {
			t.Errorf("stopped before %s: %v", takeOverSteps[stop].name, wrong)
		}
	}
	wrong := results[len(takeOverSteps)]
	if len(wrong) == 0 {
		t.Error("without the check of the generation nothing is wrong")
	}
	t.Logf("without generation: %v", wrong)
}

func rawSlowOwner(s *stage, steps []step, stop int) []string {
	var wrong findings
	asleep, awake := make(chan struct{}), make(chan struct{})
	stopping := slices.Clone(steps)
	was := stopping[stop].do
	stopping[stop].do = func(o *taking, ctx context.Context) error {
		close(asleep)
		<-awake
		return was(o, ctx)
	}
	var cut atomic.Bool
	slow := &watched{cut: &cut}
	first := s.join(stopping, slow, nil)
	first.assigned(s.t, "the task", has(1))
	result := make(chan error, 1)
	go func() { _, err := first.TakeOver(s.t.Context(), Task{"orders", 0}); result <- err }()
	<-asleep
	cut.Store(true)
	second := s.join(takeOverSteps, &watched{}, nil)
	second.assigned(s.t, "the task after the session", has(1))
	_, err := s.take(second)
	wrong.expect(err == nil, "the new owner's take-over fails: %v", err)
	close(awake)
	err = <-result
	if err == nil {
		err = first.Commit(s.t.Context(), Task{"orders", 0}, map[string]int64{s.orders: 8})
	}
	wrong.expect(err != nil, "the slow owner goes on")
	wrong.expect(!slow.initialised(TransactionalID(s.group, second.Incarnation())), "the new owner was fenced")
	position, c := s.stored()
	wrong.expect(position == 7 && c.Incarnation == second.Incarnation(), "stored %d, %+v", position, c)
	return wrong
}

// What a fence costs: take-overs of many tasks at once, of an owner that has released, of one that died in a
// transaction, and of as many owners as tasks.
func TestWhatAFenceCosts(t *testing.T) {
	addrs := kafkatest.Broker(t, kafkatest.Latest).Addrs()
	const tasks, rounds = 32, 3
	took := map[string][]time.Duration{}
	burst(t, addrs, "first", tasks, "one dead owner") // a broker that is new is slow
	for range rounds {
		for _, how := range []string{"released", "one dead owner", "32 dead owners"} {
			took[how] = append(took[how], burst(t, addrs, "cost", tasks, how))
		}
	}
	median := func(how string) time.Duration {
		slices.Sort(took[how])
		return took[how][rounds/2]
	}
	base := median("released")
	for how := range took {
		t.Logf("BENCH take-over/32-tasks/%s %.1f ms (%.2f times that without a fence)", how,
			float64(median(how).Microseconds())/1000, float64(median(how))/float64(base))
	}
}

// burst is how long it takes to take all tasks of a group over at once.
func burst(t *testing.T, addrs []string, name string, tasks int32, how string) time.Duration {
	t.Helper()
	name = fmt.Sprintf("%s-%d", name, stages.Add(1))
	s := &stage{t: t, addrs: addrs, group: "app-" + name, orders: "orders-" + name, changelog: "counts-" + name}
	kafkatest.CreateTopic(t, addrs, s.orders, tasks, nil)
	kafkatest.CreateTopic(t, addrs, s.changelog, tasks, nil)
	owner := func(partition int32) string {
		if how == "32 dead owners" {
			return fmt.Sprintf("%s-%d", former, partition)
		}
		return former
	}
	offsets := map[kafkatest.TopicPartition]kafkatest.CommittedOffset{}
	producers := map[string]*raw{}
	for p := range tasks {
		text := claimOf(t, owner(p), func(c *claim) {
			c.Sources = map[string]string{s.orders: "-"}
			c.Tables = map[string]string{s.changelog: "-"}
			c.Released = how == "released"
		})
		offsets[kafkatest.TopicPartition{Topic: s.orders, Partition: p}] = kafkatest.CommittedOffset{LeaderEpoch: -1, Metadata: text}
		x := producers[owner(p)]
		if x == nil {
			x = newRaw(t, addrs, s.group, owner(p))
			producers[owner(p)] = x
		}
		x.produce(s.changelog, p, 1)
	}
	if how == "released" {
		if code := producers[former].end(); code != 0 {
			t.Fatalf("EndTxn: %d", code)
		}
	}
	kafkatest.CommitOffsets(t, addrs, s.group, offsets)
	m := s.join(takeOverSteps, &watched{}, nil)
	a := m.assigned(t, "all tasks", has(int(tasks)))
	start := time.Now()
	var all sync.WaitGroup
	for _, task := range a.Active {
		all.Go(func() {
			if _, err := m.TakeOver(t.Context(), task); err != nil {
				t.Errorf("%s: %v", task, err)
			}
		})
	}
	all.Wait()
	took := time.Since(start)
	m.stop()
	return took
}
