package produce

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/internal/kafkatest"
)

const (
	txnID    = "group-1234"
	txnGroup = "group"
)

// transacting makes an initialised transactional producer over a cluster and runs it until the test ends.
func transacting(t testing.TB, cfg Config, c txnCluster) *Transactions {
	t.Helper()
	x := transactionsOf(t, cfg, c, TransactionsConfig{ID: txnID, Group: txnGroup})
	if err := x.Init(limited(t)); err != nil {
		t.Fatal(err)
	}
	start(t, x)
	return x
}

func transactionsOf(t testing.TB, cfg Config, c txnCluster, of TransactionsConfig) *Transactions {
	t.Helper()
	x, err := running(t, cfg, c).Transactions(of)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// start runs it; stop ends it and waits.
func start(t testing.TB, x *Transactions) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Error("Run does not end")
		}
	}
	t.Cleanup(stop)
	return stop
}

// at are positions outside of any generation, which a group without members takes.
func at(partition int32, offset int64) func() (Positions, error) {
	return func() (Positions, error) {
		return Positions{Generation: -1, Partition: partition, Offsets: map[string]int64{"in": offset}, Metadata: fmt.Sprintf("m%d", offset)}, nil
	}
}

// position is what is committed for the group.
func committedAt(t testing.TB, addrs []string, partition int32) int64 {
	t.Helper()
	p, ok := kafkatest.CommittedOffsets(t, addrs, txnGroup)[kafkatest.TopicPartition{Topic: "in", Partition: partition}]
	if !ok {
		return -1
	}
	if want := fmt.Sprintf("m%d", p.Offset); p.Metadata != want {
		t.Errorf("the position has metadata %q, want %q", p.Metadata, want)
	}
	return p.Offset
}

// eventually waits for the markers, which land after EndTxn was answered.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after 30 s", what)
		}
		pause(context.Background(), 5*time.Millisecond)
	}
}

// member is a member of the group, made by hand.
type member struct {
	id         string
	generation int32
}

// joinGroup makes a member of the group, alone in it: a new one, or again with its id.
func joinGroup(t testing.TB, c *kafka.Client, id string) member {
	t.Helper()
	for {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Group, req.MemberID, req.ProtocolType = txnGroup, id, "test"
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30_000, 30_000
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = "p", []byte(fmt.Sprint(time.Now().UnixNano()))
		req.Protocols = append(req.Protocols, p)
		got, err := c.ToGroup(limited(t), txnGroup, req)
		if err != nil {
			t.Fatal(err)
		}
		resp := got.(*kmsg.JoinGroupResponse)
		switch resp.ErrorCode {
		case 0:
			m := member{resp.MemberID, resp.Generation}
			m.sync(t, c)
			t.Cleanup(func() { m.leave(t, c) })
			return m
		case 79:
			id = resp.MemberID
		case 14, 15, 16:
			c.ForgetCoordinator(kafka.Group, txnGroup)
			kafka.Pause(limited(t), 0)
		default:
			t.Fatalf("JoinGroup: %d", resp.ErrorCode)
		}
	}
}

func (m member) sync(t testing.TB, c *kafka.Client) {
	t.Helper()
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = txnGroup, m.id, m.generation
	req.ProtocolType, req.Protocol = kmsg.StringPtr("test"), kmsg.StringPtr("p")
	a := kmsg.NewSyncGroupRequestGroupAssignment()
	a.MemberID, a.MemberAssignment = m.id, []byte("all")
	req.GroupAssignment = append(req.GroupAssignment, a)
	got, err := c.ToGroup(limited(t), txnGroup, req)
	if err != nil {
		t.Fatal(err)
	}
	if code := got.(*kmsg.SyncGroupResponse).ErrorCode; code != 0 {
		t.Fatalf("SyncGroup: %d", code)
	}
}

func (m member) leave(t testing.TB, c *kafka.Client) {
	t.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = txnGroup, m.id
	left := kmsg.NewLeaveGroupRequestMember()
	left.MemberID = m.id
	req.Members = append(req.Members, left)
	if _, err := c.ToGroup(limited(t), txnGroup, req); err != nil {
		t.Error(err)
	}
}

// at are positions of a member and its generation.
func (m member) at(partition int32, offset int64) func() (Positions, error) {
	return func() (Positions, error) {
		p, _ := at(partition, offset)()
		p.Member, p.Generation = m.id, m.generation
		return p, nil
	}
}

// keys of what a read_committed reader sees of a topic.
func keys(t testing.TB, addrs []string, topic string) []string {
	t.Helper()
	var out []string
	for _, r := range kafkatest.ReadAll(t, addrs, topic, true) {
		out = append(out, string(r.Key))
	}
	return out
}

// topics makes those that are not there yet.
func topics(t testing.TB, addrs []string, names ...string) {
	t.Helper()
	for _, name := range names {
		err := kafkatest.TryCreateTopic(limited(t), addrs, name, 4, nil)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			t.Fatal(err)
		}
	}
}
