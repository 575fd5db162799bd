package groupclient

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/assignor"
)

// What goes wrong: losses, refusals, outages, moves.

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
		b.model.joinAs("member-1")
		pass(2 * time.Second)
		m.last(t, "lost")
		if a := m.last(t, "assigned").given; a.MemberID != "member-1" || a.Generation != 3 {
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
		if len(b.model.members()) != 0 || len(first.Owned()) != 0 {
			t.Errorf("still there: %v", b.model.members())
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

// Kafka is away for long: the log says so each minute, the worker hears of it once.
func TestAWaitingThatGoesOnIsSaidEachMinute(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		log := &lines{}
		m := b.start(func(c *Config) { c.Logger = log.logger() })
		m.Join(orders(4))
		pass(time.Second)
		b.model.set(func() { b.model.down = errDown })
		pass(5*time.Minute + 30*time.Second)
		told := 0
		for _, e := range m.all() {
			if e.what == "waiting" && e.code == codeUnreachable {
				told++
			}
		}
		if n := log.with("still waiting"); told != 1 || n < 4 || n > 5 {
			t.Errorf("told %d times, said %d times", told, n)
		}
	})
}
