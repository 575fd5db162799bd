//go:build kafka

package produce

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/protocol/frame"
)

// What VerifiesTransactions says of a broker is what it does: refuse positions and records that are not
// in a transaction.
func TestVerifiedIsWhatBrokersDo(t *testing.T) {
	for version, verifies := range map[string]bool{"3.6.2": false, "3.7.2": true, kafkatest.Previous: true, kafkatest.Latest: true} {
		t.Run(version, func(t *testing.T) {
			addrs := kafkatest.Broker(t, version).Addrs()
			c := newClient(t, addrs)
			err := VerifiesTransactions(limited(t), c)
			var rejected *RejectedError
			if verifies && err != nil || !verifies && !errors.As(err, &rejected) {
				t.Errorf("verifies: %v", err)
			}
			topics(t, addrs, "in", "out")
			x := transactionsOf(t, Config{Compression: "none"}, c, TransactionsConfig{ID: txnID, Group: txnGroup})
			if err := x.Init(limited(t)); err != nil {
				t.Fatal(err)
			}
			positions := offsetsOutside(t, x)
			records := recordsOutside(t, x)
			t.Logf("outside of a transaction: TxnOffsetCommit %d, Produce %d", positions, records)
			if refused := positions == codeInvalidTxnState; refused != verifies {
				t.Errorf("TxnOffsetCommit answered %d", positions)
			}
			if verifies && records == codeNone {
				t.Errorf("Produce answered %d", records)
			}
		})
	}
}

// offsetsOutside sends TxnOffsetCommit before AddOffsetsToTxn.
func offsetsOutside(t *testing.T, x *Transactions) int16 {
	t.Helper()
	y := &transaction{t: x}
	p := map[kafka.TopicPartition]position{{Topic: "in"}: {offset: 1}}
	a := x.toGroup("TxnOffsetCommit", func() kmsg.Request { return y.offsetCommit(committer{generation: -1}, p) },
		func(r kmsg.Response) int16 { return positionsCode(r.(*kmsg.TxnOffsetCommitResponse), p) })
	_, code, err := a.until(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// recordsOutside sends a batch before AddPartitionsToTxn.
func recordsOutside(t *testing.T, x *Transactions) int16 {
	t.Helper()
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	k := new(packer)
	k.reset()
	k.add(frame.Record{Key: []byte("k")}, 1)
	raw, err := k.finish(nil)
	if err != nil {
		t.Fatal(err)
	}
	tp := kafka.TopicPartition{Topic: "out"}
	stampTransactional(raw, x.id, 0)
	for attempt := 0; ; attempt++ {
		node, _, err := x.cluster.Leader(ctx, tp)
		if err != nil {
			t.Fatal(err)
		}
		o := x.sender(node).send(ctx, &batch{tp: tp, records: raw, count: 1})
		if o.verdict == took || o.verdict == refusal || attempt == 20 {
			return o.code
		}
		if o.verdict == ask {
			x.cluster.ForgetLeader(tp)
		}
		fmt.Println("Produce:", o.err)
		kafka.Pause(ctx, 2)
	}
}
