package drill

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The coordinator's log holds positions of other groups and topics, members, and tombstones, too.
func TestPositionsOf(t *testing.T) {
	commit := func(group, topic string, partition int32, next int64) *kgo.Record {
		key, value := kmsg.NewOffsetCommitKey(), kmsg.NewOffsetCommitValue()
		key.Version, key.Group, key.Topic, key.Partition = 1, group, topic, partition
		value.Version, value.Offset = 3, next
		return &kgo.Record{Key: key.AppendTo(nil), Value: value.AppendTo(nil)}
	}
	tombstone := commit("drill", "in", 3, 9)
	tombstone.Value = nil
	member := kmsg.NewGroupMetadataKey()
	member.Version, member.Group = 2, "drill"
	got := positionsOf([]*kgo.Record{
		commit("drill", "in", 3, 7), commit("other", "in", 3, 8), commit("drill", "out", 3, 8), tombstone,
		{Key: member.AppendTo(nil), Value: []byte("x")}, {Key: nil, Value: []byte("x")}, commit("drill", "in", 4, 1),
	}, "drill", "in", 2)
	if want := []Position{{2, 3, 7}, {2, 4, 1}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestRecordsAreRead(t *testing.T) {
	in, err := inputsOf([]*kgo.Record{{Partition: 2, Offset: 5, Key: []byte("k"), Value: []byte(`{"id":7,"amount":30}`)}}, 1)
	if want := []Input{{Source: 1, Partition: 2, Offset: 5, Key: "k", ID: 7, Amount: 30}}; err != nil || !reflect.DeepEqual(in, want) {
		t.Errorf("%+v, %v", in, err)
	}
	out, err := outputsOf([]*kgo.Record{{Partition: 2, Offset: 6, Timestamp: at(1), Key: []byte("k"), Value: []byte(`{"id":7,"amount":30,"count":1,"sum":30,"factor":4,"rev":9}`)}})
	if want := []Output{{2, 6, at(1).UnixMilli(), "k", 7, 30, 1, 30, 4, 9}}; err != nil || !reflect.DeepEqual(out, want) {
		t.Errorf("%+v, %v", out, err)
	}
	if _, err := inputsOf([]*kgo.Record{{Value: []byte("x")}}, 0); err == nil {
		t.Error("what is no input is one")
	}
}

func TestCoordinatorPartition(t *testing.T) {
	// Java's "drill".hashCode() is 95852635, that of "a group" 1203273216.
	if d, g := javaHash("drill"), javaHash("a group"); d != 95852635 || g != 1203273216 {
		t.Errorf("%d, %d", d, g)
	}
}

func TestResultsAddUp(t *testing.T) {
	tally := Tally{Injected: 3, Counted: 2, Missed: 1, ByKind: map[Kind]*KindTally{WorkerKill: {Injected: 3, Counted: 2, Missed: 1, Hits: map[Phase]int{Commit: 2, Rebalance: 1}}}}
	lines := ""
	for range 2 {
		lines += `{"Guarantee":"exactly_once","Seed":3,"Tally":{"Injected":3,"Counted":2,"Missed":1,"ByKind":{"worker killed":{"Injected":3,"Counted":2,"Missed":1,"Hits":{"commit":2,"rebalance":1}}}}}` + "\n"
	}
	path := filepath.Join(t.TempDir(), "results.jsonl")
	if err := os.WriteFile(path, []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	text, err := Sum(path)
	if err != nil || !strings.Contains(text, "| worker killed | 6 | 4 | 4 | 0 | 0 | 2 | 2 |") || !strings.Contains(text, "| all | 6 | 4 | 4 | 0 | 0 | 2 | 2 |") {
		t.Errorf("%v\n%s", err, text)
	}
	if !strings.Contains(tally.String(), "| all | 3 | 2 | 2 | 0 | 0 | 1 | 1 |") {
		t.Errorf("%s", tally)
	}
}
