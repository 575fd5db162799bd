package groupclient

import (
	"bytes"
	"errors"
	"slices"
	"strings"
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
		if b.model.rebalances != 1 {
			t.Errorf("%d rebalances", b.model.rebalances)
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
		if m.last(t, "assigned").given.Generation != 1 || b.model.rebalances != 1 {
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

func TestUnknownMemberIsLostAndJoinsAnew(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.start()
		m.Join(orders(4))
		pass(time.Second)
		was := m.Incarnation()
		b.model.remove(m.last(t, "assigned").given.MemberID)
		pass(2 * time.Second)
		if e := m.last(t, "lost"); e.code != codeFenced || !strings.Contains(e.failure.Error(), "UNKNOWN_MEMBER_ID") {
			t.Errorf("got %+v", e)
		}
		if m.Incarnation() == was {
			t.Error("the incarnation is the same")
		}
		a := m.last(t, "assigned").given
		if a.MemberID != "member-2" || len(a.Active) != 4 {
			t.Errorf("got %+v", a)
		}
		s, err := assignor.DecodeSubscription(b.model.joins[len(b.model.joins)-1])
		if err != nil || len(s.Owned) != 0 || s.Generation != -1 {
			t.Errorf("after a loss the member claims %v of generation %d (%v)", s.Owned, s.Generation, err)
		}
	})
}

func TestAMissedGenerationIsALoss(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.start()
		m.Join(orders(4))
		pass(time.Second)
		b.model.set(func() { b.model.generation = 7 })
		pass(2 * time.Second)
		m.last(t, "lost")
		if a := m.last(t, "assigned").given; a.MemberID != "member-1" || a.Generation != 8 {
			t.Errorf("got %+v", a)
		}
	})
}

// once answers a code to the first request of a kind.
func once(code int16, kind kmsg.Key) func(kmsg.Request) kmsg.Response {
	done := false
	return func(req kmsg.Request) kmsg.Response {
		if done || kmsg.Key(req.Key()) != kind {
			return nil
		}
		done = true
		switch kind {
		case kmsg.JoinGroup:
			resp := kmsg.NewPtrJoinGroupResponse()
			resp.ErrorCode = code
			return resp
		case kmsg.SyncGroup:
			resp := kmsg.NewPtrSyncGroupResponse()
			resp.ErrorCode = code
			return resp
		default:
			resp := kmsg.NewPtrHeartbeatResponse()
			resp.ErrorCode = code
			return resp
		}
	}
}

func TestTransientCodesEndInAnAssignment(t *testing.T) {
	for _, kind := range []kmsg.Key{kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat} {
		for _, code := range []int16{-1, 7, 14, 15, 16, 22, 25, 27} {
			onFakeClock(t, func(t *testing.T, b *bench) {
				b.model.answer = once(code, kind)
				m := b.start()
				m.Join(orders(4))
				pass(10 * time.Second)
				if a := m.last(t, "assigned").given; len(a.Active) != 4 || m.has("fatal") {
					t.Errorf("code %d to %v: %s", code, kind, m.string())
				}
				if kind == kmsg.SyncGroup && m.has("lost") {
					t.Errorf("code %d to SyncGroup lost what there never was", code)
				}
			})
		}
	}
}

func TestFatalCodesRestUntilTheNextJoin(t *testing.T) {
	for _, kind := range []kmsg.Key{kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat} {
		for _, code := range []int16{23, 24, 26, 30, 35, 42, 81, 82} {
			onFakeClock(t, func(t *testing.T, b *bench) {
				b.model.answer = once(code, kind)
				m := b.start()
				m.Join(orders(4))
				pass(5 * time.Second)
				var failure *CodeError
				if e := m.last(t, "fatal"); !errors.As(e.failure, &failure) || failure.Code != code {
					t.Errorf("code %d to %v: %v", code, kind, e.failure)
				}
				if m.has("lost") != (kind == kmsg.Heartbeat) || len(m.Owned()) != 0 {
					t.Errorf("code %d to %v: %s", code, kind, m.string())
				}
				seen := len(b.model.requests())
				pass(5 * time.Second)
				if len(b.model.requests()) != seen {
					t.Errorf("code %d to %v: the group does not rest", code, kind)
				}
				m.Join(orders(4))
				pass(20 * time.Second)
				if a := m.last(t, "assigned").given; len(a.Active) != 4 {
					t.Errorf("code %d to %v: no assignment after the next join", code, kind)
				}
			})
		}
	}
}

func TestARecordThatIsTooLargeIsSaid(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.model.answer = once(-1, kmsg.SyncGroup)
		m := b.start()
		m.Join(orders(4))
		pass(tooLargePause + 2*time.Second)
		events := m.all()
		if e := events[0]; e.what != "waiting" || e.code != codeKafkaRefused || !strings.Contains(e.text, "message.max.bytes") {
			t.Errorf("got %+v", e)
		}
		if e := events[1]; e.code != codeOK {
			t.Errorf("got %+v", e)
		}
		if at := m.last(t, "assigned").at.Sub(events[0].at); at < tooLargePause {
			t.Errorf("tried again after %s", at)
		}
	})
}

func TestKafkaAwayIsToldAndNothingIsLost(t *testing.T) {
	for name, away := range map[string]func(*model, bool){
		"refused": func(m *model, away bool) {
			if m.down = nil; away {
				m.down = errDown
			}
		},
		"silent": func(m *model, away bool) { m.silent = away },
	} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, b *bench) {
				m := b.start()
				m.Join(orders(4))
				pass(time.Second)
				start := time.Now()
				b.model.set(func() { away(b.model, true) })
				pass(5 * time.Second)
				e := m.last(t, "waiting")
				if e.code != codeUnreachable || e.at.Sub(start) > 2*time.Second {
					t.Errorf("told %q after %s", e.code, e.at.Sub(start))
				}
				b.model.set(func() { away(b.model, false) })
				pass(2 * time.Second)
				if e := m.last(t, "waiting"); e.code != codeOK {
					t.Errorf("got %+v", e)
				}
				if m.has("lost") || len(m.Owned()) != 4 {
					t.Errorf("lost: %s", m.string())
				}
			})
		})
	}
}

// Away for longer than the session timeout: only the coordinator says that the membership is over.
func TestKafkaAwayForLong(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.start()
		m.Join(orders(4))
		pass(time.Second)
		b.model.set(func() { b.model.silent = true })
		pass(time.Minute)
		if m.has("lost") {
			t.Fatal("lost without an answer")
		}
		b.model.set(func() { b.model.silent = false })
		pass(3 * time.Second)
		m.last(t, "lost")
		if a := m.last(t, "assigned").given; len(a.Active) != 4 {
			t.Errorf("got %+v", a)
		}
	})
}

// A restarted sidecar finds its dead predecessor in the group until the session of that one ends.
func TestARestartedMemberWaitsForItsPredecessor(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		first := b.start()
		first.Join(orders(4))
		pass(time.Second)
		first.stop() // like a kill: it does not leave
		second := b.start()
		second.Join(orders(4))
		pass(3 * time.Second)
		if e := second.last(t, "waiting"); e.code != codeRebalance || !strings.Contains(e.text, "waiting for its other members") {
			t.Errorf("got %+v", e)
		}
		pass(9 * time.Second)
		if a := second.last(t, "assigned").given; len(a.Active) != 4 {
			t.Errorf("got %+v", a)
		}
		if e := second.last(t, "waiting"); e.code != codeOK {
			t.Errorf("got %+v", e)
		}
	})
}

func TestLeaveInterruptsAJoinAndJoinMayFollow(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		first := b.start()
		first.Join(orders(4))
		pass(time.Second)
		if err := first.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(b.model.members) != 0 || len(first.Owned()) != 0 {
			t.Errorf("still there: %v", b.model.members)
		}
		first.Join(orders(4))
		pass(time.Second)
		if a := first.last(t, "assigned").given; len(a.Active) != 4 || a.MemberID != "member-2" {
			t.Errorf("got %+v", a)
		}
		first.stop()
		second := b.start()
		second.Join(orders(4))
		pass(time.Second) // it waits for the first, who is gone
		start := time.Now()
		if err := second.Leave(t.Context()); err != nil || time.Since(start) > time.Second {
			t.Errorf("leave took %s: %v", time.Since(start), err)
		}
	})
}

func TestLeaveAfterRunHasEnded(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.start()
		m.stop()
		if err := m.Leave(t.Context()); err == nil {
			t.Error("no error")
		}
	})
}

// The coordinator moves while a JoinGroup waits at the old one, which never answers.
func TestACoordinatorThatMovesDuringAJoin(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.model.hang = func(node int32, req kmsg.Request) bool {
			join, ok := req.(*kmsg.JoinGroupRequest)
			return ok && node == 1 && join.MemberID != ""
		}
		m := b.start()
		m.Join(orders(4))
		pass(2 * time.Second)
		if m.has("assigned") {
			t.Fatal("the old coordinator has answered")
		}
		b.model.set(func() { b.model.node = 2 })
		pass(2 * time.Second)
		if a := m.last(t, "assigned").given; len(a.Active) != 4 {
			t.Errorf("got %+v", a)
		}
	})
}
