package groupclient

import (
	"reflect"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/assignor"
	"github.com/pillion/pillion/internal/kafkatest"
)

func described(keys ...string) func(View) bool {
	return func(v View) bool { return v.State == "Stable" && len(v.Members) == len(keys) }
}

// see describes a group until it is as wanted.
func see(t testing.TB, addrs []string, group string, done func(View) bool) View {
	t.Helper()
	client := newClient(t, addrs)
	for {
		v, err := Describe(t.Context(), client, group)
		if err != nil {
			t.Fatal(err)
		}
		if done(v) {
			return v
		}
	}
}

func TestDescribe(t *testing.T) {
	f := kafkatest.Fake(t, kfake.SeedTopics(4, "orders"))
	client := newClient(t, f.Addrs())
	if v, err := Describe(t.Context(), client, "app"); err != nil || v.State != "Dead" || len(v.Members) != 0 {
		t.Errorf("no group: %+v, %v", v, err)
	}
	first := run(t, f.Addrs(), "app", func(c *Config) { c.Replicas, c.Rack = new(1), "r1" })
	d := counting()
	d.Address = "host-a:1"
	first.share(t, d)
	a := first.assigned(t, "all tasks", has(4))
	first.takeAll(t, a.Active)
	second := run(t, f.Addrs(), "app", func(c *Config) {
		c.Copies = func() []Copy { return []Copy{{Task{"orders", 0}, 5}, {Task{"orders", 3}, 0}} }
	})
	d.Address, d.NoStandby = "host-b:1", false
	second.share(t, d)
	a = first.assigned(t, "half of the tasks", has(2))
	first.handOver(t, a.Active, 0)
	b := second.assigned(t, "the other half", has(2))

	v := see(t, f.Addrs(), "app", described("first", "second"))
	if len(v.Sets) != 1 || v.Sets[0].Key != "orders" {
		t.Errorf("sets %+v", v.Sets)
	}
	for _, m := range v.Members {
		want, address, rack := a, "host-a:1", "r1"
		if m.ID == b.MemberID {
			want, address, rack = b, "host-b:1", ""
		}
		if m.Address != address || m.Rack != rack || m.Host == "" || m.Unreadable != "" || len(m.Sets) != 1 {
			t.Errorf("got %+v", m)
		}
		if !slices.Equal(m.Active, keyed(want.Active)) || len(m.Standby) != 2 {
			t.Errorf("%s has %v and %v, not %v", address, m.Active, m.Standby, want.Active)
		}
		if m.ID == b.MemberID && (m.Lag(assignor.Task{Set: "orders", Partition: 0}) != 7 || m.Lag(assignor.Task{Set: "orders", Partition: 2}) != assignor.UnknownLag) {
			t.Errorf("copies %v", m.Copies)
		}
	}
}

func keyed(tasks []Task) (out []assignor.Task) {
	for _, t := range tasks {
		out = append(out, assignor.Task{Set: t.Set, Partition: t.Partition})
	}
	return out
}

// Members that declare a set differently say its tasks by their own keys.
func TestAViewIsInUnitedSets(t *testing.T) {
	encode := func(s assignor.Subscription) []byte {
		b, err := assignor.EncodeSubscription(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	old := assignor.Set{Sources: []string{"a"}}
	wide := assignor.Set{Sources: []string{"a", "b"}}
	g := kmsg.NewDescribeGroupsResponseGroup()
	g.State, g.ProtocolType, g.Protocol = "Stable", protocolType, protocolName
	g.Members = []kmsg.DescribeGroupsResponseGroupMember{
		{MemberID: "two", ProtocolMetadata: encode(assignor.Subscription{Sets: []assignor.Set{wide}, Generation: 3, Owned: []assignor.Task{{Set: "a,b", Partition: 1}}})},
		{MemberID: "one", ProtocolMetadata: encode(assignor.Subscription{Sets: []assignor.Set{old}, Generation: 3, Owned: []assignor.Task{{Set: "a", Partition: 0}},
			Copies: []assignor.Copy{{Task: assignor.Task{Set: "a", Partition: 1}, Lag: 0}}})},
		{MemberID: "three", ProtocolMetadata: []byte("who knows")},
	}
	v, err := view("g", g)
	if err != nil {
		t.Fatal(err)
	}
	one, three, two := v.Members[0], v.Members[1], v.Members[2]
	if !reflect.DeepEqual(one.Owned, []assignor.Task{{Set: "a,b", Partition: 0}}) || one.Lag(assignor.Task{Set: "a,b", Partition: 1}) != 0 ||
		!reflect.DeepEqual(two.Owned, []assignor.Task{{Set: "a,b", Partition: 1}}) || three.Unreadable == "" || len(v.Sets) != 1 {
		t.Errorf("got %+v", v)
	}
	g.Protocol = "range"
	if _, err := view("g", g); err == nil {
		t.Error("another consumer's group was described")
	}
}
