//go:build kafka

package groupsim

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/pillion/pillion/internal/kafkatest"
)

// INVARIANT: the model of the coordinator of transactions answers as a real broker does.
func TestTheScriptOfTransactionsOnKafka(t *testing.T) {
	broker := kafkatest.Broker(t, kafkatest.Latest)
	kafkatest.CreateTopic(t, broker.Addrs(), "log", 1, nil)
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker.Addrs()...), kgo.MaxVersions(kversion.V3_0_0()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	id, producer := "groupsim-script", int64(-1)
	ask := func(req kmsg.Request) kmsg.Response {
		resp, err := cl.Request(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	send := func(s step) (code, given int16) {
		switch s.what {
		case "init":
			req := kmsg.NewPtrInitProducerIDRequest()
			req.TransactionalID, req.TransactionTimeoutMillis = &id, 60_000
			req.ProducerID, req.ProducerEpoch = -1, s.epoch
			if s.epoch >= 0 {
				req.ProducerID = producer
			}
			resp := ask(req).(*kmsg.InitProducerIDResponse)
			if resp.ErrorCode == 0 {
				producer = resp.ProducerID
			}
			return resp.ErrorCode, resp.ProducerEpoch
		case "add":
			req := kmsg.NewPtrAddPartitionsToTxnRequest()
			req.TransactionalID, req.ProducerID, req.ProducerEpoch = id, producer, s.epoch
			req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "log", Partitions: []int32{0}}}
			return ask(req).(*kmsg.AddPartitionsToTxnResponse).Topics[0].Partitions[0].ErrorCode, 0
		default:
			req := kmsg.NewPtrEndTxnRequest()
			req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = id, producer, s.epoch, s.what == "commit"
			return ask(req).(*kmsg.EndTxnResponse).ErrorCode, 0
		}
	}
	for i, s := range txnScript {
		code, given := send(s)
		// The coordinator may not be there yet, and markers take their time.
		for again := time.Now().Add(30 * time.Second); code != s.code && time.Now().Before(again) &&
			(code == 14 || code == 15 || code == 16 || code == concurrent); code, given = send(s) {
			time.Sleep(20 * time.Millisecond)
		}
		if code != s.code || s.what == "init" && code == 0 && given != s.given {
			t.Fatalf("step %d, %+v: Kafka answers %d, %d", i, s, code, given)
		}
	}
}
