//go:build kafka

package journeys

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafkatest"
)

// refuseSome makes the fake Kafka answer every eighth request of a kind with a code, five times, instead of
// carrying it out. It gives how often it has.
func refuseSome(f *kafkatest.FakeCluster, key int16, answer func(kmsg.Request) kmsg.Response) *atomic.Int32 {
	var seen, refused atomic.Int32
	f.ControlKey(key, func(r kmsg.Request) (kmsg.Response, error, bool) { //nolint:revive // kfake's order
		f.KeepControl()
		if seen.Add(1)%8 != 0 || refused.Load() >= 5 {
			return nil, nil, false
		}
		refused.Add(1)
		return answer(r), nil, true
	})
	return &refused
}

// rebalances answers the next heartbeat after each refusal with 27: the group has moved on.
func rebalances(f *kafkatest.FakeCluster, refused *atomic.Int32) {
	var told atomic.Int32
	f.ControlKey(heartbeatKey, func(r kmsg.Request) (kmsg.Response, error, bool) { //nolint:revive // kfake's order
		f.KeepControl()
		if n := refused.Load(); told.Swap(n) == n {
			return nil, nil, false
		}
		resp := r.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = 27
		return resp, nil, true
	})
}

func txnOffsetCommitAnswer(code int16) func(kmsg.Request) kmsg.Response {
	return func(r kmsg.Request) kmsg.Response {
		req := r.(*kmsg.TxnOffsetCommitRequest)
		resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
		for _, t := range req.Topics {
			topic := kmsg.NewTxnOffsetCommitResponseTopic()
			topic.Topic = t.Topic
			for _, p := range t.Partitions {
				partition := kmsg.NewTxnOffsetCommitResponseTopicPartition()
				partition.Partition, partition.ErrorCode = p.Partition, code
				topic.Partitions = append(topic.Partitions, partition)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp
	}
}

func endTxnAnswer(code int16) func(kmsg.Request) kmsg.Response {
	return func(r kmsg.Request) kmsg.Response {
		resp := r.ResponseKind().(*kmsg.EndTxnResponse)
		resp.ErrorCode = code
		return resp
	}
}

// Transactions are refused at their last steps while records flow: the worker drops what was not committed and
// does it anew, exactly once, and nothing of it is in its store.
func TestTransactionsAreAborted(t *testing.T) {
	for name, c := range map[string]struct {
		key    int16
		answer func(kmsg.Request) kmsg.Response
	}{
		"another generation":   {txnOffsetCommitKey, txnOffsetCommitAnswer(22)},
		"no member any more":   {txnOffsetCommitKey, txnOffsetCommitAnswer(25)},
		"fenced by its epoch":  {endTxnKey, endTxnAnswer(47)},
		"fenced by another id": {endTxnKey, endTxnAnswer(90)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := kafkatest.Fake(t)
			j := newJob(t, fake.Addrs(), 3)
			s := j.pair("--restart", "--session-timeout", "1s", "--heartbeat-interval", "200ms")
			s.running(3)
			refused := refuseSome(fake, c.key, c.answer)
			rebalances(fake, refused)
			f := j.feed(0)
			until(t, "transactions were refused", func() bool { return refused.Load() >= 5 })
			j.flowing(200)
			f.end()
			j.check()
			s.drain()
			j.files()
		})
	}
}
