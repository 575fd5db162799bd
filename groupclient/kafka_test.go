//go:build kafka

package groupclient

import (
	"strings"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
)

// What only a real broker shows.

func TestTwoMembersOnKafka(t *testing.T) {
	journeyOfTwo(t, kafkatest.Broker(t, kafkatest.Latest).Addrs(), 6*time.Second)
}

func TestTwoMembersOnOlderKafka(t *testing.T) {
	journeyOfTwo(t, kafkatest.Broker(t, kafkatest.Previous).Addrs(), 6*time.Second)
}

// The coordinator is killed: nobody is lost, commits go on at the next one, and the worker is told
// only of what lasts.
func TestTheCoordinatorIsKilled(t *testing.T) {
	cluster := kafkatest.Cluster(t, 3)
	addrs := cluster.Addrs()
	kafkatest.CreateTopic(t, addrs, "orders", 4, nil)
	first, second := run(t, addrs, "app"), run(t, addrs, "app")
	first.share(t, counting())
	first.takeAll(t, first.assigned(t, "all tasks", has(4)).Active)
	second.share(t, counting())
	a := first.assigned(t, "half of the tasks", has(2))
	first.handOver(t, a.Active, 0)
	b := second.assigned(t, "the other half", has(2))
	second.takeAll(t, b.Active)

	dead := cluster.Coordinator("app")
	dead.Kill()
	start := time.Now()
	for _, c := range []struct {
		m    *member
		task Task
	}{{first, a.Active[0]}, {second, b.Active[0]}} {
		c.m.retry(t, func() error { return c.m.Commit(t.Context(), c.task, map[string]int64{"orders": 0}) })
	}
	t.Logf("both have committed %s after the kill", time.Since(start).Round(time.Millisecond))
	if moved := cluster.Coordinator("app"); moved.ID() == dead.ID() {
		t.Error("the coordinator is the same")
	}
	for _, m := range []*member{first, second} {
		if m.has("lost") || m.has("fatal") || len(m.Owned()) != 2 {
			t.Error(m.string())
		}
	}
}

// The only broker is stopped and continued, for less than the session: nothing happens to the group.
func TestABrokerThatPauses(t *testing.T) {
	broker := kafkatest.Broker(t, kafkatest.Latest)
	kafkatest.CreateTopic(t, broker.Addrs(), "orders", 4, nil)
	m := run(t, broker.Addrs(), "app", func(c *Config) { c.HeartbeatInterval = 500 * time.Millisecond })
	m.share(t, counting())
	a := m.assigned(t, "all tasks", has(4))
	m.takeAll(t, a.Active)
	broker.Pause()
	start := time.Now()
	told := func(code string) func([]event) bool {
		return func(events []event) bool {
			last := events[len(events)-1]
			return last.what == "waiting" && last.code == code
		}
	}
	events := m.until(t, "word of the pause", told(codeUnreachable))
	last := events[len(events)-1]
	if took := last.at.Sub(start); took > 2*time.Second {
		t.Errorf("told after %s", took)
	}
	if !strings.Contains(last.text, broker.Addr()) {
		t.Errorf("told %q", last.text)
	}
	broker.Continue()
	m.until(t, "word of the end", told(codeOK))
	if err := m.Commit(t.Context(), a.Active[0], map[string]int64{"orders": 0}); err != nil {
		t.Error(err)
	}
	if m.has("lost") || m.last(t, "assigned").given.Generation != a.Generation {
		t.Error(m.string())
	}
}

// The group's record passes the limit of __consumer_offsets: said in words, and no loop.
func TestARecordTooLargeForKafka(t *testing.T) {
	broker := kafkatest.Broker(t, kafkatest.Latest, kafkatest.Property("message.max.bytes", "2000"))
	d := Declaration{}
	kafkatest.CreateTopic(t, broker.Addrs(), "orders", 1, nil)
	set := DeclaredSet{Name: "orders", Sources: []string{"orders"}}
	for i := range 8 {
		name := strings.Repeat("x", 230) + string(rune('a'+i))
		kafkatest.CreateTopic(t, broker.Addrs(), name, 1, nil)
		set.Tables = append(set.Tables, DeclaredTable{Name: name[:1] + string(rune('a'+i)), SourceTopic: name})
	}
	d.Sets = append(d.Sets, set)
	m := run(t, broker.Addrs(), "app")
	m.share(t, d)
	events := m.until(t, "words", func(events []event) bool { return len(events) > 0 })
	if e := events[0]; e.what != "waiting" || e.code != codeKafkaRefused || !strings.Contains(e.text, "message.max.bytes") {
		t.Errorf("got %+v", e)
	}
}
