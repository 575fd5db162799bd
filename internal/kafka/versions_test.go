package kafka

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

func TestVersionIsTheBrokers(t *testing.T) {
	k := newCluster(t, kfake.MaxVersions(kversion.V2_8_0()))
	sent := map[kmsg.Key]int16{}
	k.watch(-1, func(_ int32, req kmsg.Request) { sent[kmsg.Key(req.Key())] = req.GetVersion() })
	c := k.client(t)
	for _, req := range []kmsg.Request{
		kmsg.NewPtrListGroupsRequest(), kmsg.NewPtrOffsetFetchRequest(), Between(kmsg.NewPtrDescribeGroupsRequest(), 0, 4),
	} {
		if _, err := c.Do(t.Context(), 1, req); err != nil {
			t.Fatal(err)
		}
	}
	for key, want := range map[kmsg.Key]int16{kmsg.ListGroups: 4, kmsg.OffsetFetch: 7, kmsg.DescribeGroups: 4} {
		if sent[key] != want {
			t.Errorf("%s was sent as v%d, want v%d", key.Name(), sent[key], want)
		}
	}
	offered, err := c.Versions(t.Context(), 2)
	if err != nil || offered[int16(kmsg.ListGroups)] != [2]int16{0, 4} {
		t.Errorf("%v, %v", offered[int16(kmsg.ListGroups)], err)
	}
}

// Old brokers drop fields silently: JoinGroup below v5 the group.instance.id, TxnOffsetCommit below
// v3 generation and member.
func TestOldBrokerIsRefused(t *testing.T) {
	k := newCluster(t, kfake.MaxVersions(kversion.V2_1_0()))
	c := k.client(t)
	joins := k.count(kmsg.JoinGroup)
	_, err := c.Any(t.Context(), Between(kmsg.NewPtrJoinGroupRequest(), 5, 9))
	var old *VersionError
	if !errors.As(err, &old) || Retriable(err) || joins.Load() != 0 {
		t.Fatalf("%v after %d requests", err, joins.Load())
	}
	want := "broker at " + k.addrs[0] + " is too old: it speaks JoinGroup up to version 3, needed is 5; Pillion supports Kafka 2.8 to 4.x"
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
}

func TestPick(t *testing.T) {
	offered := map[int16][2]int16{
		int16(kmsg.TxnOffsetCommit): {0, 2},
		int16(kmsg.Heartbeat):       {7, 9},
		int16(kmsg.OffsetCommit):    {2, 10},
		int16(kmsg.JoinGroup):       {0, 6},
	}
	for _, test := range []struct {
		req     kmsg.Request
		version int16
		err     string
	}{
		{kmsg.NewPtrJoinGroupRequest(), 6, ""},
		{kmsg.NewPtrOffsetCommitRequest(), 9, ""},
		{Between(kmsg.NewPtrOffsetCommitRequest(), 2, 99), 10, ""},
		{Between(kmsg.NewPtrOffsetCommitRequest(), 2, 8), 8, ""},
		{kmsg.NewPtrTxnOffsetCommitRequest(), 0, "too old: it speaks TxnOffsetCommit up to version 2, needed is 3"},
		{kmsg.NewPtrHeartbeatRequest(), 0, "too new: it speaks Heartbeat from version 7, known is up to 4"},
		{kmsg.NewPtrInitProducerIDRequest(), 0, "does not offer InitProducerID"},
	} {
		version, err := pick("b:9092", offered, newMessage(test.req))
		if version != test.version || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%T: v%d, %v", test.req, version, err)
		}
	}
}

// Every request that this package or its users send must fit both ends of what is supported.
func TestFloorsFitTheOldestBroker(t *testing.T) {
	oldest := kversion.V2_8_0()
	for key, floor := range floors {
		highest, ok := oldest.LookupMaxKeyVersion(int16(key))
		if !ok || floor > highest {
			t.Errorf("%s: floor v%d is past Kafka 2.8 (v%d)", key.Name(), floor, highest)
		}
		if ceiling, ok := ceilings[key]; ok && ceiling < floor {
			t.Errorf("%s: ceiling v%d under floor v%d", key.Name(), ceiling, floor)
		}
	}
}
