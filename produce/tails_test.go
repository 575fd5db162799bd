package produce

import (
	"context"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/protocol"
)

func TestTailIsOursAcrossMarkers(t *testing.T) {
	tp := kafka.TopicPartition{Topic: "t"}
	var k tails
	for i, c := range []struct {
		want, base int64
		count      int32
		markers    int
		ours       bool
	}{
		{-1, 10, 2, 1, true},   // not checked
		{12, 13, 2, 2, true},   // behind one marker
		{12, 17, 1, 0, true},   // two more markers and an aborted batch of ours since
		{18, 18, 1, 0, true},   // directly behind
		{19, 20, 1, 1, false},  // one offset that is nobody's marker
		{20, 22, 1, 0, false},  // the stretch begins anew at 20, and is 1 marker further
		{22, 23, 1, 0, true},   // 22 was
		{21, 24, 1, 0, false},  // before the stretch
		{30, 25, 1, 0, false},  // the log is shorter than it was
		{-1, 100, 1, 0, true},  // not checked
		{101, 101, 1, 0, true}, // nothing in between
	} {
		if i == 5 {
			k.forget(tp)
		}
		if got := k.landed(tp, c.want, c.base, c.count); got != c.ours {
			t.Errorf("%d: %+v: ours %v", i, c, got)
		}
		for range c.markers {
			k.marked(tp)
		}
	}
}

func TestForeignWrites(t *testing.T) { testForeign(t, kafkatest.Fake(t).Addrs()) }

// testForeign is what must hold on every Kafka.
func testForeign(t *testing.T, addrs []string) {
	topics(t, addrs, "in", "foreign")
	c := tamper(newClient(t, addrs))
	x := transacting(t, Config{}, c)
	head := int64(0)
	fetches := func() int { return c.count(kmsg.Fetch) }
	commit := func(key string) error {
		w := changelog("foreign", 1, writes(kv(key, "")))
		w.Head = head
		r, err := x.Commit(limited(t), Unit{Writes: []Write{w}})
		if err == nil {
			head = r.Changelogs["foreign"].Next
		}
		return err
	}
	must := func(key string, looks int) {
		t.Helper()
		before := fetches()
		if err := commit(key); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		if got := fetches() - before; looks == 0 && got != 0 || looks > 0 && got == 0 {
			t.Errorf("%s: %d fetches", key, got)
		}
	}
	must("a", 0)
	must("b", 0)
	// An aborted transaction of ours: a batch and a marker.
	c.on(kmsg.TxnOffsetCommit, nil)
	own := Unit{Writes: []Write{changelog("foreign", 1, writes(kv("aborted", "")))}, Positions: func() (Positions, error) { return Positions{}, context.Canceled }}
	if _, err := x.Commit(limited(t), own); err == nil {
		t.Fatal("committed")
	}
	must("c", 0)
	// Another one's: aborted, which nobody sees; committed; and outside of any transaction.
	other(t, addrs, "other-1", false)
	must("d", 1)
	must("e", 0)
	other(t, addrs, "other-2", true)
	for range 2 {
		if r := rejectedAs(t, commit("behind"), protocol.CodeForeignWrite); !strings.Contains(r.Message, "foreign/1") {
			t.Errorf("%q", r.Message)
		}
	}
	head = 100 // the task was opened anew: its reader saw the foreign record
	rejectedAs(t, commit("truncated"), protocol.CodeTruncated)
	head = -1
	must("f", 0)
	other(t, addrs, "", true)
	rejectedAs(t, commit("behind"), protocol.CodeForeignWrite)
	head = -1
	must("g", 0)
	got := keys(t, addrs, "foreign")
	equal(t, "changelog", got, strings.Fields("a b c d e foreign f foreign g"))
}

// other writes to the changelog as somebody else, in a transaction unless it has no id.
func other(t *testing.T, addrs []string, id string, commit bool) {
	t.Helper()
	opts := []kgo.Opt{kgo.SeedBrokers(addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner())}
	if id != "" {
		opts = append(opts, kgo.TransactionalID(id))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx := limited(t)
	if id != "" {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "foreign", Partition: 1, Key: []byte("foreign")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if id != "" {
		if err := cl.EndTransaction(ctx, kgo.TransactionEndTry(commit)); err != nil {
			t.Fatal(err)
		}
		// Its marker lands after the answer; what follows is to come behind it.
		kafkatest.ReadAll(t, addrs, "foreign", true)
	}
}

// Under at_least_once the records are there; the answer says that somebody else's are, too.
func TestForeignWriteAtLeastOnce(t *testing.T) {
	addrs := kafkatest.Fake(t).Addrs()
	topics(t, addrs, "foreign")
	c := tamper(newClient(t, addrs))
	p := running(t, Config{}, c)
	head := int64(0)
	write := func(head int64) Landed {
		t.Helper()
		w := changelog("foreign", 1, writes(kv("k", "")), writes(kv("l", "")))
		w.Head = head
		r, err := p.Write(limited(t), []Write{w})
		if err != nil {
			t.Fatal(err)
		}
		return r.Changelogs["foreign"]
	}
	for range 3 {
		at := write(head)
		if at.Foreign || at.Base != head {
			t.Errorf("%+v, where it had to land is %d", at, head)
		}
		head = at.Next
	}
	if n := c.count(kmsg.Fetch); n != 0 {
		t.Errorf("%d fetches", n)
	}
	if at := write(0); at.Foreign { // all of it is ours
		t.Errorf("%+v", at)
	}
	head += 2
	other(t, addrs, "aborted", false)
	at := write(head)
	if at.Foreign || at.Base == head {
		t.Errorf("%+v", at)
	}
	other(t, addrs, "", false)
	if at = write(at.Next); !at.Foreign {
		t.Errorf("%+v", at)
	}
	if at = write(at.Next + 5); !at.Foreign {
		t.Errorf("%+v", at)
	}
	if at = write(-1); at.Foreign {
		t.Errorf("%+v", at)
	}
}
