package kafkatest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHelpersOnFake(t *testing.T) {
	testHelpers(t, Fake(t).Addrs())
}

// testHelpers runs on the fake and, with the build tag, on real brokers.
func testHelpers(t *testing.T, addrs []string) {
	t.Run("faithful", func(t *testing.T) { testFaithful(t, addrs) })
	t.Run("transactions", func(t *testing.T) { testTransactions(t, addrs) })
	t.Run("batches", func(t *testing.T) { testBatches(t, addrs) })
	t.Run("groups", func(t *testing.T) { testGroups(t, addrs) })
	t.Run("deleting", func(t *testing.T) { testDeleting(t, addrs) })
}

func testFaithful(t *testing.T, addrs []string) {
	CreateTopic(t, addrs, "faithful", 3, nil)
	at := time.UnixMilli(1_700_000_000_123)
	in := []Record{
		{Partition: 2, Key: nil, Value: []byte("v"), Timestamp: at},
		{Partition: 2, Key: []byte{}, Value: []byte{}, Timestamp: at},
		{Partition: 0, Key: []byte("k"), Value: nil, Timestamp: at},
		{Partition: 1, Key: []byte("k"), Value: []byte{0xff}, Timestamp: at, Headers: []Header{
			{"a", []byte{1}}, {"a", nil}, {"b", []byte{}},
		}},
	}
	sent := Produce(t, addrs, "faithful", in)
	if sent[1].Offset != 1 || sent[1].Partition != 2 {
		t.Fatalf("answered %+v", sent[1])
	}
	got := ReadAll(t, addrs, "faithful", true)
	for i := range got {
		got[i].LeaderEpoch = 0
	}
	want := []Record{in[2], in[3], in[0], in[1]}
	want[3].Offset = 1
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("read\n%+v\nwant\n%+v", got, want)
	}
	byKey := Produce(t, addrs, "faithful", []Record{KV("key-0", "").On(ByKey), KV("key-0", "").On(ByKey)})
	if byKey[0].Partition != byKey[1].Partition {
		t.Fatalf("one key went to two partitions: %+v", byKey)
	}
}

func testTransactions(t *testing.T, addrs []string) {
	CreateTopic(t, addrs, "transactions", 1, nil)
	Produce(t, addrs, "transactions", []Record{KV("a", "1")})
	Produce(t, addrs, "transactions", []Record{KV("b", "1"), KV("b", "2")}, Aborted("tx-1"))
	Produce(t, addrs, "transactions", []Record{KV("c", "1")}, Committed("tx-2"))
	Produce(t, addrs, "transactions", []Record{KV("d", "1")}, Aborted("tx-1"))
	expect(t, "committed", ReadAll(t, addrs, "transactions", true), "a=1@0 c=1@4")
	expect(t, "all", ReadAll(t, addrs, "transactions", false), "a=1@0 b=1@1 b=2@2 c=1@4 d=1@6")

	open := Begin(t, addrs, "tx-3")
	open.Produce("transactions", KV("e", "1"))
	Produce(t, addrs, "transactions", []Record{KV("f", "1")})
	expect(t, "stable", ReadStable(t, addrs, "transactions"), "a=1@0 c=1@4")
	ends := EndOffsets(t, addrs, "transactions")[0]
	if ends != (Offsets{Start: 0, Stable: 8, HighWatermark: 10}) {
		t.Fatalf("ends with an open transaction: %+v", ends)
	}
	open.Commit()
	expect(t, "committed", ReadAll(t, addrs, "transactions", true), "a=1@0 c=1@4 e=1@8 f=1@9")
	seen := ReadUntil(t, addrs, "transactions", func(r []Record) bool { return len(r) == 4 })
	expect(t, "until", seen, "a=1@0 c=1@4 e=1@8 f=1@9")
}

func expect(t *testing.T, what string, got []Record, want string) {
	t.Helper()
	var words []string
	for _, r := range got {
		words = append(words, fmt.Sprintf("%s=%s@%d", r.Key, r.Value, r.Offset))
	}
	if s := strings.Join(words, " "); s != want {
		t.Fatalf("%s: read %q, want %q", what, s, want)
	}
}

func testBatches(t *testing.T, addrs []string) {
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		topic := "batches-" + codec
		CreateTopic(t, addrs, topic, 1, nil)
		var in []Record
		for i := range 25 {
			in = append(in, KV(fmt.Sprint(i), strings.Repeat("x", 100)))
		}
		Produce(t, addrs, topic, in, InBatchesOf(10), Compressed(codec))
		got := ReadAll(t, addrs, topic, false)
		if len(got) != 25 || string(got[24].Key) != "24" {
			t.Fatalf("%s: %d records", codec, len(got))
		}
	}
}

func testGroups(t *testing.T, addrs []string) {
	if g := GroupState(t, addrs, "nobody"); g.State != "Dead" {
		t.Fatalf("a group that does not exist: %+v", g)
	}
	if o := CommittedOffsets(t, addrs, "nobody"); len(o) != 0 {
		t.Fatalf("offsets of a group that does not exist: %+v", o)
	}
	CreateTopic(t, addrs, "grouped", 2, nil)
	tp := TopicPartition{"grouped", 1}
	CommitOffsets(t, addrs, "readers", map[TopicPartition]CommittedOffset{tp: {Offset: 7, LeaderEpoch: 0, Metadata: "claim"}})
	got := CommittedOffsets(t, addrs, "readers")
	want := map[TopicPartition]CommittedOffset{tp: {Offset: 7, LeaderEpoch: 0, Metadata: "claim"}}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("committed %+v, want %+v", got, want)
	}
	if g := GroupState(t, addrs, "readers"); g.State != "Empty" || len(g.Members) != 0 {
		t.Fatalf("a group without members: %+v", g)
	}
}

func testDeleting(t *testing.T, addrs []string) {
	CreateTopic(t, addrs, "deleting", 1, nil)
	first := TopicID(t, addrs, "deleting")
	Produce(t, addrs, "deleting", []Record{KV("a", "1"), KV("b", "1"), KV("c", "1")})
	DeleteRecords(t, addrs, "deleting", 0, 2)
	expect(t, "head deleted", ReadAll(t, addrs, "deleting", true), "c=1@2")
	DeleteTopic(t, addrs, "deleting")
	CreateTopic(t, addrs, "deleting", 1, nil)
	if second := TopicID(t, addrs, "deleting"); second == first || second == ([16]byte{}) {
		t.Fatalf("the topic made again has id %x, was %x", second, first)
	}
	expect(t, "made again", ReadAll(t, addrs, "deleting", true), "")
	if l := Leader(t, addrs, "deleting", 0); l < 0 {
		t.Fatalf("leader %d", l)
	}
}
