package groupclient

import (
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafkatest"
)

// partingByRequests: a member whose take-over fails behind its claim hands the task over to another, and is not
// fenced by it.
func partingByRequests(t *testing.T, addrs []string) {
	s := newStage(t, addrs, released)
	first := s.join(failing(), &watched{}, nil)
	first.assigned(t, "the task", has(1))
	if _, err := s.take(first); !errors.Is(err, errLate) {
		t.Fatal(err)
	}
	if _, c := s.stored(); c.Released || c.Incarnation != first.Incarnation() {
		t.Fatalf("the claim is %+v", c)
	}
	first.Drain() // so that the task goes to the other one
	w := &watched{}
	second := s.join(takeOverSteps, w, nil)
	first.assigned(t, "no task", has(0))
	first.Release(Task{"orders", 0})
	second.assigned(t, "the task", has(1))
	if _, c := s.stored(); !c.Released || c.Incarnation != first.Incarnation() {
		t.Errorf("handed over with the claim %+v", c)
	}
	over, err := s.take(second)
	if err != nil || over.Positions[s.orders] != 7 {
		t.Errorf("got %+v, %v", over, err)
	}
	w.mu.Lock()
	inits := slices.Clone(w.inits)
	w.mu.Unlock()
	if len(inits) != 0 {
		t.Errorf("fenced %v", inits)
	}
	if first.has("lost") {
		t.Errorf("the first one has lost its membership: %s", first.string())
	}
}

func TestAFailedTakeOverIsHandedOver(t *testing.T) {
	partingByRequests(t, kafkatest.Fake(t).Addrs())
}

// Every partition of a commit has to be answered, and the code that decides is found among them.
func TestTheCodeThatDecides(t *testing.T) {
	for _, c := range []struct {
		name  string
		codes []int16 // of orders, payees; shorter: left out
		want  int16
		again bool
	}{
		{"all well", []int16{0, 0}, 0, false},
		{"one is left out", []int16{0}, 0, true},
		{"all are left out", nil, 0, true},
		{"the first is refused, one is left out", []int16{29}, 29, false},
		{"one is to be repeated", []int16{14, 0}, 14, false},
		{"a refusal before one to be repeated", []int16{14, 29}, 29, false},
		{"the loss before everything", []int16{25, 29}, 25, false},
		{"a rebalance before one to be repeated", []int16{27, 7}, 27, false},
	} {
		g := newGroup(Config{Group: "g"}, newModel(), newRecorder())
		req, resp := g.offsetCommit(identity{}), answerTo(c.codes)
		for _, topic := range []string{"orders", "payees"} {
			req.Topics = append(req.Topics, requestTopic(topic))
		}
		code, err := worst(req, resp)
		if code != c.want || errors.Is(err, errAgain) != c.again {
			t.Errorf("%s: %d, %v", c.name, code, err)
		}
	}
}

func requestTopic(topic string) kmsg.OffsetCommitRequestTopic {
	rt, rp := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	rt.Topic, rp.Partition = topic, 1
	rt.Partitions = append(rt.Partitions, rp)
	return rt
}

func answerTo(codes []int16) *kmsg.OffsetCommitResponse {
	resp := kmsg.NewPtrOffsetCommitResponse()
	for i, code := range codes {
		rt, rp := kmsg.NewOffsetCommitResponseTopic(), kmsg.NewOffsetCommitResponseTopicPartition()
		rt.Topic, rp.Partition, rp.ErrorCode = []string{"orders", "payees"}[i], 1, code
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}
