package produce

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/protocol"
)

// faulty is a transactional producer on the in-process Kafka whose requests a test tampers with.
type faulty struct {
	*tampered
	t     *testing.T
	addrs []string
	x     *Transactions
	stop  func()
}

func newFaulty(t *testing.T, timeout time.Duration) *faulty {
	fake := kafkatest.Fake(t)
	f := &faulty{t: t, addrs: fake.Addrs(), tampered: tamper(newClient(t, fake.Addrs()))}
	topics(t, f.addrs, "in", "out", "table", "other")
	f.x = transactionsOf(t, Config{Compression: "none"}, f.tampered, TransactionsConfig{ID: txnID, Group: txnGroup, Timeout: timeout})
	if err := f.x.Init(limited(t)); err != nil {
		t.Fatal(err)
	}
	f.stop = start(t, f.x)
	return f
}

func unitOf(topic, key string) Unit {
	return Unit{Writes: []Write{output(topic, writes(kv(key, "")))}, Positions: at(0, 1)}
}

func (f *faulty) commit(key string) error {
	_, err := f.x.Commit(limited(f.t), unitOf("out", key))
	return err
}

func (f *faulty) must(key string) {
	f.t.Helper()
	if err := f.commit(key); err != nil {
		f.t.Fatalf("%s: %v", key, err)
	}
}

func (f *faulty) has(want ...string) {
	f.t.Helper()
	got := keys(f.t, f.addrs, "out")
	slices.Sort(got)
	slices.Sort(want)
	equal(f.t, "out", got, want)
}

// together makes commits that share one transaction.
func (f *faulty) together(units ...Unit) []chan result {
	f.t.Helper()
	h, begun, release := held()
	f.on(kmsg.EndTxn, h)
	first := commitLater(f.t, f.x, unitOf("other", "first"))
	<-begun
	var all []chan result
	for i, u := range units {
		all = append(all, commitLater(f.t, f.x, u))
		queuedUp(f.t, f.x, i+1)
	}
	f.off(kmsg.EndTxn)
	release()
	if r := get(f.t, first); r.err != nil {
		f.t.Fatal(r.err)
	}
	return all
}

func rejectedAs(t *testing.T, err error, code string) *RejectedError {
	t.Helper()
	var rejected *RejectedError
	if !errors.As(err, &rejected) || rejected.Code != code {
		t.Fatalf("got %v, want rejected as %s", err, code)
	}
	return rejected
}

func unknownOf(t *testing.T, err error) *UnknownError {
	t.Helper()
	var unknown *UnknownError
	if !errors.As(err, &unknown) {
		t.Fatalf("got %v, want unknown", err)
	}
	return unknown
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// INVARIANT: TxnOffsetCommit is sent when every produce is acknowledged, and EndTxn is the next request.
func TestPositionsAreSentLastAndDirectlyBeforeTheEnd(t *testing.T) {
	f := newFaulty(t, 0)
	f.must("warm")
	f.traced()
	var records []rec
	for i := range 40 {
		records = append(records, kv(fmt.Sprint(i), ""))
	}
	if _, err := f.x.Commit(limited(t), Unit{Writes: []Write{output("out", writes(records...)), output("other", writes(records...))}, Positions: at(0, 1)}); err != nil {
		t.Fatal(err)
	}
	trace := f.traced()
	for i, key := range trace {
		if key == kmsg.OffsetForLeaderEpoch {
			continue
		}
		switch n := len(trace) - i; {
		case i == 0 && key != kmsg.AddPartitionsToTxn, n == 1 && key != kmsg.EndTxn, n == 2 && key != kmsg.TxnOffsetCommit,
			n > 2 && i > 0 && key != kmsg.Produce && key != kmsg.AddOffsetsToTxn:
			t.Fatalf("requests in the order %v", trace)
		}
	}
}

func TestUnitsThatWaitShareOneTransaction(t *testing.T) {
	f := newFaulty(t, 0)
	all := f.together(unitOf("out", "a"), unitOf("out", "b"), unitOf("out", "c"))
	for _, c := range all {
		if r := get(t, c); r.err != nil {
			t.Fatal(r.err)
		}
	}
	if n := f.count(kmsg.EndTxn); n != 1 {
		t.Errorf("%d transactions for 3 commits that waited", n)
	}
	f.has("a", "b", "c")
}

func TestOutputsOfUnitsShareABatchUntilOneIsGuilty(t *testing.T) {
	f := newFaulty(t, 0)
	f.must("warm")
	same := func(value string) Unit {
		return Unit{Writes: []Write{output("out", writes(kv("same", value)), writes(rec{value: []byte(value), at: -1})), changelog("table", 1, writes(kv(value, "")))}, Positions: at(0, 1)}
	}
	all := f.together(same("a"), same("b"), same("c"))
	for _, c := range all {
		if r := get(t, c); r.err != nil || len(r.r.Changelogs) != 1 || r.r.Records != 3 {
			t.Fatal(r)
		}
	}
	equal(t, "changelog", keys(t, f.addrs, "table"), []string{"a", "b", "c"})
	if n := batches(t, f, "same"); n != 1 {
		t.Errorf("%d batches for three units", n)
	}

	f.on(kmsg.Produce, func(_ int, req kmsg.Request, send func() (kmsg.Response, error)) (kmsg.Response, error) {
		req.SetVersion(11)
		bad := bytes.Contains(req.AppendTo(nil), []byte("bad"))
		resp, err := send()
		if err == nil && bad {
			for _, topic := range resp.(*kmsg.ProduceResponse).Topics {
				if topic.Topic == "out" {
					topic.Partitions[0].ErrorCode = codeTooLarge
				}
			}
		}
		return resp, err
	})
	all = f.together(unitOf("out", "same"), Unit{Writes: []Write{output("out", writes(kv("same", "bad")))}}, unitOf("out", "same"))
	for _, i := range []int{0, 2} {
		if r := get(t, all[i]); r.err != nil {
			t.Errorf("%d: %v", i, r.err)
		}
	}
	rejectedAs(t, get(t, all[1]).err, protocol.CodeRecordTooLarge)
	for _, r := range kafkatest.ReadAll(t, f.addrs, "out", true) {
		if string(r.Value) == "bad" {
			t.Error("of the guilty one something is there")
		}
	}
}

// batches is how many batches hold the records of a key.
func batches(t *testing.T, f *faulty, key string) int {
	t.Helper()
	tp := kafka.TopicPartition{Topic: "out", Partition: KeyPartition([]byte(key), 4)}
	q, err := f.x.p.readGap(limited(t), tp, 0, uncommitted)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for raw := q.RecordBatches; len(raw) >= batchHeader; {
		end := atLeaderEpoch + int(binary.BigEndian.Uint32(raw[atLength:]))
		if bytes.Contains(raw[:end], []byte(key)) {
			n++
		}
		raw = raw[end:]
	}
	return n
}

func TestConcurrentTransactionsAreWaitedFor(t *testing.T) {
	f := newFaulty(t, 0)
	f.on(kmsg.AddPartitionsToTxn, answered(func(n int) bool { return n < 6 }, addPartitionsCode(codeConcurrent)))
	f.must("a")
	f.stop()
	if f.x.id.epoch != 0 {
		t.Error("the epoch changed")
	}
	f.has("a")
}

func TestAPositionThatIsNotAnsweredIsSentAgain(t *testing.T) {
	f := newFaulty(t, 0)
	f.on(kmsg.TxnOffsetCommit, eachPosition(only(1), func(r *kmsg.TxnOffsetCommitResponse) { r.Topics = nil }))
	f.must("a")
	if n := f.count(kmsg.TxnOffsetCommit); n != 2 {
		t.Errorf("TxnOffsetCommit was sent %d times", n)
	}
	f.on(kmsg.TxnOffsetCommit, eachPosition(only(1), func(r *kmsg.TxnOffsetCommitResponse) { r.Topics[0].Partitions[0].ErrorCode = codeNotCoordinator }))
	f.must("b")
	f.has("a", "b")
}

// A coordinator that does not say whether a partition was added is asked again, and not in a loop.
func TestAnAnswerThatLeavesAPartitionOut(t *testing.T) {
	f := newFaulty(t, 0)
	f.on(kmsg.AddPartitionsToTxn, answered(always, func(kmsg.Request) kmsg.Response { return kmsg.NewPtrAddPartitionsToTxnResponse() }))
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := f.x.Commit(ctx, unitOf("out", "a")); err == nil {
		t.Error("committed")
	}
	if n := f.count(kmsg.AddPartitionsToTxn); n > 20 {
		t.Errorf("asked %d times", n)
	}
	f.off(kmsg.AddPartitionsToTxn)
	f.must("b")
	f.has("b")
}

func TestARightThatIsMissingIsSaid(t *testing.T) {
	for _, c := range []struct {
		key  kmsg.Key
		h    hook
		says string
	}{
		{kmsg.AddPartitionsToTxn, answered(only(1), addPartitionsCode(codeTransactionalDenied)), "Write on transactional id " + txnID},
		{kmsg.AddOffsetsToTxn, answered(only(1), func(kmsg.Request) kmsg.Response { return &kmsg.AddOffsetsToTxnResponse{ErrorCode: codeGroupDenied} }), "Read on group " + txnGroup},
	} {
		f := newFaulty(t, 0)
		f.on(c.key, c.h)
		if r := rejectedAs(t, f.commit("a"), protocol.CodeKafkaRefused); !strings.Contains(r.Message, c.says) {
			t.Errorf("%q does not say %q", r.Message, c.says)
		}
		f.must("b")
		f.has("b")
	}
}

func TestStoppedIsToldAndAborted(t *testing.T) {
	f := newFaulty(t, 0)
	f.must("a")
	h, begun, release := held()
	defer release()
	f.on(kmsg.Produce, func(n int, req kmsg.Request, send func() (kmsg.Response, error)) (kmsg.Response, error) {
		go func() { <-begun; release() }()
		return h(n, req, send)
	})
	inside := commitLater(t, f.x, unitOf("out", "inside"))
	<-begun
	f.stop()
	r := get(t, inside)
	if r.err != nil {
		rejectedAs(t, r.err, protocol.CodeKafkaUnreachable)
	}
	if err := f.commit("after"); !errors.Is(err, ErrStopped) {
		t.Errorf("got %v", err)
	}
	// The transaction was ended: a reader of committed records gets past it.
	if r.err == nil {
		f.has("a", "inside")
	} else {
		f.has("a")
	}
}
