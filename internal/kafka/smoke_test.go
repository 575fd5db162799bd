package kafka

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSmoke(t *testing.T) {
	k := kfake.MustCluster(kfake.NumBrokers(3), kfake.SeedTopics(4, "flights"))
	defer k.Close()
	c, err := New(Config{Bootstrap: k.ListenAddrs()[:1]})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	topics, err := c.Topics(ctx, "flights", "nope")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(topics)
	n, e, err := c.Leader(ctx, TopicPartition{"flights", 1})
	t.Log(n, e, err)
	r, err := c.ToGroup(ctx, "g", kmsg.NewPtrHeartbeatRequest())
	t.Log(r, err)
	v, err := c.Versions(ctx, 2)
	t.Log(v, err)
}
