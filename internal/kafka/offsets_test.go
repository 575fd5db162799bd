package kafka

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fill produces records with timestamps 1000, 2000, ... to each partition of flights.
func fill(t *testing.T, k *cluster, partitions int32, records int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for p := range partitions {
		for i := range records {
			r := &kgo.Record{Topic: "flights", Partition: p, Value: []byte("x"), Timestamp: time.UnixMilli(int64(i+1) * 1000)}
			if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func partitions(n int32) (tps []TopicPartition) {
	for p := range n {
		tps = append(tps, TopicPartition{"flights", p})
	}
	return tps
}

func TestListOffsets(t *testing.T) {
	const n = 9
	k := newCluster(t, kfake.SeedTopics(n, "flights"))
	fill(t, k, n, 3)
	for p := range int32(n) {
		if err := k.MoveTopicPartition("flights", p, p%3); err != nil {
			t.Fatal(err)
		}
	}
	asked := map[int32]int{}
	var isolation int8
	k.watch(kmsg.ListOffsets, func(node int32, req kmsg.Request) {
		asked[node]++
		isolation = req.(*kmsg.ListOffsetsRequest).IsolationLevel
	})
	c := k.client(t)
	for _, test := range []struct {
		at        int64
		committed bool
		want      int64
	}{
		{Earliest, true, 0}, {Latest, true, 3}, {Latest, false, 3}, {2000, false, 1}, {1500, true, 1}, {9999, false, -1},
	} {
		clear(asked)
		offsets, err := c.ListOffsets(t.Context(), test.at, test.committed, partitions(n)...)
		if err != nil || len(offsets) != n {
			t.Fatal(offsets, err)
		}
		for tp, offset := range offsets {
			if offset.Err != nil || offset.Offset != test.want {
				t.Errorf("%d of %v: %+v, want %d", test.at, tp, offset, test.want)
			}
		}
		if len(asked) != 3 || asked[0] != 1 || asked[1] != 1 || asked[2] != 1 {
			t.Errorf("requests by node %v, want one each", asked)
		}
		if (isolation == 1) != test.committed {
			t.Errorf("isolation level %d, committed %v", isolation, test.committed)
		}
	}
	if offsets, err := c.ListOffsets(t.Context(), Latest, true); err != nil || len(offsets) != 0 {
		t.Error(offsets, err)
	}
}

func TestListOffsetsFollowsTheLeader(t *testing.T) {
	const n = 6
	k := newCluster(t, kfake.SeedTopics(n, "flights"))
	c := k.client(t)
	if _, err := c.ListOffsets(t.Context(), Latest, true, partitions(n)...); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		k.ShufflePartitionLeaders() // the epoch that we ask under is old, or the node not the leader
		if offsets, err := c.ListOffsets(t.Context(), Latest, true, partitions(n)...); err != nil || len(offsets) != n {
			t.Fatal(offsets, err)
		}
	}
	k.kill(t, c.topics["flights"].topic.Partitions[0].Leader)
	if offsets, err := c.ListOffsets(t.Context(), Latest, true, partitions(n)...); err != nil || len(offsets) != n {
		t.Fatal(offsets, err)
	}
}

func TestListOffsetsErrors(t *testing.T) {
	k := newCluster(t, kfake.SeedTopics(3, "flights"))
	k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "flights", Partitions: []int32{1}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	c := k.client(t)
	asked := append(partitions(4), TopicPartition{"nowhere", 0})
	offsets, err := c.ListOffsets(t.Context(), Latest, false, asked...)
	if err != nil {
		t.Fatal(err)
	}
	for tp, want := range map[TopicPartition]int16{{"flights", 0}: 0, {"flights", 1}: 29, {"flights", 3}: 3, {"nowhere", 0}: 3} {
		if code, _ := CodeOf(offsets[tp].Err); code != want {
			t.Errorf("%v: %+v, want code %d", tp, offsets[tp], want)
		}
	}

	k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "flights", Partitions: []int32{2}, Err: kerr.NotLeaderForPartition, Count: -1})
	offsets, err = c.ListOffsets(deadline(t, 300*time.Millisecond), Latest, false, partitions(3)...)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a leader that never is: %v", err)
	}
	if code, _ := CodeOf(offsets[TopicPartition{"flights", 2}].Err); code != 6 || offsets[TopicPartition{"flights", 0}].Err != nil {
		t.Errorf("%+v", offsets)
	}
}

func TestEpochEnd(t *testing.T) {
	k := newCluster(t, kfake.SeedTopics(1, "flights"))
	tp := TopicPartition{"flights", 0}
	c := k.client(t)
	fill(t, k, 1, 3)
	_, first, err := c.Leader(t.Context(), tp)
	if err != nil {
		t.Fatal(err)
	}
	k.ShufflePartitionLeaders()
	fill(t, k, 1, 2)
	for epoch, want := range map[int32]int64{first: 3, first + 1: 5} {
		got, offset, err := c.EpochEnd(t.Context(), tp, epoch)
		if err != nil || got != epoch || offset != want {
			t.Errorf("epoch %d: ends as %d at %d, %v; want %d", epoch, got, offset, err, want)
		}
	}
	k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetForLeaderEpoch}, Err: kerr.FencedLeaderEpoch, Count: 1})
	if _, offset, err := c.EpochEnd(t.Context(), tp, first); err != nil || offset != 3 {
		t.Errorf("after a fence: %d, %v", offset, err)
	}
	_, _, err = c.EpochEnd(t.Context(), TopicPartition{"nowhere", 0}, 1)
	if code, _ := CodeOf(err); code != codeUnknownTopic {
		t.Errorf("no topic: %v", err)
	}
	k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetForLeaderEpoch}, Err: kerr.TopicAuthorizationFailed, Count: 1})
	_, _, err = c.EpochEnd(t.Context(), tp, first)
	if code, _ := CodeOf(err); code != 29 {
		t.Errorf("not allowed: %v", err)
	}
}
