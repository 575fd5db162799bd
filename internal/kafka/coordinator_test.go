package kafka

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupNotOn finds a group whose coordinator is another node.
func groupNotOn(k *cluster, node int32) string {
	for i := 0; ; i++ {
		if group := fmt.Sprint("group-", i); k.CoordinatorFor(group) != node {
			return group
		}
	}
}

func TestCoordinatorIsKeptUntilForgotten(t *testing.T) {
	k := newCluster(t)
	asked := k.count(kmsg.FindCoordinator)
	c := k.client(t)
	for _, kind := range []CoordinatorKind{Group, Transaction} {
		asked.Store(0)
		for range 3 {
			node, err := c.Coordinator(t.Context(), kind, "mine")
			if err != nil || node != k.CoordinatorFor("mine") {
				t.Fatalf("%v coordinator %d, %v; want %d", kind, node, err, k.CoordinatorFor("mine"))
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("%v coordinator asked for %d times", kind, n)
		}
		c.ForgetCoordinator(kind, "mine")
		if _, err := c.Coordinator(t.Context(), kind, "mine"); err != nil || asked.Load() != 2 {
			t.Errorf("after forgetting: %v, asked %d times", err, asked.Load())
		}
	}
}

// kafka-go takes node -1 of a failed FindCoordinator for the bootstrap broker.
func TestCoordinatorNotYetThere(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator} {
		k := newCluster(t)
		fault := k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: code, Count: 2})
		c := k.client(t)
		node, err := c.Coordinator(t.Context(), Group, "mine")
		if err != nil || node != k.CoordinatorFor("mine") || fault.Hits() != 2 {
			t.Errorf("%v: node %d, %v after %d faults", code, node, err, fault.Hits())
		}
	}
}

func TestCoordinatorRefused(t *testing.T) {
	k := newCluster(t)
	fault := k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.GroupAuthorizationFailed, Count: -1})
	c := k.client(t)
	_, err := c.ToGroup(t.Context(), "mine", kmsg.NewPtrHeartbeatRequest())
	if code, ok := CodeOf(err); !ok || code != 30 || fault.Hits() != 1 {
		t.Errorf("%v after %d requests", err, fault.Hits())
	}
	if want := "Kafka refuses User:ANONYMOUS the operation Read on group mine: grant Read to User:ANONYMOUS on group mine with an ACL (GROUP_AUTHORIZATION_FAILED, Kafka error 30)"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

func TestCoordinatorThatDiesIsFoundAgain(t *testing.T) {
	k := newCluster(t)
	c := k.client(t, func(cfg *Config) { cfg.Bootstrap = k.addrs })
	heartbeat := func() error {
		_, err := c.ToGroup(t.Context(), "mine", kmsg.NewPtrHeartbeatRequest())
		return err
	}
	if err := heartbeat(); err != nil {
		t.Fatal(err)
	}
	k.kill(t, k.CoordinatorFor("mine"))
	if err := heartbeat(); err != nil {
		t.Error(err)
	}
	if node, _ := c.Coordinator(t.Context(), Group, "mine"); node != k.CoordinatorFor("mine") {
		t.Errorf("coordinator %d, want %d", node, k.CoordinatorFor("mine"))
	}
}

func TestTransactionGoesToItsCoordinator(t *testing.T) {
	k := newCluster(t)
	id := groupNotOn(k, 0)
	var asked []int32
	k.watch(kmsg.InitProducerID, func(node int32, _ kmsg.Request) { asked = append(asked, node) })
	c := k.client(t)
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &id, 10_000
	answer, err := c.ToTransaction(t.Context(), id, req)
	if err != nil {
		t.Fatal(err)
	}
	if code := answer.(*kmsg.InitProducerIDResponse).ErrorCode; code != 0 || len(asked) != 1 || asked[0] != k.CoordinatorFor(id) {
		t.Errorf("code %d from %v, coordinator is %d", code, asked, k.CoordinatorFor(id))
	}
}

// When the time is over, the error is what the brokers said, not that they are unreachable.
func TestCoordinatorThatNeverComes(t *testing.T) {
	k := newCluster(t)
	k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.CoordinatorNotAvailable, Count: -1})
	c := k.client(t)
	for range 5 {
		_, err := c.Coordinator(deadline(t, 200*time.Millisecond), Group, "mine")
		if code, _ := CodeOf(err); code != codeCoordinatorUnavailable || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnreachable) {
			t.Errorf("%v", err)
		}
	}
}
