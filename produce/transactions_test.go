package produce

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/protocol"
)

func TestAUnitIsCommittedWhole(t *testing.T) { testUnits(t, kafkatest.Fake(t).Addrs()) }

// testUnits is what must hold on every Kafka.
func testUnits(t *testing.T, addrs []string) {
	topics(t, addrs, "in", "table", "out")
	c := newClient(t, addrs)
	x := transacting(t, Config{}, c)
	m := joinGroup(t, c, "")
	head := int64(0)
	for i := range int64(5) {
		table := changelog("table", 2, writes(kv(fmt.Sprint(i), "row"), kv("second", "row")))
		table.Head = head
		r, err := x.Commit(limited(t), Unit{Writes: []Write{table, output("out", writes(kv(fmt.Sprint(i), "out")))}, Positions: m.at(2, 10*i)})
		if err != nil {
			t.Fatal(err)
		}
		at := r.Changelogs["table"]
		if at.Base != 3*i || at.Next != 3*i+2 || at.LeaderEpoch < 0 || at.Foreign || at.TopicID != kafkatest.TopicID(t, addrs, "table") || r.Records != 3 {
			t.Errorf("commit %d: %+v", i, r)
		}
		head = at.Next
	}
	equal(t, "table", keys(t, addrs, "table"), strings.Fields("0 second 1 second 2 second 3 second 4 second"))
	if got := keys(t, addrs, "out"); len(got) != 5 {
		t.Errorf("outputs %v", got)
	}
	eventually(t, "positions", func() bool { return committedAt(t, addrs, 2) == 40 })

	// Without writes, and without anything.
	if r, err := x.Commit(limited(t), Unit{Positions: m.at(2, 50)}); err != nil || r.Records != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	eventually(t, "positions", func() bool { return committedAt(t, addrs, 2) == 50 })
	if _, err := x.Commit(limited(t), Unit{Writes: []Write{changelog("table", 0)}}); err != nil {
		t.Error(err)
	}
	// Without positions.
	if _, err := x.Commit(limited(t), Unit{Writes: []Write{changelog("table", 0, writes(kv("alone", "")))}}); err != nil {
		t.Error(err)
	}
}

func TestAGenerationOrMemberOfThePastCommitsNothing(t *testing.T) {
	testPast(t, kafkatest.Fake(t).Addrs())
}

func testPast(t *testing.T, addrs []string) {
	topics(t, addrs, "in", "past")
	c := newClient(t, addrs)
	x := transacting(t, Config{}, c)
	m := joinGroup(t, c, "")
	commit := func(key string, m member) error {
		_, err := x.Commit(limited(t), Unit{Writes: []Write{output("past", writes(kv(key, "")))}, Positions: m.at(0, 7)})
		return err
	}
	if err := commit("a", m); err != nil {
		t.Fatal(err)
	}
	if err := commit("older generation", member{m.id, m.generation - 1}); !errors.Is(err, ErrGeneration) {
		t.Errorf("got %v", err)
	}
	if err := commit("nobody", member{"nobody", m.generation}); !errors.Is(err, ErrMembership) {
		t.Errorf("got %v", err)
	}
	own := errors.New("not ours any more")
	_, err := x.Commit(limited(t), Unit{Writes: []Write{output("past", writes(kv("refused", "")))}, Positions: func() (Positions, error) { return Positions{}, own }})
	if !errors.Is(err, own) {
		t.Errorf("got %v", err)
	}
	if err := commit("b", m); err != nil {
		t.Fatal(err)
	}
	equal(t, "out", keys(t, addrs, "past"), []string{"a", "b"})
}

func TestFencedIsFencedForEver(t *testing.T) { testFenced(t, kafkatest.Fake(t).Addrs()) }

func testFenced(t *testing.T, addrs []string) {
	topics(t, addrs, "in", "fenced")
	c := newClient(t, addrs)
	x := transacting(t, Config{}, c)
	commit := func(x *Transactions, key string) error {
		_, err := x.Commit(limited(t), Unit{Writes: []Write{output("fenced", writes(kv(key, "")))}})
		return err
	}
	if err := commit(x, "a"); err != nil {
		t.Fatal(err)
	}
	other := transacting(t, Config{}, c)
	for range 2 {
		if err := commit(x, "zombie"); !errors.Is(err, ErrFenced) {
			t.Fatalf("got %v", err)
		}
	}
	if err := commit(other, "b"); err != nil {
		t.Fatal(err)
	}
	equal(t, "out", keys(t, addrs, "fenced"), []string{"a", "b"})
	if err := x.Init(limited(t)); err == nil {
		t.Error("initialised twice")
	}
}

func TestARecordThatIsTooLargeIsRefusedBeforeATransaction(t *testing.T) {
	fake := kafkatest.Fake(t)
	fake.Topic(t, "out", 1, map[string]string{"max.message.bytes": "1000"})
	x := transacting(t, Config{}, newClient(t, fake.Addrs()))
	_, err := x.Commit(limited(t), Unit{Writes: []Write{output("out", writes(kv("k", strings.Repeat("v", 1000))))}})
	var rejected *RejectedError
	if !errors.As(err, &rejected) || rejected.Code != protocol.CodeRecordTooLarge {
		t.Errorf("got %v", err)
	}
}

// While the transaction coordinator is away callers come and go: what they gave up does not pile up.
func TestWhatIsGivenUpIsForgotten(t *testing.T) {
	x := transactionsOf(t, Config{}, newClient(t, kafkatest.Fake(t).Addrs()), TransactionsConfig{ID: txnID, Group: txnGroup})
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Millisecond, cancel)
		var rejected *RejectedError
		if _, err := x.Commit(ctx, Unit{Positions: at(0, 1)}); !errors.As(err, &rejected) {
			t.Fatalf("got %v, want that nothing was written", err)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.queue) != 0 {
		t.Errorf("%d commits that were given up are still there", len(x.queue))
	}
}
