package groupclient

import (
	"bytes"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/assignor"
)

func TestALoneMemberGetsEverything(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.start()
		m.Join(orders(4))
		pass(time.Second)
		a := m.last(t, "assigned").given
		if !slices.Equal(a.Active, tasks("orders", 0, 1, 2, 3)) || !a.Leader || a.Generation != 1 {
			t.Errorf("got %+v", a)
		}
		if !slices.Equal(m.Owned(), a.Active) {
			t.Errorf("owned %v", m.Owned())
		}
	})
}

func TestJoinWithTheSameSubscriptionDoesNothing(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.start()
		m.Join(orders(4))
		pass(time.Second)
		m.Join(orders(4))
		pass(time.Second)
		if b.model.generations() != 1 {
			t.Errorf("%d rebalances", b.model.generations())
		}
	})
}

func TestAChangedSubscriptionJoinsAgain(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.model.topic("ticks", 2, 9)
		m := b.start()
		m.Join(orders(4))
		pass(time.Second)
		p := orders(4)
		p.Sets = append(p.Sets, PreparedSet{Name: "ticks", Sources: []string{"ticks"}, Partitions: 2})
		m.Join(p)
		pass(time.Second)
		a := m.last(t, "assigned").given
		want := append(tasks("orders", 0, 1, 2, 3), tasks("ticks", 0, 1)...)
		if !slices.Equal(a.Active, want) {
			t.Errorf("got %v", a.Active)
		}
	})
}

func TestHeartbeatsGoOnWhateverHappens(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.start()
		m.Join(orders(4))
		pass(time.Second)
		before := b.model.count("Heartbeat")
		pass(60 * time.Second)
		if n := b.model.count("Heartbeat") - before; n < 115 || n > 125 {
			t.Errorf("%d heartbeats in a minute", n)
		}
		if m.last(t, "assigned").given.Generation != 1 || b.model.generations() != 1 {
			t.Errorf("the group has moved on: %s", m.string())
		}
	})
}

// Two members, cooperative: the second gets its share only after the first has let go.
func TestTwoMembersShare(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		first, second := b.start(), b.start()
		first.Join(orders(4))
		pass(time.Second)
		second.Join(orders(4))
		pass(time.Second)
		if a := second.last(t, "assigned").given; len(a.Active) != 0 {
			t.Fatalf("the second was given %v, which the first holds", a.Active)
		}
		kept := first.last(t, "assigned").given.Active
		if len(kept) != 2 || len(first.Owned()) != 4 {
			t.Fatalf("the first keeps %v and owns %v", kept, first.Owned())
		}
		generation := first.last(t, "assigned").given.Generation
		pass(5 * time.Second)
		if first.last(t, "assigned").given.Generation != generation {
			t.Fatal("the group moved on before the release")
		}
		for _, task := range first.Owned() {
			if !slices.Contains(kept, task) {
				first.Release(task)
			}
		}
		pass(time.Second)
		a := second.last(t, "assigned").given
		if len(a.Active) != 2 || !slices.Equal(first.Owned(), kept) {
			t.Errorf("the second has %v, the first %v", a.Active, first.Owned())
		}
		if got := first.last(t, "assigned").given.Generation; got != generation+1 {
			t.Errorf("two releases made %d generations", got-generation)
		}
	})
}

// INVARIANT: whatever a sync gave is claimed by the next JoinGroup, even when that is sent before
// anybody has looked at the assignment.
func TestANewTaskIsClaimedAtOnce(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.start()
		m.Join(orders(4))
		synctest.Wait()
		other := b.start()
		other.Join(orders(4)) // makes a rebalance at once
		pass(2 * time.Second)
		var claims []assignor.Task
		for _, metadata := range b.model.joins {
			s, err := assignor.DecodeSubscription(metadata)
			if err != nil {
				t.Fatal(err)
			}
			if s.Generation == 1 {
				claims = s.Owned
				break
			}
		}
		if len(claims) != 4 {
			t.Errorf("claimed %v", claims)
		}
	})
}

func TestARepeatedJoinGroupHasTheSameBytes(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		left := 3
		b.model.answer = func(req kmsg.Request) kmsg.Response {
			join, ok := req.(*kmsg.JoinGroupRequest)
			if !ok || join.MemberID == "" || left == 0 {
				return nil
			}
			left--
			b.model.set(func() { b.model.joins = append(b.model.joins, join.Protocols[0].Metadata) })
			resp := kmsg.NewPtrJoinGroupResponse()
			resp.ErrorCode = []int16{14, 15, 16}[left]
			return resp
		}
		m := b.start()
		m.Join(orders(4))
		pass(3 * time.Second)
		m.last(t, "assigned")
		if len(b.model.joins) != 4 {
			t.Fatalf("%d joins", len(b.model.joins))
		}
		for _, metadata := range b.model.joins {
			if !bytes.Equal(metadata, b.model.joins[0]) {
				t.Error("a repeated JoinGroup has other bytes")
			}
		}
	})
}

// INVARIANT: a follow-up join is never sent before the SyncGroup of the generation is answered.
func TestAReleaseDuringARebalanceWaitsForItsEnd(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.start()
		m.Join(orders(4))
		pass(time.Second)
		other := b.start()
		hold := make(chan struct{})
		b.model.set(func() {
			b.model.answer = func(req kmsg.Request) kmsg.Response {
				if _, ok := req.(*kmsg.SyncGroupRequest); ok {
					<-hold
				}
				return nil
			}
		})
		other.Join(orders(4))
		pass(time.Second)
		joins := b.model.count("JoinGroup")
		m.Release(tasks("orders", 3)...)
		pass(time.Second)
		if n := b.model.count("JoinGroup"); n != joins {
			t.Errorf("%d joins during the rebalance", n-joins)
		}
		close(hold)
		pass(time.Second)
		if n := b.model.count("JoinGroup"); n == joins {
			t.Error("no follow-up join after the rebalance")
		}
	})
}
