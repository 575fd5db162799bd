package groupclient

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/assignor"
	"github.com/pillion/pillion/internal/kafkatest"
)

// The same group by real requests, on the in-process Kafka.

// run starts a member of a group on a Kafka, with a client of its own.
func run(t testing.TB, addrs []string, group string, change ...func(*Config)) *member {
	t.Helper()
	cfg := Config{Client: newClient(t, addrs), Group: group, SessionTimeout: 6 * time.Second, HeartbeatInterval: 100 * time.Millisecond}
	for _, c := range change {
		c(&cfg)
	}
	m := &member{recorder: newRecorder()}
	var err error
	if m.Group, err = New(cfg, m.recorder); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	m.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(m.stop)
	return m
}

// share joins a member with a declaration.
func (m *member) share(t testing.TB, d Declaration) Prepared {
	t.Helper()
	p, err := Prepare(t.Context(), m.cfg.Client, PrepareOptions{Group: m.cfg.Group}, d)
	if err != nil {
		t.Fatal(err)
	}
	m.Join(p)
	return p
}

func counting() Declaration {
	return Declaration{Sets: []DeclaredSet{{"orders", []string{"orders"}, []DeclaredTable{{Name: "counts"}}}}}
}

func has(n int) func(Assignment) bool { return func(a Assignment) bool { return len(a.Active) == n } }

// handOver does what a session does with tasks that were revoked.
func (m *member) handOver(t testing.TB, active []Task, next int64) {
	t.Helper()
	var revoked []Task
	for _, task := range m.Owned() {
		if slices.Contains(active, task) {
			continue
		}
		if err := m.CommitReleased(t.Context(), task, map[string]int64{"orders": next}); err != nil {
			t.Fatalf("releasing %s: %v", task, err)
		}
		revoked = append(revoked, task)
	}
	m.Release(revoked...)
}

// takeAll takes tasks over as a session does: once more after a rebalance.
func (m *member) takeAll(t testing.TB, active []Task) map[Task]TakeOver {
	t.Helper()
	all := map[Task]TakeOver{}
	for _, task := range active {
		m.retry(t, func() (err error) {
			all[task], err = m.TakeOver(t.Context(), task)
			return err
		})
	}
	return all
}

// retry repeats what was told to wait for the next assignment.
func (m *member) retry(t testing.TB, do func() error) {
	t.Helper()
	for {
		seen := len(m.all())
		err := do()
		if err == nil {
			return
		}
		if !errors.Is(err, ErrRebalancing) {
			t.Fatal(err)
		}
		m.until(t, "the next assignment", func(events []event) bool {
			return slices.ContainsFunc(events[min(seen, len(events)-1):], func(e event) bool { return e.what == "assigned" })
		})
	}
}

func journeyOfTwo(t *testing.T, addrs []string, session time.Duration) {
	timing := func(c *Config) { c.SessionTimeout = session }
	kafkatest.CreateTopic(t, addrs, "orders", 4, nil)
	for p := range int32(4) {
		for range 10 {
			kafkatest.Produce(t, addrs, "orders", []kafkatest.Record{kafkatest.KV("k", "v").On(p)})
		}
	}
	first := run(t, addrs, "app", timing)
	first.share(t, counting())
	a := first.assigned(t, "all tasks", has(4))
	for task, over := range first.takeAll(t, a.Active) {
		if over.Positions["orders"] != 0 || over.Ends["counts"] != 0 {
			t.Errorf("%s: %+v", task, over)
		}
	}

	second := run(t, addrs, "app", timing)
	second.share(t, counting())
	a = first.assigned(t, "half of the tasks", has(2))
	first.handOver(t, a.Active, 7)
	b := second.assigned(t, "the other half", has(2))
	for task, over := range second.takeAll(t, b.Active) {
		if over.Positions["orders"] != 7 {
			t.Errorf("%s: %+v", task, over)
		}
	}
	checkDescription(t, addrs)

	// The first dies without a word. The second inherits within its session.
	first.stop()
	c := second.assigned(t, "all tasks", has(4))
	for task, over := range second.takeAll(t, c.Active) {
		if want := int64(7 * boolInt(slices.Contains(b.Active, task))); over.Positions["orders"] != want {
			t.Errorf("%s: %+v", task, over)
		}
	}
	if err := second.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	kafkatest.WaitGroup(t, addrs, "app", func(g kafkatest.Group) bool { return len(g.Members) == 0 })
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// checkDescription reads the group as Kafka's own tools do.
func checkDescription(t *testing.T, addrs []string) {
	t.Helper()
	g := kafkatest.WaitGroup(t, addrs, "app", func(g kafkatest.Group) bool { return g.State == "Stable" })
	if g.Protocol != protocolName || len(g.Members) != 2 {
		t.Fatalf("got %+v", g)
	}
	var partitions []int32
	for _, m := range g.Members {
		var subscription kmsg.ConsumerMemberMetadata
		if err := subscription.ReadFrom(m.Metadata); err != nil || !slices.Equal(subscription.Topics, []string{"orders"}) {
			t.Errorf("subscription %+v, %v", subscription, err)
		}
		var assignment kmsg.ConsumerMemberAssignment
		if err := assignment.ReadFrom(m.Assignment); err != nil || len(assignment.Topics) != 1 || assignment.Topics[0].Topic != "orders" {
			t.Fatalf("assignment %+v, %v", assignment, err)
		}
		partitions = append(partitions, assignment.Topics[0].Partitions...)
		if s, err := assignor.DecodeSubscription(m.Metadata); err != nil || len(s.Sets) != 1 || s.Sets[0].Tables[0].Changelog != "app-counts-changelog" {
			t.Errorf("%+v, %v", s, err)
		}
	}
	slices.Sort(partitions)
	if !slices.Equal(partitions, []int32{0, 1, 2, 3}) {
		t.Errorf("partitions %v", partitions)
	}
	offsets := kafkatest.CommittedOffsets(t, addrs, "app")
	if len(offsets) != 4 {
		t.Errorf("%d committed positions", len(offsets))
	}
}

func TestTwoMembersOnFake(t *testing.T) {
	journeyOfTwo(t, kafkatest.Fake(t).Addrs(), 2*time.Second)
}

// A handler that does not return for a while would stop the loop; the contract forbids it. A worker
// that does not answer stops nothing: here nobody reacts to a revoke for longer than the session.
func TestASilentWorkerKeepsItsMembership(t *testing.T) {
	f := kafkatest.Fake(t, kfake.SeedTopics(4, "orders"))
	quick := func(c *Config) { c.SessionTimeout, c.HeartbeatInterval = 2*time.Second, 200*time.Millisecond }
	first := run(t, f.Addrs(), "app", quick)
	first.share(t, counting())
	first.assigned(t, "all tasks", has(4))
	second := run(t, f.Addrs(), "app", quick)
	second.share(t, counting())
	a := first.assigned(t, "half of the tasks", has(2))
	beats := make(chan struct{}, 100)
	f.ControlKey(int16(kmsg.Heartbeat), func(kmsg.Request) (kmsg.Response, error, bool) {
		f.KeepControl()
		select {
		case beats <- struct{}{}:
		default:
		}
		return nil, nil, false
	})
	for range 40 { // of two members, five a second each: two sessions
		<-beats
	}
	if first.has("lost") || len(first.Owned()) != 4 || len(second.last(t, "assigned").given.Active) != 0 {
		t.Errorf("first: %s\nsecond: %s", first.string(), second.string())
	}
	if got := first.last(t, "assigned").given.Generation; got != a.Generation {
		t.Errorf("generation %d became %d", a.Generation, got)
	}
}

func TestTheCoordinatorMovesOnFake(t *testing.T) {
	f := kafkatest.Fake(t, kfake.SeedTopics(4, "orders"))
	m := run(t, f.Addrs(), "app")
	m.share(t, counting())
	a := m.assigned(t, "all tasks", has(4))
	m.takeAll(t, a.Active)
	for i := range 5 {
		f.RehashCoordinators()
		if err := m.Commit(t.Context(), a.Active[0], map[string]int64{"orders": 0}); err != nil && !errors.Is(err, ErrLost) && !errors.Is(err, ErrRebalancing) {
			t.Fatalf("move %d: %v", i, err)
		}
	}
	if m.has("fatal") {
		t.Error(m.string())
	}
}

func TestInjectedCodesOnFake(t *testing.T) {
	type inject struct {
		kind kmsg.Key
		code int16
		lost bool
	}
	for _, c := range []inject{
		{kmsg.Heartbeat, 25, true}, {kmsg.Heartbeat, 27, false}, {kmsg.SyncGroup, 27, false}, {kmsg.JoinGroup, 25, false}, {kmsg.Heartbeat, 16, false},
	} {
		t.Run(c.kind.Name(), func(t *testing.T) {
			f := kafkatest.Fake(t, kfake.SeedTopics(4, "orders"))
			m := run(t, f.Addrs(), "app", func(c *Config) { c.SessionTimeout = 2 * time.Second })
			answered := make(chan struct{})
			once := false
			f.ControlKey(int16(c.kind), func(req kmsg.Request) (kmsg.Response, error, bool) {
				f.KeepControl()
				if join, ok := req.(*kmsg.JoinGroupRequest); once || ok && join.MemberID == "" {
					return nil, nil, false
				}
				once = true
				defer close(answered)
				resp := req.ResponseKind()
				switch resp := resp.(type) {
				case *kmsg.HeartbeatResponse:
					resp.ErrorCode = c.code
				case *kmsg.SyncGroupResponse:
					resp.ErrorCode = c.code
				case *kmsg.JoinGroupResponse:
					resp.ErrorCode = c.code
				}
				return resp, nil, true
			})
			m.share(t, counting())
			<-answered
			if c.lost {
				m.until(t, "the assignment after the loss", func(events []event) bool {
					at := slices.IndexFunc(events, func(e event) bool { return e.what == "lost" })
					return at >= 0 && events[len(events)-1].what == "assigned"
				})
			}
			a := m.assigned(t, "all tasks", has(4))
			m.takeAll(t, a.Active)
			if m.has("lost") != c.lost || m.has("fatal") {
				t.Error(m.string())
			}
		})
	}
}

func TestStaticMembershipOnFake(t *testing.T) {
	f := kafkatest.Fake(t, kfake.SeedTopics(4, "orders"))
	static := func(c *Config) { c.InstanceID = "one" }
	first := run(t, f.Addrs(), "app", static)
	first.share(t, counting())
	a := first.assigned(t, "all tasks", has(4))
	first.stop()
	second := run(t, f.Addrs(), "app", static)
	second.share(t, counting())
	b := second.assigned(t, "all tasks again", has(4))
	if b.MemberID == a.MemberID {
		t.Errorf("the same member id %q", b.MemberID)
	}
	second.takeAll(t, b.Active)
	second.stop()
	returnsWithMore(t, f.Addrs(), static)
}

// returnsWithMore is a static member that comes back with one more source. The coordinator gives it the
// old share without a rebalance; it has to ask for a new plan by itself.
func returnsWithMore(t *testing.T, addrs []string, static func(*Config)) {
	t.Helper()
	kafkatest.CreateTopic(t, addrs, "more", 2, nil)
	third := run(t, addrs, "app", static)
	d := counting()
	d.Sets = append(d.Sets, DeclaredSet{Name: "more", Sources: []string{"more"}})
	third.share(t, d)
	c := third.assigned(t, "the tasks of both sets", has(6))
	third.takeAll(t, c.Active)
	if err := third.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}
