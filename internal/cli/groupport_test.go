package cli

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/protocol"
)

// A sidecar is a member of one group at a time. While it is, a worker of another group is refused in
// words; after it has left, it becomes a member of the group of whoever comes.
func TestTheGroupIsThatOfTheWorker(t *testing.T) {
	fake := kafkatest.Fake(t, kfake.NumBrokers(1))
	fake.Topic(t, "in", 1, nil)
	s := serve(t, fake.Addrs(), "--worker-grace", "1s")
	hello := func(group string) protocol.Hello {
		h := peerHello()
		h.Group, h.Sets, h.Outputs = group, []protocol.Set{{Name: "s", Sources: []string{"in"}}}, nil
		return h
	}
	connect := func(group string) *peer {
		p := dial(t, s.bridge.URL())
		p.say(hello(group))
		return p
	}
	p := connect("first")
	hearsOf(p, func(m protocol.Assign) bool { return m.Task == "s/0" })
	kafkatest.WaitGroup(t, fake.Addrs(), "first", func(g kafkatest.Group) bool { return len(g.Members) == 1 })
	connect("second").isClosed(protocol.CloseRefused, protocol.CodeBadDeclaration)
	p.isAlive() // nobody has taken its place
	if err := p.ws.Close(); err != nil {
		t.Fatal(err)
	}
	kafkatest.WaitGroup(t, fake.Addrs(), "first", func(g kafkatest.Group) bool { return len(g.Members) == 0 })
	p = connect("second")
	hearsOf(p, func(m protocol.Assign) bool { return m.Task == "s/0" })
	kafkatest.WaitGroup(t, fake.Addrs(), "second", func(g kafkatest.Group) bool { return len(g.Members) == 1 })
}
