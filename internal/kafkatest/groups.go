package kafkatest

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Committed offset of a group, with the text that was stored beside it.
type CommittedOffset struct {
	Offset      int64
	LeaderEpoch int32
	Metadata    string
}

// CommittedOffsets are all positions that a group has committed: what a plain
// OffsetFetch says, so not what an open transaction holds. A group that does
// not exist has none.
func CommittedOffsets(t testing.TB, addrs []string, group string) map[TopicPartition]CommittedOffset {
	t.Helper()
	out := map[TopicPartition]CommittedOffset{}
	withGroup(t, "fetch the offsets of group "+group, addrs, func(ctx context.Context, cl *kgo.Client) (bool, error) {
		return true, fetchOffsets(ctx, cl, group, out)
	}, byName())
	return out
}

func fetchOffsets(ctx context.Context, cl *kgo.Client, group string, out map[TopicPartition]CommittedOffset) error {
	req := kmsg.NewPtrOffsetFetchRequest()
	rg := kmsg.NewOffsetFetchRequestGroup()
	req.Group, rg.Group = group, group // one of them is sent, by version
	req.Groups = append(req.Groups, rg)
	res, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	if err := ignoreUnknownGroup(codeError(res.ErrorCode, nil)); err != nil {
		return err
	}
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			put(out, t.Topic, p.Partition, p.Offset, p.LeaderEpoch, p.Metadata)
		}
	}
	for _, g := range res.Groups {
		if err := ignoreUnknownGroup(codeError(g.ErrorCode, nil)); err != nil {
			return err
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				put(out, t.Topic, p.Partition, p.Offset, p.LeaderEpoch, p.Metadata)
			}
		}
	}
	return nil
}

func put(out map[TopicPartition]CommittedOffset, topic string, partition int32, offset int64, epoch int32, text *string) {
	if offset < 0 {
		return
	}
	c := CommittedOffset{Offset: offset, LeaderEpoch: epoch}
	if text != nil {
		c.Metadata = *text
	}
	out[TopicPartition{topic, partition}] = c
}

func ignoreUnknownGroup(err error) error {
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil
	}
	return err
}

// Group is what a coordinator says of a group.
type Group struct {
	State    string // Empty, PreparingRebalance, CompletingRebalance, Stable, Dead
	Protocol string
	Members  []GroupMember
}

// GroupMember is one member of a group, with the bytes it gave and was given.
type GroupMember struct {
	ID, InstanceID, ClientID string
	Metadata, Assignment     []byte
}

// GroupState describes a group. One that does not exist is "Dead".
func GroupState(t testing.TB, addrs []string, group string) Group {
	t.Helper()
	var out Group
	withGroup(t, "describe group "+group, addrs, func(ctx context.Context, cl *kgo.Client) (_ bool, err error) {
		out, err = describeGroup(ctx, cl, group)
		return true, err
	})
	return out
}

// WaitGroup describes a group until done says that it is as wanted.
func WaitGroup(t testing.TB, addrs []string, group string, done func(Group) bool) Group {
	t.Helper()
	var out Group
	withGroup(t, "wait for group "+group, addrs, func(ctx context.Context, cl *kgo.Client) (_ bool, err error) {
		out, err = describeGroup(ctx, cl, group)
		return err == nil && done(out), err
	})
	return out
}

func describeGroup(ctx context.Context, cl *kgo.Client, group string) (Group, error) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	res, err := req.RequestWith(ctx, cl)
	if err != nil {
		return Group{}, err
	}
	if len(res.Groups) != 1 {
		return Group{}, errors.New("the answer names no group")
	}
	g := res.Groups[0]
	err = codeError(g.ErrorCode, nil)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return Group{State: "Dead"}, nil
	}
	if err != nil {
		return Group{}, err
	}
	out := Group{State: g.State, Protocol: g.Protocol}
	for _, m := range g.Members {
		gm := GroupMember{ID: m.MemberID, ClientID: m.ClientID, Metadata: m.ProtocolMetadata, Assignment: m.MemberAssignment}
		if m.InstanceID != nil {
			gm.InstanceID = *m.InstanceID
		}
		out.Members = append(out.Members, gm)
	}
	return out, nil
}

// CommitOffsets commits positions for a group from outside, without being a
// member: Kafka allows it only while the group has no members.
func CommitOffsets(t testing.TB, addrs []string, group string, offsets map[TopicPartition]CommittedOffset) {
	t.Helper()
	withGroup(t, "commit offsets of group "+group, addrs, func(ctx context.Context, cl *kgo.Client) (bool, error) {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation = group, -1
		for tp, o := range offsets {
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset, p.LeaderEpoch = tp.Partition, o.Offset, o.LeaderEpoch
			p.Metadata = kmsg.StringPtr(o.Metadata)
			rt := kmsg.NewOffsetCommitRequestTopic()
			rt.Topic, rt.Partitions = tp.Topic, append(rt.Partitions, p)
			req.Topics = append(req.Topics, rt)
		}
		res, err := req.RequestWith(ctx, cl)
		if err != nil {
			return false, err
		}
		for _, t := range res.Topics {
			for _, p := range t.Partitions {
				if err := codeError(p.ErrorCode, nil); err != nil {
					return false, err
				}
			}
		}
		return true, nil
	}, byName())
}

// withGroup repeats fn until it is done. A coordinator that is not there yet is waited for: that of a
// broker that has just started or just died, or of a group that has just moved. Each attempt has a
// client of its own, since one that knows a coordinator goes on asking the dead one.
func withGroup(t testing.TB, what string, addrs []string, fn func(context.Context, *kgo.Client) (bool, error), opts ...kgo.Opt) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	err := again(ctx, "wait", func() (bool, error) {
		cl, err := client(addrs, opts...)
		if err != nil {
			return false, err
		}
		defer cl.Close()
		done, err := fn(ctx, cl)
		if coordinatorIsAway(err) {
			return false, nil
		}
		return done, err
	})
	if err != nil {
		t.Fatalf("kafkatest: %s at %v: %v", what, addrs, err)
	}
}

func coordinatorIsAway(err error) bool {
	var down *net.OpError
	return errors.As(err, &down) || kgo.IsRetryableBrokerErr(err) ||
		errors.Is(err, kerr.CoordinatorNotAvailable) || errors.Is(err, kerr.CoordinatorLoadInProgress) || errors.Is(err, kerr.NotCoordinator)
}
