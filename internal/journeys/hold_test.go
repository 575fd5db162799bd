//go:build kafka

package journeys

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafkatest"
)

// Keys of requests that journeys hold or count.
const (
	produceKey         int16 = 0
	offsetCommitKey    int16 = 8
	heartbeatKey       int16 = 12
	endTxnKey          int16 = 26
	txnOffsetCommitKey int16 = 28
)

// hold keeps requests of one kind at the fake Kafka: seen, not carried out.
type hold struct {
	t     *testing.T
	seen  chan kmsg.Request
	after chan struct{} // closed: let them go
	drop  bool          // or forget them, and cut their connections
	once  sync.Once
}

// holdBack holds every request of a kind that matches.
func holdBack(t *testing.T, f *kafkatest.FakeCluster, key int16, match func(kmsg.Request) bool) *hold {
	h := &hold{t: t, seen: make(chan kmsg.Request, 1000), after: make(chan struct{})}
	f.ControlKey(key, func(r kmsg.Request) (kmsg.Response, error, bool) { //nolint:revive // kfake's order
		f.KeepControl()
		select {
		case <-h.after:
			return nil, nil, false
		default:
		}
		if !match(r) {
			return nil, nil, false
		}
		h.seen <- r
		f.SleepControl(func() { <-h.after })
		if h.drop {
			return nil, errors.New("the test drops it"), true
		}
		return nil, nil, false
	})
	t.Cleanup(h.release)
	return h
}

// request waits for a request that is held.
func (h *hold) request() kmsg.Request {
	h.t.Helper()
	select {
	case r := <-h.seen:
		return r
	case <-time.After(patience):
		h.t.Fatalf("waited %v for a request to hold, in vain", patience)
		return nil
	}
}

// release lets go of what is held, and of all that follows.
func (h *hold) release() { h.once.Do(func() { close(h.after) }) }

// forget never carries out what is held.
func (h *hold) forget() { h.drop = true; h.release() }

// pastClaim says whether an OffsetCommit moves a position: one that claims repeats it.
func pastClaim(r kmsg.Request) bool {
	for _, topic := range r.(*kmsg.OffsetCommitRequest).Topics {
		for _, p := range topic.Partitions {
			if p.Offset > 0 {
				return true
			}
		}
	}
	return false
}

// writesTo says whether a Produce goes to a topic: it names it, or its id.
func writesTo(t *testing.T, addrs []string, topic string) func(kmsg.Request) bool {
	t.Helper()
	id := kafkatest.TopicID(t, addrs, topic)
	return func(r kmsg.Request) bool {
		for _, t := range r.(*kmsg.ProduceRequest).Topics {
			if t.Topic == topic || t.TopicID == id {
				return true
			}
		}
		return false
	}
}
