package kafka

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func listGroups() kmsg.Request { return kmsg.NewPtrListGroupsRequest() }

func TestDoReachesTheNode(t *testing.T) {
	k := newCluster(t)
	var got []int32
	k.watch(kmsg.ListGroups, func(node int32, _ kmsg.Request) { got = append(got, node) })
	c := k.client(t)
	for _, node := range []int32{2, 0, 1, 2} {
		if _, err := c.Do(t.Context(), node, listGroups()); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) != 4 || got[0] != 2 || got[1] != 0 || got[2] != 1 || got[3] != 2 {
		t.Errorf("asked nodes %v, want [2 0 1 2]", got)
	}
	_, err := c.Do(t.Context(), 7, listGroups())
	if err == nil || !strings.Contains(err.Error(), "broker 7 is not in the cluster") || !Retriable(err) {
		t.Errorf("unknown node: %v", err)
	}
}

// The typed Heartbeat of kafka-go shows code 0, whatever the broker says, and asks the bootstrap
// broker.
func TestHeartbeatTellsItsCode(t *testing.T) {
	k := newCluster(t)
	c := k.client(t)
	group := groupNotOn(k, 0)
	var asked []int32
	k.watch(kmsg.Heartbeat, func(node int32, _ kmsg.Request) { asked = append(asked, node) })
	answer, err := c.ToGroup(t.Context(), group, kmsg.NewPtrHeartbeatRequest())
	if err != nil {
		t.Fatal(err)
	}
	if code := answer.(*kmsg.HeartbeatResponse).ErrorCode; code == 0 || code == codeNotCoordinator {
		t.Errorf("heartbeat of no member answered %d", code)
	}
	if len(asked) != 1 || asked[0] != k.CoordinatorFor(group) {
		t.Errorf("asked %v, coordinator is %d", asked, k.CoordinatorFor(group))
	}
}

// After a broker's restart every pooled connection is dead. None may cost a failed call.
func TestLostConnectionsCostNoCall(t *testing.T) {
	const pooled = 21
	k := newCluster(t)
	c := k.client(t)
	if _, err := c.Do(t.Context(), 1, listGroups()); err != nil {
		t.Fatal(err)
	}
	k.wire.freeze(k.addrs[1])
	dialled := k.wire.dials.Load()
	var calls sync.WaitGroup
	for range pooled {
		calls.Go(func() {
			if _, err := c.Do(t.Context(), 1, listGroups()); err != nil {
				t.Error(err)
			}
		})
	}
	k.wire.await(func() bool { return k.wire.dials.Load() >= dialled+pooled-2 }) // two were pooled before
	k.wire.thaw()
	calls.Wait()

	for round := range 3 {
		k.wire.cut()
		dialled = k.wire.dials.Load()
		for range pooled {
			if _, err := c.Do(t.Context(), 1, listGroups()); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		if again := k.wire.dials.Load() - dialled; again > 4 {
			t.Errorf("round %d: %d new connections for one call at a time", round, again)
		}
	}
}

// The same with all calls at once, each finding another dead connection.
func TestLostConnectionsAtOnce(t *testing.T) {
	k := newCluster(t)
	c := k.client(t)
	for range 5 {
		var calls sync.WaitGroup
		for range 16 {
			calls.Go(func() {
				if _, err := c.Do(t.Context(), 2, listGroups()); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		k.wire.cut()
	}
}

func TestAnyPassesByDeadBrokers(t *testing.T) {
	k := newCluster(t)
	c := k.client(t, impatient)
	ctx := deadline(t, time.Minute)
	if _, err := c.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	k.wire.refuse(k.addrs[0])
	k.wire.freeze(k.addrs[1])
	for call := range 5 {
		if _, err := c.Any(ctx, listGroups()); err != nil {
			t.Fatal(err)
		}
		k.wire.await(func() bool {
			if call > 0 && k.wire.tried[k.addrs[0]]+k.wire.tried[k.addrs[1]] > 0 {
				t.Errorf("call %d tried a dead broker again", call)
			}
			clear(k.wire.tried)
			return true
		})
	}
}

func TestUnreachableNamesTheAddresses(t *testing.T) {
	k := newCluster(t)
	c := k.client(t, impatient, func(cfg *Config) { cfg.Bootstrap = []string{k.addrs[1], k.addrs[0]} })
	k.wire.refuse(k.addrs...)
	_, err := c.Any(t.Context(), listGroups())
	if !errors.Is(err, ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) || !Retriable(err) {
		t.Fatalf("%T %v", err, err)
	}
	first, second := min(k.addrs[0], k.addrs[1]), max(k.addrs[0], k.addrs[1])
	want := "no Kafka broker answers at " + first + ", " + second + " (dial tcp: connection refused): " +
		"check bootstrap_servers, and that Kafka is running and can be reached from here"
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	k.wire.open(k.addrs...)
	if _, err := c.Any(deadline(t, time.Minute), listGroups()); err != nil {
		t.Errorf("Kafka is back: %v", err)
	}
}

func TestStoppedBrokerEndsByDeadline(t *testing.T) {
	k := newCluster(t)
	c := k.client(t, impatient)
	if _, err := c.Do(t.Context(), 0, listGroups()); err != nil {
		t.Fatal(err)
	}
	k.wire.freeze(k.addrs...)
	calls := map[string]func(ctx context.Context) error{
		"pooled": func(ctx context.Context) error { _, err := c.Do(ctx, 0, listGroups()); return err },
		"dial":   func(ctx context.Context) error { _, err := c.Do(ctx, 2, listGroups()); return err },
		"any":    func(ctx context.Context) error { _, err := c.Any(ctx, listGroups()); return err },
		"group":  func(ctx context.Context) error { _, err := c.ToGroup(ctx, "g", listGroups()); return err },
	}
	for name, call := range calls {
		for limit, ctx := range map[string]context.Context{"own limit": t.Context(), "deadline": deadline(t, 200*time.Millisecond)} {
			within(t, name+" with "+limit, func() {
				err := call(ctx)
				if !Retriable(err) {
					t.Errorf("%s with %s: %v is not retriable", name, limit, err)
				}
				// A handshake that takes longer than DialTimeout is no end of the context.
				if limit == "deadline" && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s with %s: %v", name, limit, err)
				}
			})
		}
	}
	k.wire.thaw()
	if _, err := c.Do(t.Context(), 0, listGroups()); err != nil {
		t.Errorf("after the thaw: %v", err)
	}
}

func deadline(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestBrokerThatMovesIsFound(t *testing.T) {
	k := newCluster(t)
	c := k.client(t)
	if _, err := c.Do(t.Context(), 2, listGroups()); err != nil {
		t.Fatal(err)
	}
	k.kill(t, 2)
	if _, _, err := k.AddNode(2, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(t.Context(), 2, listGroups()); err != nil {
		t.Errorf("node on another port: %v", err)
	}
}

func TestNodeThatIsDownFailsSoon(t *testing.T) {
	k := newCluster(t)
	c := k.client(t)
	if _, err := c.Do(t.Context(), 2, listGroups()); err != nil {
		t.Fatal(err)
	}
	k.wire.refuse(k.addrs[2])
	within(t, "the call", func() {
		_, err := c.Do(t.Context(), 2, listGroups())
		if err == nil || !Retriable(err) || !strings.Contains(err.Error(), k.addrs[2]) {
			t.Errorf("node is down: %v", err)
		}
	})
}

// INVARIANT: after Close no connection and no goroutine is left, also where a broker hangs.
func TestCloseEndsAll(t *testing.T) {
	k := newCluster(t)
	c := k.client(t)
	if _, err := c.Do(t.Context(), 1, listGroups()); err != nil {
		t.Fatal(err)
	}
	k.wire.freeze(k.addrs...)
	dialled := k.wire.dials.Load()
	var calls sync.WaitGroup
	for node := range int32(3) {
		calls.Go(func() {
			_, err := c.Do(t.Context(), node, listGroups())
			if !errors.Is(err, errClosed) || Retriable(err) {
				t.Errorf("call in flight: %v", err)
			}
		})
	}
	k.wire.await(func() bool { return k.wire.dials.Load() > dialled }) // node 2 is new
	within(t, "Close", c.Close)
	calls.Wait()
	if _, err := c.Any(t.Context(), listGroups()); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
	if n := c.sockets.count(); n != 0 {
		t.Errorf("%d sockets left", n)
	}
}

// INVARIANT: a pool that was dropped keeps no connection, also when a call that took it before uses it after.
func TestDroppedPoolKeepsNoConnection(t *testing.T) {
	k := newCluster(t)
	c := k.client(t)
	b := c.brokers[k.addrs[0]]
	p := b.pool()
	b.drop(p, nil)
	if _, err := p.offered(t.Context()); err != nil {
		t.Fatal(err)
	}
	within(t, "Close", c.Close) // an idle connection lives for 30 s
}

func TestControllerIsFoundAgain(t *testing.T) {
	k := newCluster(t)
	c := k.client(t)
	var asked []int32
	k.watch(kmsg.ListGroups, func(node int32, _ kmsg.Request) { asked = append(asked, node) })
	if _, err := c.ToController(t.Context(), listGroups()); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	real := c.controller
	c.controller = (real + 1) % 3 // the one that was before
	k.kill(t, c.controller)
	c.mu.Unlock()
	if _, err := c.ToController(t.Context(), listGroups()); err != nil {
		t.Fatal(err)
	}
	if len(asked) != 2 || asked[0] != real || asked[1] != real {
		t.Errorf("asked %v, controller is %d", asked, real)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, cfg := range []Config{
		{},
		{Bootstrap: []string{"kafka"}},
		{Bootstrap: []string{":9092"}},
		{Bootstrap: []string{"kafka:"}},
		{Bootstrap: []string{"kafka:9092"}, DialTimeout: -1},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

func TestSilentBrokerIsAskedLast(t *testing.T) {
	k := newCluster(t)
	c := k.client(t)
	if _, err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.wire.freeze(k.addrs[1])
	if _, err := c.Do(deadline(t, 50*time.Millisecond), 1, listGroups()); err == nil {
		t.Fatal("a stopped broker answered")
	}
	for range 20 {
		if order := c.candidates(); order[2].address != k.addrs[1] {
			t.Fatalf("the stopped broker is not the last of %d", len(order))
		}
	}
	k.wire.thaw()
	if _, err := c.Do(t.Context(), 1, listGroups()); err != nil {
		t.Fatal(err)
	}
	c.favouriteAt = time.Time{}
	first := map[string]bool{}
	for range 200 {
		first[c.candidates()[0].address] = true
	}
	if len(first) != 3 {
		t.Errorf("an old favourite is still preferred: %v", first)
	}
}
