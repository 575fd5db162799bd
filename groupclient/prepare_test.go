package groupclient

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/internal/kafkatest"
)

func newClient(t testing.TB, addrs []string) *kafka.Client {
	t.Helper()
	c, err := kafka.New(kafka.Config{Bootstrap: addrs, ClientID: "groupclient-test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func full() Declaration {
	return Declaration{
		Sets: []DeclaredSet{{"flights", []string{"flights", "delays"}, []DeclaredTable{
			{Name: "stats"}, {Name: "worst", Changelog: "worst-log"}, {Name: "planes", SourceTopic: "planes"},
		}}},
		Globals: []DeclaredGlobal{{"airports", "airports"}},
		Outputs: []string{"late"},
	}
}

func seeded(t testing.TB) *kafkatest.FakeCluster {
	f := kafkatest.Fake(t, kfake.SeedTopics(4, "flights", "delays", "planes", "late"), kfake.SeedTopics(3, "airports"))
	f.Topic(t, "worst-log", 4, map[string]string{"cleanup.policy": "compact"})
	return f
}

func TestPrepare(t *testing.T) {
	f := seeded(t)
	client := newClient(t, f.Addrs())
	p, err := Prepare(t.Context(), client, PrepareOptions{Group: "app"}, full())
	if err != nil {
		t.Fatal(err)
	}
	set := p.Sets[0]
	if set.Partitions != 4 || set.Tables[0] != (PreparedTable{"stats", "app-stats-changelog", false}) || set.Tables[2] != (PreparedTable{"planes", "planes", true}) {
		t.Errorf("got %+v", set)
	}
	if p.Globals[0] != (PreparedGlobal{"airports", "airports", 3}) || len(p.Warnings) != 0 || p.Outputs[0] != "late" || p.Group != "app" {
		t.Errorf("got %+v", p)
	}
	for topic, id := range p.TopicIDs {
		if id != kafkatest.TopicID(t, f.Addrs(), topic) {
			t.Errorf("topic id of %s is %x", topic, id)
		}
	}
	if len(p.TopicIDs) != 7 {
		t.Errorf("%d topic ids", len(p.TopicIDs))
	}
	configs, err := client.TopicConfigs(t.Context(), "app-stats-changelog", "cleanup.policy")
	if err != nil || configs["cleanup.policy"] != "compact" {
		t.Errorf("the changelog has %v, %v", configs, err)
	}
	again, err := Prepare(t.Context(), client, PrepareOptions{Group: "app"}, full())
	if err != nil || len(p.Created) != 1 || len(again.Created) != 0 || again.TopicIDs["app-stats-changelog"] != p.TopicIDs["app-stats-changelog"] {
		t.Errorf("again: %v", err)
	}
}

func TestPrepareRefuses(t *testing.T) {
	f := seeded(t)
	f.Topic(t, "two", 2, nil)
	f.Topic(t, "two-log", 2, map[string]string{"cleanup.policy": "compact"})
	client := newClient(t, f.Addrs())
	for _, c := range []struct {
		name, code, message string
		options             PrepareOptions
		change              func(*Declaration)
	}{
		{name: "no such source", code: codeUnknownTopic, message: `topic "fligths" (a source of set "flights") does not exist, or this user may not see it; create it, or correct its name`,
			change: func(d *Declaration) { d.Sets[0].Sources[1] = "fligths" }},
		{name: "no such output", code: codeUnknownTopic, message: `topic "later" (an output) does not exist, or this user may not see it; create it, or correct its name`,
			change: func(d *Declaration) { d.Outputs[0] = "later" }},
		{name: "no such topics", code: codeUnknownTopic, message: `topics "later" (an output), "plains" (a source table of table "planes" of set "flights") do not exist, or this user may not see them; create them, or correct their names`,
			change: func(d *Declaration) { d.Outputs[0], d.Sets[0].Tables[2].SourceTopic = "later", "plains" }},
		{name: "no such global", code: codeUnknownTopic, message: `topic "ports" (a global table of "airports") does not exist, or this user may not see it; create it, or correct its name`,
			change: func(d *Declaration) { d.Globals[0].Topic = "ports" }},
		{name: "sources differ", code: codeCountMismatch, message: `topic "two" (a source) has 2 partitions but "flights" of the same set "flights" has 4; topics that are read together need the same number: create one of them anew`,
			change: func(d *Declaration) { d.Sets[0].Sources[1] = "two" }},
		{name: "changelog differs", code: codeCountMismatch, message: `topic "two-log" (a changelog) has 2 partitions but "flights" of the same set "flights" has 4; topics that are read together need the same number: create one of them anew`,
			change: func(d *Declaration) { d.Sets[0].Tables[1].Changelog = "two-log" }},
		{name: "source table differs", code: codeCountMismatch, message: `topic "two" (a source table) has 2 partitions but "flights" of the same set "flights" has 4; topics that are read together need the same number: create one of them anew`,
			change: func(d *Declaration) { d.Sets[0].Tables[2].SourceTopic = "two" }},
		{name: "not allowed", code: codeTopicNotAllowed, message: `topic "worst-log" (a changelog of table "worst" of set "flights") is not in allowed_topics; add it there, or do not declare it`,
			options: PrepareOptions{AllowedTopics: []string{"flights", "delays", "planes", "airports", "late", "app-*"}}},
		{name: "no name for Kafka", code: codeBadDeclaration, message: `topic "out put" (an output) is no name that Kafka takes (letters, digits, '.', '_', '-', at most 249); rename it`,
			change: func(d *Declaration) { d.Outputs[0] = "out put" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := full()
			if c.change != nil {
				c.change(&d)
			}
			c.options.Group = "app"
			_, err := Prepare(t.Context(), client, c.options, d)
			var refused *RefusedError
			if !errors.As(err, &refused) || refused.Code != c.code || refused.Message != c.message {
				t.Errorf("got  %v\nwant %s", err, c.message)
			}
			left, err := client.Refresh(t.Context(), "app-stats-changelog")
			if err != nil || left["app-stats-changelog"].Err == nil {
				t.Errorf("a changelog is left behind: %v, %v", left, err)
			}
		})
	}
}

func TestAChangelogThatIsNotCompactedIsAWarning(t *testing.T) {
	f := seeded(t)
	f.Topic(t, "plain-log", 4, nil)
	d := full()
	d.Sets[0].Tables[1].Changelog = "plain-log"
	p, err := Prepare(t.Context(), newClient(t, f.Addrs()), PrepareOptions{Group: "app"}, d)
	want := `changelog "plain-log" (table "worst" of set "flights") has cleanup.policy=delete: old rows of the table will be lost; set cleanup.policy=compact`
	if err != nil || len(p.Warnings) != 1 || p.Warnings[0] != want {
		t.Errorf("got %q, %v", p.Warnings, err)
	}
}

func TestPrepareCreatesForDevelopment(t *testing.T) {
	f := kafkatest.Fake(t, kfake.SeedTopics(6, "delays"))
	client := newClient(t, f.Addrs())
	p, err := Prepare(t.Context(), client, PrepareOptions{Group: "app", CreateMissing: 2}, full())
	if err != nil {
		t.Fatal(err)
	}
	created := map[string]int32{"flights": 6, "planes": 6, "app-stats-changelog": 6, "worst-log": 6, "airports": 2, "late": 2}
	if p.Sets[0].Partitions != 6 || p.Globals[0].Partitions != 2 || !maps.Equal(p.Created, created) {
		t.Errorf("got %+v", p)
	}
	for topic, want := range map[string]string{"planes": "compact", "airports": "compact", "late": "delete", "worst-log": "compact"} {
		configs, err := client.TopicConfigs(t.Context(), topic, "cleanup.policy")
		if err != nil || configs["cleanup.policy"] != want {
			t.Errorf("%s: %v, %v", topic, configs, err)
		}
	}
}

func TestAForbiddenChangelogIsSaid(t *testing.T) {
	f := seeded(t)
	f.ControlKey(int16(kmsg.CreateTopics), func(req kmsg.Request) (kmsg.Response, error, bool) {
		f.KeepControl()
		resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		for _, topic := range req.(*kmsg.CreateTopicsRequest).Topics {
			rt := kmsg.NewCreateTopicsResponseTopic()
			rt.Topic, rt.ErrorCode = topic.Topic, 29
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
	_, err := Prepare(t.Context(), newClient(t, f.Addrs()), PrepareOptions{Group: "app"}, full())
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Code != codeKafkaRefused {
		t.Fatalf("got %v", err)
	}
	want := `topic "app-stats-changelog" (a changelog of table "stats" of set "flights") cannot be created with 4 partitions: ` +
		`Kafka refuses User:ANONYMOUS the operation Create on topic app-stats-changelog: grant Create to User:ANONYMOUS on topic app-stats-changelog with an ACL (TOPIC_AUTHORIZATION_FAILED, Kafka error 29); or create it by hand`
	if refused.Message != want {
		t.Errorf("got  %s\nwant %s", refused.Message, want)
	}
}

// slowBroker does not know yet of what it has just created.
type slowBroker struct {
	*kafka.Client
	created bool
}

func (b *slowBroker) CreateTopics(ctx context.Context, specs ...kafka.TopicSpec) map[string]error {
	b.created = true
	return b.Client.CreateTopics(ctx, specs...)
}

func (b *slowBroker) Refresh(ctx context.Context, names ...string) (map[string]kafka.Topic, error) {
	topics, err := b.Client.Refresh(ctx, names...)
	if b.created && err == nil {
		topics["app-stats-changelog"], err = b.absent(ctx)
	}
	return topics, err
}

func (b *slowBroker) absent(ctx context.Context) (kafka.Topic, error) {
	topics, err := b.Client.Refresh(ctx, "no-such-topic")
	return topics["no-such-topic"], err
}

func TestATopicThatWasJustCreatedIsWaitedFor(t *testing.T) {
	broker := &slowBroker{Client: newClient(t, seeded(t).Addrs())}
	_, err := prepare(t.Context(), broker, PrepareOptions{Group: "app"}, full())
	var refused *RefusedError
	if err == nil || errors.As(err, &refused) || !strings.HasPrefix(err.Error(), `topic "app-stats-changelog" is not ready: `) {
		t.Errorf("got %v", err)
	}
}

// lateBroker does not know a topic at the first two looks: it was created a moment ago, elsewhere.
type lateBroker struct {
	*kafka.Client
	looks int
}

func (b *lateBroker) Refresh(ctx context.Context, names ...string) (map[string]kafka.Topic, error) {
	topics, err := b.Client.Refresh(ctx, names...)
	if b.looks++; b.looks <= 2 && err == nil {
		topics["flights"] = kafka.Topic{Name: "flights", Err: &kafka.Error{Code: 3}}
	}
	return topics, err
}

func TestATopicThatABrokerHasNotHeardOfYetIsNotRefused(t *testing.T) {
	broker := &lateBroker{Client: newClient(t, seeded(t).Addrs())}
	if _, err := prepare(t.Context(), broker, PrepareOptions{Group: "app"}, full()); err != nil {
		t.Error(err)
	}
}
