package cli

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/pillion/pillion/assignor"
	"github.com/pillion/pillion/groupclient"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/session"
)

// A group of three; the set of m1 is declared with one source more by the others.
func threeMembers() groupclient.View {
	key := "in,more"
	task := assignor.Task{Set: key, Partition: 1}
	return groupclient.View{
		Group: "g", State: groupStable, Sets: []assignor.United{{Key: key, Sources: []string{"in", "more"}}},
		Members: []groupclient.ViewMember{
			{ID: "m1", Address: "a:1", Standby: []assignor.Task{task}},
			{ID: "m2", Address: "a:2", Active: []assignor.Task{task}},
			{ID: "m3", Standby: []assignor.Task{task}, Copies: []assignor.Copy{{Task: task, Lag: 7}}},
		},
	}
}

var aboutIn = session.Whereabouts{
	Group: "g", Set: session.PreparedSet{Name: "s", Sources: []string{"in"}, Partitions: 4}, Partition: new(int32),
}

// coordinator is a group that changes.
type coordinator struct {
	view groupclient.View
	err  error
	asks int
}

func (c *coordinator) locator() (l *locator, now *time.Time) {
	l = newLocator(func(context.Context, string) (groupclient.View, error) { c.asks++; return c.view, c.err })
	at := time.Unix(1000, 0)
	l.now = func() time.Time { return at }
	return l, &at
}

func holders(t *testing.T, l *locator) (active string, standbys []protocol.Shadow, stale bool) {
	t.Helper()
	*aboutIn.Partition = 1
	got, err := l.Locate(t.Context(), aboutIn)
	if err != nil {
		t.Fatal(err)
	}
	if got.Task != "s/1" || got.Set != "s" || got.Partition != 1 {
		t.Fatalf("an answer about %+v", got)
	}
	if got.Active != nil {
		active = got.Active.Member + " " + got.Active.Address
	}
	return active, got.Standbys, got.Stale
}

func TestWhoHoldsAKey(t *testing.T) {
	c := &coordinator{view: threeMembers()}
	l, now := c.locator()
	active, standbys, stale := holders(t, l)
	want := []protocol.Shadow{{Member: "m3", Lag: 7}, {Member: "m1", Address: "a:1", Lag: -1}}
	if active != "m2 a:2" || stale || !reflect.DeepEqual(standbys, want) {
		t.Fatalf("got %s, %+v, stale %v", active, standbys, stale)
	}
	holders(t, l)
	if c.asks != 1 {
		t.Fatalf("asked %d times within a second", c.asks)
	}
	*now = now.Add(viewFor)
	holders(t, l)
	l.changed(false)
	holders(t, l)
	if c.asks != 3 {
		t.Fatalf("asked %d times, want anew after a second and after a change", c.asks)
	}
}

// The key's bytes are hashed as the Java client hashes them.
func TestThePartitionOfAKey(t *testing.T) {
	c := &coordinator{view: threeMembers()}
	l, _ := c.locator()
	ask := aboutIn
	ask.Partition, ask.Set.Partitions, ask.Key = nil, 8, []byte("N668DN")
	got, err := l.Locate(t.Context(), ask)
	if err != nil || got.Partition != 3 || got.Active != nil || got.Task != "s/3" {
		t.Fatalf("got %+v, %v", got, err)
	}
}

// INVARIANT: an answer that is not stale is of a stable group, asked after the last change.
func TestStaleAnswers(t *testing.T) {
	c := &coordinator{view: threeMembers()}
	l, now := c.locator()
	holders(t, l)

	l.changed(true)
	if active, _, stale := holders(t, l); active != "m2 a:2" || !stale {
		t.Fatalf("while a generation is built: %s, stale %v", active, stale)
	}
	c.view = groupclient.View{State: "PreparingRebalance", Members: []groupclient.ViewMember{{ID: "m1"}, {ID: "m3"}}}
	*now = now.Add(viewFor)
	if active, _, stale := holders(t, l); active != "m2 a:2" || !stale {
		t.Fatalf("while nobody tells shares: %s, stale %v", active, stale)
	}
	c.view = threeMembers()
	c.view.Members = c.view.Members[:1]
	c.view.Members[0].Active, c.view.Members[0].Standby = c.view.Members[0].Standby, nil
	l.changed(false)
	if active, standbys, stale := holders(t, l); active != "m1 a:1" || len(standbys) != 0 || stale {
		t.Fatalf("after the change: %s, %v, stale %v", active, standbys, stale)
	}
	c.err = errors.New("silence")
	*now = now.Add(viewFor)
	if active, _, stale := holders(t, l); active != "m1 a:1" || !stale {
		t.Fatalf("while Kafka is silent: %s, stale %v", active, stale)
	}
	c.err, c.view = nil, groupclient.View{State: "Empty"}
	*now = now.Add(viewFor)
	if active, _, stale := holders(t, l); active != "" || !stale {
		t.Fatalf("without members: %s, stale %v", active, stale)
	}
}

// Without anything known the silence is said, in the session's words what is refused.
func TestNothingIsKnown(t *testing.T) {
	c := &coordinator{err: errors.New("silence")}
	l, now := c.locator()
	if _, err := l.Locate(t.Context(), aboutIn); err == nil || err.Error() != "silence" {
		t.Fatal(err)
	}
	c.err = &groupclient.RefusedError{Code: protocol.CodeKafkaRefused, Message: "no"}
	*now = now.Add(viewFor)
	var refused *session.RefusedError
	if _, err := l.Locate(t.Context(), aboutIn); !errors.As(err, &refused) || refused.Message != "no" {
		t.Fatal(err)
	}
}

// A change while the coordinator is asked makes the answer stale.
func TestAChangeWhileItIsAsked(t *testing.T) {
	var l *locator
	l = newLocator(func(context.Context, string) (groupclient.View, error) {
		l.changed(false)
		return threeMembers(), nil
	})
	if _, _, stale := holders(t, l); !stale {
		t.Fatal("the answer passes as fresh")
	}
}
