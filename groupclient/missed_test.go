package groupclient

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka keeps a static member that does not join again, with what it said in its last JoinGroup. What it was
// given after that is given to others meanwhile, so that it must not go on with it.
func TestAStaticMemberThatMissedAGenerationHasLostEverything(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		static := func(name string) func(*Config) {
			return func(c *Config) { c.InstanceID, c.SessionTimeout = name, 40*time.Second }
		}
		silent := b.start(static("silent"))
		silent.Join(orders(4))
		pass(time.Second)
		if n := len(silent.Owned()); n != 4 {
			t.Fatalf("%d tasks are owned", n)
		}
		b.model.set(func() {
			b.model.hang = func(_ int32, req kmsg.Request) bool {
				join, ok := req.(*kmsg.JoinGroupRequest)
				return ok && text(join.InstanceID) == "silent"
			}
		})
		other := b.start(static("other"))
		other.Join(orders(4))
		pass(12 * time.Second) // the rebalance timeout
		if a := other.last(t, "assigned").given; len(a.Active) != 2 {
			t.Fatalf("the test expects that tasks of a silent member, of which its last JoinGroup says nothing, go to others at once: %+v", a)
		}
		b.model.set(func() { b.model.hang = nil })
		pass(20 * time.Second)
		if e := silent.last(t, "lost"); !strings.Contains(e.failure.Error(), "made without static member") {
			t.Errorf("got %v", e.failure)
		}
		given := map[Task]int{}
		for _, m := range []*member{silent, other} {
			for _, task := range m.last(t, "assigned").given.Active {
				given[task]++
			}
		}
		for p := range int32(4) {
			if n := given[Task{"orders", p}]; n != 1 {
				t.Errorf("task %d has %d owners: %v", p, n, given)
			}
		}
	})
}

// A coordinator that moves has forgotten the id that a static member was given since the last plan was stored,
// and calls it fenced. Nobody has its name: it joins once more.
func TestAStaticMemberWhoseIDIsForgottenJoinsOnceMore(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.model.set(func() { b.model.answer = once(82, kmsg.SyncGroup) })
		m := b.start(func(c *Config) { c.InstanceID = "static" })
		m.Join(orders(4))
		pass(2 * time.Second)
		if m.has("fatal") {
			t.Fatalf("it rests: %s", m.string())
		}
		if a := m.last(t, "assigned").given; len(a.Active) != 4 {
			t.Errorf("got %+v", a)
		}
		b.model.set(func() { b.model.answer = once(82, kmsg.Heartbeat) }) // by now another process is the only reason
		pass(2 * time.Second)
		m.last(t, "fatal")
	})
}
