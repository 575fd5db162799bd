package kafka

import (
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

func TestTopics(t *testing.T) {
	k := newCluster(t, kfake.SeedTopics(4, "flights", "planes"))
	asked := k.count(kmsg.Metadata)
	c := k.client(t)
	topics, err := c.Topics(t.Context(), "flights", "nowhere")
	if err != nil {
		t.Fatal(err)
	}
	flights := topics["flights"]
	if flights.Err != nil || flights.ID != k.TopicInfo("flights").TopicID || len(flights.Partitions) != 4 {
		t.Errorf("%+v", flights)
	}
	for i, p := range flights.Partitions {
		if p.Index != int32(i) || p.Leader != k.LeaderFor("flights", p.Index) || p.LeaderEpoch != k.PartitionInfo("flights", p.Index).Epoch {
			t.Errorf("partition %d: %+v", i, p)
		}
	}
	if code, _ := CodeOf(topics["nowhere"].Err); code != codeUnknownTopic {
		t.Errorf("%+v", topics["nowhere"])
	}
	asked.Store(0)
	if topics, err = c.Topics(t.Context(), "flights"); err != nil || len(topics) != 1 || asked.Load() != 0 {
		t.Errorf("%v, %v: asked %d times for what is known", topics, err, asked.Load())
	}
	if _, err = c.Topics(t.Context(), "flights", "planes"); err != nil || asked.Load() == 0 {
		t.Errorf("%v: asked %d times", err, asked.Load())
	}
	asked.Store(0)
	if _, err = c.Refresh(t.Context(), "flights"); err != nil || asked.Load() == 0 {
		t.Errorf("%v: Refresh asked %d times", err, asked.Load())
	}
}

func TestTopicsGrowOld(t *testing.T) {
	k := newCluster(t, kfake.SeedTopics(1, "flights"))
	c := k.client(t, func(cfg *Config) { cfg.MetadataMaxAge = time.Nanosecond })
	before, err := c.Topics(t.Context(), "flights")
	if err != nil {
		t.Fatal(err)
	}
	if err := k.DeleteTopic("flights"); err != nil {
		t.Fatal(err)
	}
	if topics, err := c.Topics(t.Context(), "flights"); err != nil || topics["flights"].Err == nil {
		t.Errorf("deleted: %+v, %v", topics, err)
	}
	if err := k.CreateTopic("flights", 2, nil); err != nil {
		t.Fatal(err)
	}
	after, err := c.Topics(t.Context(), "flights")
	if err != nil || after["flights"].ID == before["flights"].ID || len(after["flights"].Partitions) != 2 {
		t.Errorf("made again: %+v, %v", after, err)
	}
}

func TestBrokerWithoutTopicIDs(t *testing.T) {
	k := newCluster(t, kfake.SeedTopics(2, "flights"), kfake.MaxVersions(kversion.V2_7_0()))
	c := k.client(t)
	topics, err := c.Topics(t.Context(), "flights")
	if err != nil || topics["flights"].ID != [16]byte{} || len(topics["flights"].Partitions) != 2 {
		t.Errorf("%+v, %v", topics, err)
	}
}

func TestLeaderMoveIsSeen(t *testing.T) {
	k := newCluster(t, kfake.SeedTopics(1, "flights"))
	c := k.client(t)
	tp := TopicPartition{"flights", 0}
	node, epoch, err := c.Leader(t.Context(), tp)
	if err != nil || node != k.LeaderFor("flights", 0) {
		t.Fatal(node, epoch, err)
	}
	next := (node + 1) % 3
	if err := k.MoveTopicPartition("flights", 0, next); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := c.Leader(t.Context(), tp); got != node {
		t.Errorf("leader %d was not kept", node)
	}
	c.ForgetLeader(tp)
	c.ForgetLeader(TopicPartition{"flights", 9})
	got, newer, err := c.Leader(t.Context(), tp)
	if err != nil || got != next || newer <= epoch {
		t.Errorf("leader %d epoch %d, %v; want %d, epoch over %d", got, newer, err, next, epoch)
	}
}

func TestLeaderIsWaitedFor(t *testing.T) {
	k := newCluster(t, kfake.SeedTopics(1, "flights"))
	fault := k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "flights", Err: kerr.LeaderNotAvailable, Count: 2})
	c := k.client(t)
	if _, _, err := c.Leader(t.Context(), TopicPartition{"flights", 0}); err != nil || fault.Hits() != 2 {
		t.Errorf("%v after %d faults", err, fault.Hits())
	}
	for _, tp := range []TopicPartition{{"flights", 1}, {"flights", -1}, {"nowhere", 0}} {
		_, _, err := c.Leader(t.Context(), tp)
		if code, _ := CodeOf(err); code != codeUnknownTopic {
			t.Errorf("%v: %v", tp, err)
		}
	}
	k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "flights", Err: kerr.LeaderNotAvailable, Count: -1})
	c.ForgetLeader(TopicPartition{"flights", 0})
	_, _, err := c.Leader(deadline(t, 200*time.Millisecond), TopicPartition{"flights", 0})
	if code, _ := CodeOf(err); code != codeLeaderNotAvailable {
		t.Errorf("no leader: %v", err)
	}
}

// All partitions of a lost leader ask at the same time.
func TestRefreshIsShared(t *testing.T) {
	k := newCluster(t, kfake.SeedTopics(50, "flights"))
	c := k.client(t)
	if _, err := c.Topics(t.Context(), "flights"); err != nil {
		t.Fatal(err)
	}
	k.wire.freeze(k.addrs...)
	asked := k.count(kmsg.Metadata)
	for p := range int32(50) {
		c.ForgetLeader(TopicPartition{"flights", p})
	}
	var calls sync.WaitGroup
	for p := range int32(50) {
		calls.Go(func() {
			if _, _, err := c.Leader(t.Context(), TopicPartition{"flights", p}); err != nil {
				t.Error(err)
			}
		})
	}
	k.wire.await(func() bool { return k.wire.held > 0 })
	k.wire.thaw()
	calls.Wait()
	if n := asked.Load(); n > 10 {
		t.Errorf("50 callers made %d requests", n)
	}
}

// INVARIANT: the leader epoch known of a partition never goes back while its topic id is the same.
func TestLeaderEpochNeverGoesBack(t *testing.T) {
	c, err := New(Config{Bootstrap: []string{"b:9092"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	learn := func(id byte, leader, epoch int32) Partition {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Leader, p.LeaderEpoch = leader, epoch
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic, topic.TopicID[0] = kmsg.StringPtr("flights"), id
		topic.Partitions = append(topic.Partitions, p)
		got := c.learn(&topic, time.Now())
		return got.Partitions[0]
	}
	for i, step := range []struct {
		id                                   byte
		leader, epoch, wantLeader, wantEpoch int32
	}{
		{1, 1, 4, 1, 4},
		{1, 2, 5, 2, 5},
		{1, 1, 4, 2, 5}, // from a broker that has not heard of it
		{1, -1, 5, -1, 5},
		{2, 1, 0, 1, 0}, // another topic of that name
		{0, 3, 7, 3, 7}, // a broker without ids
		{0, 1, 2, 1, 2},
	} {
		if p := learn(step.id, step.leader, step.epoch); p.Leader != step.wantLeader || p.LeaderEpoch != step.wantEpoch {
			t.Errorf("step %d: leader %d epoch %d, want %d and %d", i, p.Leader, p.LeaderEpoch, step.wantLeader, step.wantEpoch)
		}
	}
}
