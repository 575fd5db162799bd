package kafka

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestCreateTopics(t *testing.T) {
	k := newCluster(t, kfake.SeedTopics(1, "flights"))
	c := k.client(t)
	results := c.CreateTopics(t.Context(),
		TopicSpec{Name: "changelog", Partitions: 8, Configs: map[string]string{"cleanup.policy": "compact"}},
		TopicSpec{Name: "flights", Partitions: 8},
		TopicSpec{Name: "nothing", Partitions: 0},
	)
	if len(results) != 3 || results["changelog"] != nil || results["flights"] != nil {
		t.Errorf("%v", results)
	}
	err := results["nothing"]
	if code, _ := CodeOf(err); code != 37 || !strings.HasPrefix(err.Error(), "creating topic nothing") {
		t.Errorf("no partitions: %v", err)
	}
	topics, err := c.Topics(t.Context(), "changelog")
	if err != nil || len(topics["changelog"].Partitions) != 8 {
		t.Errorf("%+v, %v", topics, err)
	}
	configs, err := c.TopicConfigs(t.Context(), "changelog", "cleanup.policy")
	if err != nil || len(configs) != 1 || configs["cleanup.policy"] != "compact" {
		t.Errorf("%v, %v", configs, err)
	}
	if configs, err = c.TopicConfigs(t.Context(), "changelog"); err != nil || len(configs) < 2 {
		t.Errorf("all: %v, %v", configs, err)
	}
	_, err = c.TopicConfigs(t.Context(), "nowhere", "cleanup.policy")
	if code, _ := CodeOf(err); code != codeUnknownTopic {
		t.Errorf("configs of no topic: %v", err)
	}
	if results := c.CreateTopics(t.Context()); len(results) != 0 {
		t.Error(results)
	}
}

func TestCreateTopicsGoesToTheController(t *testing.T) {
	k := newCluster(t)
	c := k.client(t)
	if _, err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	controller := c.controller
	var asked []int32
	k.watch(kmsg.CreateTopics, func(node int32, _ kmsg.Request) { asked = append(asked, node) })
	c.mu.Lock()
	c.controller = (controller + 1) % 3 // the one that was before
	c.mu.Unlock()
	if err := c.CreateTopics(t.Context(), TopicSpec{Name: "new", Partitions: 1})["new"]; err != nil {
		t.Error(err)
	}
	if last := asked[len(asked)-1]; last != controller || len(asked) != 2 {
		t.Errorf("asked %v, controller is %d", asked, controller)
	}
}

func TestCreateTopicsThatFails(t *testing.T) {
	k := newCluster(t)
	c := k.client(t, impatient)
	k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.RequestTimedOut, Count: 1})
	if err := c.CreateTopics(deadline(t, time.Minute), TopicSpec{Name: "slow", Partitions: 1})["slow"]; err != nil {
		t.Errorf("timed out once: %v", err)
	}
	k.wire.freeze(k.addrs...)
	within(t, "creating", func() {
		err := c.CreateTopics(t.Context(), TopicSpec{Name: "never", Partitions: 1})["never"]
		if err == nil || !Retriable(err) {
			t.Errorf("brokers are stopped: %v", err)
		}
	})
}

// Brokers are fenced for a moment when they have just started: there are fewer than the default factor.
func TestCreateTopicsWaitsForBrokers(t *testing.T) {
	k := newCluster(t)
	c := k.client(t)
	k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.InvalidReplicationFactor, Count: 2})
	if err := c.CreateTopics(t.Context(), TopicSpec{Name: "new", Partitions: 1})["new"]; err != nil {
		t.Errorf("fenced twice: %v", err)
	}
	k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.InvalidReplicationFactor, Count: 1000})
	err := c.CreateTopics(deadline(t, 300*time.Millisecond), TopicSpec{Name: "never", Partitions: 1})["never"]
	if code, _ := CodeOf(err); code != codeBadReplicationFactor {
		t.Errorf("fenced for long: %v", err)
	}
}
