package groupclient

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafkatest"
)

// wordy is a declaration of about so many kilobytes.
func wordy(kilobytes int) Prepared {
	p := orders(4)
	for i := range kilobytes {
		p.Sets[0].Tables = append(p.Sets[0].Tables, PreparedTable{Name: fmt.Sprintf("%04d%s", i, strings.Repeat("x", 1000)), Topic: "planes", Source: true})
	}
	return p
}

// INVARIANT: a record that the offsets topic does not take is not sent.
func TestASubscriptionThatNoGroupCanStore(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.start()
		m.Join(wordy(1100))
		pass(time.Second)
		err := m.last(t, "fatal").failure
		if err == nil || !strings.HasPrefix(err.Error(), `what this worker declares to group "g" takes 1`) ||
			!strings.Contains(err.Error(), "may have 1048588 by default") || !strings.Contains(err.Error(), "declare fewer topics and tables") {
			t.Errorf("got %v", err)
		}
		if b.model.count("JoinGroup") != 0 {
			t.Error("it was sent")
		}
		m.Join(orders(4)) // and the next one may be
		pass(time.Second)
		m.last(t, "assigned")
	})
}

func TestAPlanThatNoBrokerStores(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.model.topic("planes", 4, 3)
		first := b.start()
		first.Join(wordy(600))
		pass(time.Second)
		if a := first.last(t, "assigned").given; len(a.Active) != 4 {
			t.Fatalf("got %+v", a)
		}
		second := b.start()
		second.Join(wordy(500))
		pass(time.Second)
		w := first.last(t, "waiting")
		if w.code != codeKafkaRefused || !strings.HasPrefix(w.text, `the plan of group "g" with the subscriptions of its 2 members takes 1`) ||
			!strings.Contains(w.text, "nothing was sent; raise message.max.bytes of the brokers (8388608)") {
			t.Errorf("told %q", w.text)
		}
		before := b.model.count("JoinGroup")
		pass(60 * time.Second)
		if n := b.model.count("JoinGroup") - before; n > 40 {
			t.Errorf("%d joins in a minute", n)
		}
		if first.has("lost") || len(first.Owned()) != 4 || second.has("assigned") {
			t.Errorf("first: %s", first.string())
		}
		if err := second.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		if first.last(t, "waiting").code != codeOK || len(first.Owned()) != 4 || first.has("lost") {
			t.Errorf("after the second has left: %s", first.string())
		}
	})
}

// The limit is that of the topic; compression lets anything be tried.
func TestTheLimitIsAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		limit, codec string
		code         int16
		words        string // empty: it is sent
	}{
		"raised":     {limit: "8388608", codec: "0"},
		"compressed": {limit: "1048588", codec: "1"},
		"lower":      {limit: "200000", codec: "0", words: "max.message.bytes of __consumer_offsets is 200000"},
		"forbidden":  {code: 29, words: "grant DescribeConfigs on that topic"},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, b *bench) {
				b.model.topic("planes", 4, 3)
				asked := 0
				b.model.answer = func(req kmsg.Request) kmsg.Response {
					if describe, ok := req.(*kmsg.DescribeConfigsRequest); ok {
						asked++
						return configsAre(describe, c.limit, c.codec, c.code)
					}
					return nil
				}
				m := b.start()
				m.Join(wordy(1200))
				pass(time.Second)
				sent := b.model.count("JoinGroup") > 0
				if sent != (c.words == "") || sent == m.has("fatal") {
					t.Fatalf("sent: %v; %s", sent, m.string())
				}
				if !sent && !strings.Contains(m.last(t, "fatal").failure.Error(), c.words) {
					t.Errorf("got %v", m.last(t, "fatal").failure)
				}
				if asked != 1 {
					t.Errorf("asked %d times", asked)
				}
			})
		})
	}
}

func configsAre(req *kmsg.DescribeConfigsRequest, limit, codec string, code int16) kmsg.Response {
	resp := kmsg.NewPtrDescribeConfigsResponse()
	for i, value := range []string{limit, codec} {
		resource := kmsg.NewDescribeConfigsResponseResource()
		resource.ErrorCode = code
		config := kmsg.NewDescribeConfigsResponseResourceConfig()
		config.Name, config.Value = req.Resources[i].ConfigNames[0], &value
		if code == 0 {
			resource.Configs = append(resource.Configs, config)
		}
		resp.Resources = append(resp.Resources, resource)
	}
	return resp
}

// The same by real requests.
func TestAPlanThatIsTooLargeOnFake(t *testing.T) {
	f := kafkatest.Fake(t, kfake.SeedTopics(4, "orders", "planes"))
	first := run(t, f.Addrs(), "app")
	first.Join(wordy(600))
	first.assigned(t, "all tasks", has(4))
	second := run(t, f.Addrs(), "app")
	second.Join(wordy(600))
	told := func(events []event) bool {
		last := events[len(events)-1]
		return last.what == "waiting" && last.code == codeKafkaRefused
	}
	for _, e := range first.until(t, "words", told) {
		if e.code == codeKafkaRefused && !strings.Contains(e.text, "nothing was sent") {
			t.Errorf("told %q", e.text)
		}
	}
}
