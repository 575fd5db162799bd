//go:build kafka

package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafkatest"
)

// counting dials and counts.
type counting struct{ dials atomic.Int32 }

func (d *counting) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d.dials.Add(1)
	return new(net.Dialer).DialContext(ctx, network, address)
}

func realClient(t *testing.T, addrs []string, change ...func(*Config)) *Client {
	t.Helper()
	cfg := Config{Bootstrap: addrs}
	for _, f := range change {
		f(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func soon(t *testing.T) context.Context { return deadline(t, time.Minute) }

func TestRealAnswers(t *testing.T) {
	for _, version := range []string{kafkatest.Latest, kafkatest.Previous} {
		t.Run(version, func(t *testing.T) {
			b := kafkatest.Broker(t, version)
			c := realClient(t, b.Addrs())
			created := c.CreateTopics(soon(t), TopicSpec{Name: "flights", Partitions: 3, Configs: map[string]string{"cleanup.policy": "compact"}})
			if created["flights"] != nil {
				t.Fatal(created)
			}
			if again := c.CreateTopics(soon(t), TopicSpec{Name: "flights", Partitions: 3}); again["flights"] != nil {
				t.Error(again)
			}
			topics, err := c.Topics(soon(t), "flights", "nowhere")
			if err != nil || topics["flights"].ID != kafkatest.TopicID(t, b.Addrs(), "flights") || len(topics["flights"].Partitions) != 3 {
				t.Errorf("%+v, %v", topics, err)
			}
			if code, _ := CodeOf(topics["nowhere"].Err); code != codeUnknownTopic {
				t.Errorf("%+v", topics["nowhere"])
			}
			configs, err := c.TopicConfigs(soon(t), "flights", "cleanup.policy", "max.message.bytes")
			if err != nil || configs["cleanup.policy"] != "compact" || configs["max.message.bytes"] != "1048588" {
				t.Errorf("%v, %v", configs, err)
			}
			testRealOffsets(t, c, b.Addrs())
			testRealGroup(t, c)
		})
	}
}

func testRealOffsets(t *testing.T, c *Client, addrs []string) {
	kafkatest.Produce(t, addrs, "flights", []kafkatest.Record{kafkatest.KV("a", "1"), kafkatest.KV("b", "2")})
	open := kafkatest.Begin(t, addrs, "open")
	open.Produce("flights", kafkatest.KV("c", "3"))
	defer open.Abort()
	tp := TopicPartition{"flights", 0}
	for _, test := range []struct {
		at        int64
		committed bool
		want      int64
	}{{Earliest, false, 0}, {Latest, true, 2}, {Latest, false, 3}, {1, false, 0}, {time.Now().Add(time.Hour).UnixMilli(), false, -1}} {
		offsets, err := c.ListOffsets(soon(t), test.at, test.committed, partitions(3)...)
		if err != nil || len(offsets) != 3 || offsets[tp].Offset != test.want {
			t.Errorf("%d committed %v: %v, %v; want %d", test.at, test.committed, offsets, err, test.want)
		}
	}
	_, epoch, err := c.Leader(soon(t), tp)
	if err != nil {
		t.Fatal(err)
	}
	if ended, offset, err := c.EpochEnd(soon(t), tp, epoch); err != nil || ended != epoch || offset != 3 {
		t.Errorf("epoch %d ends as %d at %d, %v", epoch, ended, offset, err)
	}
}

// settled repeats a request while the coordinator is being made or loads its part.
func settled(t *testing.T, kind CoordinatorKind, c *Client, id string, send func(ctx context.Context) (int16, error)) int16 {
	t.Helper()
	ctx := soon(t)
	for attempt := 0; ; attempt++ {
		code, err := send(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if code != codeCoordinatorLoading && code != codeCoordinatorUnavailable && code != codeNotCoordinator {
			return code
		}
		c.ForgetCoordinator(kind, id)
		if !Pause(ctx, attempt) {
			t.Fatal(CodeName(code))
		}
	}
}

func heartbeat(c *Client, group string) func(ctx context.Context) (int16, error) {
	return func(ctx context.Context) (int16, error) {
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID = group, "nobody"
		answer, err := c.ToGroup(ctx, group, req)
		if err != nil {
			return 0, err
		}
		code := answer.(*kmsg.HeartbeatResponse).ErrorCode
		if code == 0 {
			code = codeCoordinatorLoading // while it loads, Kafka answers 0 to anybody
		}
		return code, nil
	}
}

// The coordinators' topics do not exist yet, and codes that kafka-go loses are seen.
func testRealGroup(t *testing.T, c *Client) {
	if code := settled(t, Group, c, "mine", heartbeat(c, "mine")); code != 25 {
		t.Errorf("heartbeat of no member: %s", CodeName(code))
	}
	id := "mine"
	code := settled(t, Transaction, c, id, func(ctx context.Context) (int16, error) {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = &id, 10_000
		answer, err := c.ToTransaction(ctx, id, req)
		if err != nil {
			return 0, err
		}
		return answer.(*kmsg.InitProducerIDResponse).ErrorCode, nil
	})
	if code != 0 {
		t.Errorf("new producer: %s", CodeName(code))
	}
}

// halt stops a broker and waits until it has: a thread of it must run to take the signal, which may
// last on a busy machine, and until then the others answer.
func halt(t *testing.T, b *kafkatest.RealBroker) {
	t.Helper()
	c := realClient(t, b.Addrs()) // not the client under test, whose connections are to be lost
	if _, err := c.Do(soon(t), b.ID(), listGroups()); err != nil {
		t.Fatal(err)
	}
	b.Pause()
	for ctx := soon(t); ; {
		try, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		_, err := c.Do(try, b.ID(), listGroups())
		cancel()
		if err != nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal("a stopped broker answers")
		}
	}
}

// A restart with pooled connections costs no failed call.
func TestRealRestart(t *testing.T) {
	const pooled = 21
	b := kafkatest.Broker(t, kafkatest.Latest)
	dialer := new(counting)
	c := realClient(t, b.Addrs(), func(cfg *Config) { cfg.Dial = dialer.dial; cfg.RequestTimeout = time.Minute })
	if _, err := c.Do(soon(t), b.ID(), listGroups()); err != nil {
		t.Fatal(err)
	}
	for round, restart := range []func(){func() { b.Stop(); b.Start() }, func() { b.Kill(); b.Start() }} {
		halt(t, b)
		dialer.dials.Store(0)
		var calls sync.WaitGroup
		for range pooled {
			calls.Go(func() {
				if _, err := c.Do(soon(t), b.ID(), listGroups()); err != nil {
					t.Error(err)
				}
			})
		}
		// The kernel accepts, the paused broker does not answer: each call makes its connection, but
		// for a few that were there.
		for ctx := soon(t); dialer.dials.Load() < pooled-3; {
			if !Pause(ctx, 0) {
				t.Fatal("no connections")
			}
		}
		b.Continue()
		calls.Wait()
		restart()
		before := dialer.dials.Load()
		for call := range pooled {
			if _, err := c.Do(soon(t), b.ID(), listGroups()); err != nil {
				t.Errorf("round %d, call %d after the restart: %v", round, call, err)
			}
		}
		t.Logf("round %d: %d new connections for %d calls", round, dialer.dials.Load()-before, pooled)
	}
	// Calls to any broker wait for one that is away.
	b.Kill()
	done := make(chan error, 1)
	go func() { _, err := c.Any(soon(t), listGroups()); done <- err }()
	b.Start()
	if err := <-done; err != nil {
		t.Errorf("call made while the broker was away: %v", err)
	}
}

// A stopped process answers nothing and refuses nothing.
func TestRealStoppedBroker(t *testing.T) {
	b := kafkatest.Broker(t, kafkatest.Latest)
	c := realClient(t, b.Addrs(), func(cfg *Config) { cfg.RequestTimeout = time.Second })
	if _, err := c.Do(soon(t), b.ID(), listGroups()); err != nil {
		t.Fatal(err)
	}
	halt(t, b)
	for name, call := range map[string]func(ctx context.Context) error{
		"Do":     func(ctx context.Context) error { _, err := c.Do(ctx, b.ID(), listGroups()); return err },
		"Any":    func(ctx context.Context) error { _, err := c.Any(ctx, listGroups()); return err },
		"group":  func(ctx context.Context) error { _, err := c.ToGroup(ctx, "g", listGroups()); return err },
		"topics": func(ctx context.Context) error { _, err := c.Refresh(ctx, "flights"); return err },
		"raw":    func(ctx context.Context) error { return c.Exchange(ctx, b.ID(), newMetadataExchange()) },
	} {
		within(t, name+" by its own limit", func() {
			if err := call(t.Context()); !errors.Is(err, context.DeadlineExceeded) || !Retriable(err) {
				t.Errorf("%s: %v", name, err)
			}
		})
		within(t, name+" by deadline", func() {
			if err := call(deadline(t, 300*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	within(t, "Close", c.Close)
	b.Continue()
	again := realClient(t, b.Addrs())
	if _, err := again.Any(soon(t), listGroups()); err != nil { // the cluster may not list it yet
		t.Errorf("continued: %v", err)
	}
}

func TestRealCluster(t *testing.T) {
	k := kafkatest.Cluster(t, 3)
	addrs := k.Addrs()
	kafkatest.CreateTopic(t, addrs, "flights", 3, nil)
	kafkatest.Produce(t, addrs, "flights", []kafkatest.Record{kafkatest.KV("a", "1")})
	c := realClient(t, addrs[:1])

	group, coordinator := "", int32(-1)
	for i := 0; coordinator < 0 || coordinator == k.Nodes[0].ID(); i++ {
		var err error
		group = fmt.Sprint("group-", i)
		if coordinator, err = c.Coordinator(soon(t), Group, group); err != nil {
			t.Fatal(err)
		}
	}
	if code := settled(t, Group, c, group, heartbeat(c, group)); code != 25 || k.Coordinator(group).ID() != coordinator {
		t.Errorf("coordinator %d answers %s", coordinator, CodeName(code))
	}
	asked := k.Nodes[0].ID()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID = group, "nobody"
	if answer, err := c.Do(soon(t), asked, req); err != nil || answer.(*kmsg.HeartbeatResponse).ErrorCode != codeNotCoordinator {
		t.Errorf("another node answers %v, %v", answer, err)
	}

	testRealMove(t, k, c)
	testRealStop(t, k, c, group, coordinator)
}

// The leader moves while we believe in the old one.
func testRealMove(t *testing.T, k *kafkatest.RealCluster, c *Client) {
	tp := TopicPartition{"flights", 0}
	node, epoch, err := c.Leader(soon(t), tp)
	if err != nil {
		t.Fatal(err)
	}
	next := k.Nodes[0].ID()
	if node == next {
		next = k.Nodes[1].ID()
	}
	k.MoveLeader("flights", 0, next)
	offsets, err := c.ListOffsets(soon(t), Latest, true, partitions(3)...)
	if err != nil || offsets[tp].Offset != 1 {
		t.Errorf("after the move: %v, %v", offsets, err)
	}
	got, newer, err := c.Leader(soon(t), tp)
	if err != nil || got != next || newer <= epoch {
		t.Errorf("leader %d epoch %d, %v; moved to %d from epoch %d", got, newer, err, next, epoch)
	}
}

// The coordinator stops without a word.
func testRealStop(t *testing.T, k *kafkatest.RealCluster, c *Client, group string, coordinator int32) {
	tp := TopicPartition{"flights", 0}
	paused := k.Coordinator(group)
	halt(t, paused)
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for moved := coordinator; moved == coordinator; {
		try, end := context.WithTimeout(ctx, time.Second)
		var err error
		if moved, err = c.Coordinator(try, Group, group); err != nil || moved == coordinator {
			c.ForgetCoordinator(Group, group)
			moved = coordinator
		}
		end()
		if ctx.Err() != nil || !Pause(ctx, 0) {
			t.Fatalf("no other coordinator: %v", err)
		}
	}
	t.Logf("coordinator moved %v after SIGSTOP", time.Since(begin))
	offsets, err := c.ListOffsets(soon(t), Latest, false, partitions(3)...)
	if err != nil || offsets[tp].Offset != 1 {
		t.Errorf("with a stopped node: %v, %v", offsets, err)
	}
	t.Logf("all leaders answered %v after SIGSTOP", time.Since(begin))
	if code := settled(t, Group, c, group, heartbeat(c, group)); code != 25 {
		t.Errorf("the new coordinator answers %s", CodeName(code))
	}
	paused.Continue()
}
