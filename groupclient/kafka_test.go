//go:build kafka

package groupclient

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// The broker's own limit is asked for, and what would be answered -1 for ever is not sent: neither a
// subscription nor a plan. With compression the same goes through.
func TestARecordThatKafkaWouldNotStoreIsNotSent(t *testing.T) {
	for name, c := range map[string]struct {
		codec string
		words string // empty: it is stored
	}{
		"plain":      {"0", "max.message.bytes of __consumer_offsets is 150000: nothing was sent"},
		"compressed": {"1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			addrs := kafkatest.Broker(t, kafkatest.Latest, kafkatest.Property("message.max.bytes", "150000"),
				kafkatest.Property("offsets.topic.compression.codec", c.codec)).Addrs()
			kafkatest.CreateTopic(t, addrs, "orders", 4, nil)
			kafkatest.CreateTopic(t, addrs, "planes", 4, nil)
			told := func(events []event) bool {
				if len(events) == 0 {
					return false
				}
				last := events[len(events)-1]
				return last.what == "fatal" || last.code == codeKafkaRefused || last.what == "assigned" && len(last.given.Active) > 0
			}
			alone := run(t, addrs, "alone")
			alone.Join(wordy(160))
			events := alone.until(t, "words on the subscription", told)
			if e := events[len(events)-1]; c.words == "" && e.what != "assigned" || c.words != "" && (e.what != "fatal" || !strings.Contains(e.failure.Error(), c.words)) {
				t.Errorf("subscription: %s", alone.string())
			}
			first, second := run(t, addrs, "app"), run(t, addrs, "app")
			first.Join(wordy(80))
			first.assigned(t, "all tasks", has(4))
			second.Join(wordy(80))
			events = first.until(t, "words on the plan", func(events []event) bool {
				last := events[len(events)-1]
				return last.code == codeKafkaRefused || last.what == "assigned" && len(last.given.Active) == 2
			})
			if e := events[len(events)-1]; (e.what == "assigned") != (c.words == "") || !strings.Contains(e.text, c.words) {
				t.Errorf("plan: %s", first.string())
			}
		})
	}
}

// A static member that is restarted gets its plan back, without a rebalance.
func TestStaticMembershipOnKafka(t *testing.T) {
	broker := kafkatest.Broker(t, kafkatest.Latest)
	addrs := broker.Addrs()
	kafkatest.CreateTopic(t, addrs, "orders", 4, nil)
	static := func(c *Config) { c.InstanceID = "one" }
	first := run(t, addrs, "app", static)
	first.share(t, counting())
	a := first.assigned(t, "all tasks", has(4))
	first.takeAll(t, a.Active)
	first.stop()
	second := run(t, addrs, "app", static)
	second.share(t, counting())
	b := second.assigned(t, "all tasks again", has(4))
	if b.Generation != a.Generation || b.MemberID == a.MemberID {
		t.Errorf("was %+v, is %+v", a, b)
	}
	second.takeAll(t, b.Active)
	second.stop()
	returnsWithMore(t, addrs, static)
	kafkatest.WaitGroup(t, addrs, "app", func(g kafkatest.Group) bool { return len(g.Members) == 0 })
}

// kafka-consumer-groups itself: members, partitions and lag, as of any consumer.
func TestKafkasOwnToolDescribesTheGroup(t *testing.T) {
	lib := toolLib(t)
	addrs := kafkatest.Broker(t, kafkatest.Latest).Addrs()
	kafkatest.CreateTopic(t, addrs, "orders", 2, nil)
	kafkatest.Produce(t, addrs, "orders", []kafkatest.Record{kafkatest.KV("a", "1").On(0), kafkatest.KV("b", "2").On(0), kafkatest.KV("c", "3").On(1)})
	m := run(t, addrs, "app")
	m.share(t, counting())
	a := m.assigned(t, "all tasks", has(2))
	m.takeAll(t, a.Active)
	if err := m.Commit(t.Context(), Task{"orders", 1}, map[string]int64{"orders": 1}); err != nil {
		t.Fatal(err)
	}
	describe := func(args ...string) string {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		all := append([]string{"-cp", filepath.Join(lib, "*"), "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
			"--bootstrap-server", strings.Join(addrs, ","), "--describe", "--group", "app"}, args...)
		out, err := exec.CommandContext(ctx, "java", all...).CombinedOutput()
		if err != nil {
			t.Fatalf("kafka-consumer-groups: %v\n%s", err, out)
		}
		return string(out)
	}
	offsets, members := describe(), describe("--members", "--verbose")
	t.Logf("%s%s", offsets, members)
	for text, patterns := range map[string][]string{
		offsets: {`app +orders +0 +0 +2 +2 +` + m.last(t, "assigned").given.MemberID, `app +orders +1 +1 +1 +0 +`},
		members: {a.MemberID + ` .* 2 .*orders:0,1 `},
	} {
		for _, pattern := range patterns {
			if !regexp.MustCompile(pattern).MatchString(text) {
				t.Errorf("no %q in\n%s", pattern, text)
			}
		}
	}
}

// toolLib has the tools of Kafka, which the broker's own libraries lack. Kept in the cache of the checkout.
func toolLib(t *testing.T) string {
	t.Helper()
	cache, err := filepath.Abs("../.cache")
	if err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join(cache, "kafka-tools", kafkatest.Latest)
	if _, err := os.Stat(lib); err == nil {
		return lib
	}
	if err := os.MkdirAll(filepath.Dir(lib), 0o755); err != nil {
		t.Fatal(err)
	}
	work, err := os.MkdirTemp(filepath.Dir(lib), "new-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(work)
	pom := `<project><modelVersion>4.0.0</modelVersion><groupId>pillion</groupId><artifactId>tools</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>` + kafkatest.Latest + `</version></dependency></dependencies></project>`
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), []byte(pom), 0o644); err != nil {
		t.Fatal(err)
	}
	maven := exec.CommandContext(t.Context(), "mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib", "-DincludeScope=runtime")
	maven.Dir = work
	if out, err := maven.CombinedOutput(); err != nil {
		t.Fatalf("fetching Kafka's tools with mvn (install Maven and Java 17): %v\n%s", err, out)
	}
	if err := os.Rename(filepath.Join(work, "lib"), lib); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	return lib
}
