package groupclient

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// taken is a member under exactly once that has taken orders/1 over at position 7.
func (b *bench) taken(change ...func(*Config)) *member {
	b.formerly(func(c *claim) { c.Released = true })
	m := b.exactly(takeOverSteps, change...)
	if _, err := m.TakeOver(b.t.Context(), one); err != nil {
		b.t.Fatal(err)
	}
	return m
}

func TestWhatATransactionCommits(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.model.topic("payees", 4, 3)
		m := b.start(func(c *Config) { c.Guarantee, c.InstanceID = ExactlyOnce, "one" })
		p := orders(4)
		p.Sets[0].Sources = []string{"orders", "payees"}
		m.Join(p)
		pass(time.Second)
		if _, err := m.Transactional(one, nil); err == nil || errors.Is(err, ErrLost) {
			t.Errorf("before the take-over: %v", err)
		}
		if _, err := m.TakeOver(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		got, err := m.Transactional(one, map[string]int64{"orders": 5})
		if err != nil {
			t.Fatal(err)
		}
		a := m.last(t, "assigned").given
		if got.Incarnation != m.Incarnation() || got.Member != a.MemberID || got.Generation != a.Generation ||
			got.Instance == nil || *got.Instance != "one" || got.Partition != 1 || fmt.Sprint(got.Offsets) != "map[orders:5 payees:0]" {
			t.Errorf("got %+v", got)
		}
		c, ok, err := parseClaim(got.Metadata)
		if err != nil || !ok || c.Released || c.Guarantee != ExactlyOnce || c.Incarnation != m.Incarnation() {
			t.Errorf("claim %+v, %v", c, err)
		}
		// Not noted before it was committed, nor of another incarnation.
		m.Transacted(one, map[string]int64{"orders": 5}, "another")
		if again, _ := m.Transactional(one, nil); again.Offsets["orders"] != 0 {
			t.Errorf("noted %v", again.Offsets)
		}
		m.Transacted(one, map[string]int64{"orders": 5}, m.Incarnation())
		if again, _ := m.Transactional(one, map[string]int64{"payees": 2}); fmt.Sprint(again.Offsets) != "map[orders:5 payees:2]" {
			t.Errorf("noted %v", again.Offsets)
		}
		if _, err := m.Transactional(one, map[string]int64{"elsewhere": 1}); err == nil {
			t.Error("a source that is not the task's")
		}
		if _, err := m.Transactional(Task{"orders", 9}, nil); !errors.Is(err, ErrLost) {
			t.Errorf("of a task that is not ours: %v", err)
		}
		m.Transacted(Task{"orders", 9}, nil, m.Incarnation()) // does nothing
	})
}

// Between the answer to a JoinGroup and its sync the coordinator takes the new generation, and refuses the old
// one; before the answer it takes the old one.
func TestTheGenerationOfATransaction(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.taken()
		generation := func() int32 {
			got, err := m.Transactional(one, nil)
			if err != nil {
				t.Fatal(err)
			}
			return got.Generation
		}
		before := generation()
		joins, syncs := make(chan struct{}), make(chan struct{})
		code := int16(0)
		b.model.set(func() {
			b.model.answer = func(req kmsg.Request) kmsg.Response {
				switch req.(type) {
				case *kmsg.JoinGroupRequest:
					<-joins
				case *kmsg.SyncGroupRequest:
					<-syncs
					if code != 0 {
						resp := kmsg.NewPtrSyncGroupResponse()
						resp.ErrorCode, code = code, 0
						return resp
					}
				}
				return nil
			}
		})
		m.Release(Task{"orders", 3})
		pass(time.Second)
		if got := generation(); got != before {
			t.Errorf("while the JoinGroup is under way: generation %d, the last sync was of %d", got, before)
		}
		joins <- struct{}{}
		pass(time.Second)
		if got := generation(); got != before+1 {
			t.Errorf("joined and not synced: generation %d, not %d", got, before+1)
		}
		// Another coordinator knows nothing of the new generation.
		b.model.set(func() { code = 16 })
		syncs <- struct{}{}
		pass(time.Second)
		if got := generation(); got != before {
			t.Errorf("after the coordinator has moved: generation %d, not %d", got, before)
		}
		close(joins)
		close(syncs)
		pass(3 * time.Second)
		if got, synced := generation(), m.last(t, "assigned").given.Generation; got != synced || synced <= before {
			t.Errorf("after the sync of %d: generation %d", synced, got)
		}
	})
}

// INVARIANT: no claim that is not released is written after the release.
func TestNothingIsTransactedAfterTheRelease(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.taken()
		if err := m.CommitReleased(t.Context(), one, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Transactional(one, nil); err == nil {
			t.Error("transacted after the release")
		}
		if _, err := m.TakeOver(t.Context(), one); err != nil { // opened anew
			t.Fatal(err)
		}
		if _, err := m.Transactional(one, nil); err != nil {
			t.Error(err)
		}
	})
}

// INVARIANT: a release never takes a position back. The end of a transaction was not told; Kafka knows it.
func TestAReleaseAfterATransactionWhoseEndIsNotKnown(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(p *producer)
		want int64
	}{
		"committed": {func(p *producer) { p.commit() }, 9},
		"aborted":   {func(p *producer) { p.m.set(func() { p.m.end(p.m.txns[p.id], false) }) }, 7},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, b *bench) {
				m := b.taken()
				at, err := m.Transactional(one, map[string]int64{"orders": 9})
				if err != nil {
					t.Fatal(err)
				}
				id := TransactionalID("g", at.Incarnation)
				p := &producer{b.model, id, b.model.txns[id].epoch}
				p.commitOffset(tp("orders", 1), committed{9, at.Metadata})
				time.AfterFunc(3*time.Second, func() { c.end(p) })
				if err := m.CommitReleased(t.Context(), one, map[string]int64{"orders": 7}); err != nil {
					t.Fatal(err)
				}
				if position, claim := b.stored(); position != c.want || !claim.Released {
					t.Errorf("stored %d, %+v", position, claim)
				}
			})
		})
	}
}

func TestAFencedProducerEndsTheMembership(t *testing.T) {
	for name, change := range map[string]func(*Config){"dynamic": func(*Config) {}, "static": func(c *Config) { c.InstanceID = "one" }} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, b *bench) {
				m := b.taken(change)
				other := b.exactly(takeOverSteps)
				pass(time.Second)
				was, member := m.Incarnation(), m.last(t, "assigned").given.MemberID
				m.Fenced("another incarnation", errors.New("not ours"))
				pass(time.Second)
				if m.has("lost") || m.Incarnation() != was {
					t.Fatalf("another incarnation's fence: %s", m.string())
				}
				start := time.Now()
				m.Fenced(was, errors.New("47"))
				m.Fenced(was, errors.New("90")) // once more, from another task
				// At once, before anybody has been told:
				if _, err := m.Transactional(one, nil); !errors.Is(err, ErrLost) {
					t.Errorf("a transaction: %v", err)
				}
				if err := m.Commit(t.Context(), one, nil); !errors.Is(err, ErrLost) {
					t.Errorf("a commit: %v", err)
				}
				if _, err := m.TakeOver(t.Context(), one); !errors.Is(err, ErrLost) {
					t.Errorf("a take-over: %v", err)
				}
				pass(3 * time.Second)
				lost := 0
				for _, e := range m.all() {
					if e.what == "lost" {
						lost++
						if e.code != codeFenced || e.at != start {
							t.Errorf("lost: %+v, %s after it", e, e.at.Sub(start))
						}
					}
				}
				a := m.last(t, "assigned")
				if lost != 1 || m.Incarnation() == was {
					t.Errorf("lost %d times, incarnation %s, was %s", lost, m.Incarnation(), was)
				}
				// Nobody waits for a session to end: the group has moved on within a heartbeat.
				if waited := a.at.Sub(start); waited > 2*time.Second || a.given.MemberID != member {
					t.Errorf("joined again after %s as %s, was %s", waited, a.given.MemberID, member)
				}
				owned := len(m.last(t, "assigned").given.Active) + len(other.last(t, "assigned").given.Active)
				if owned != 4 {
					t.Errorf("%d tasks are owned:\n%s\n%s", owned, m.string(), other.string())
				}
			})
		})
	}
}

// The producer is fenced while the member waits in a JoinGroup.
func TestAFenceInterruptsAJoin(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		first := b.taken()
		first.stop() // it is waited for until its session ends
		second := b.exactly(takeOverSteps)
		was := second.Incarnation()
		second.Fenced(was, errors.New("47"))
		pass(time.Second)
		if second.Incarnation() == was {
			t.Error("the incarnation is the same")
		}
		pass(15 * time.Second)
		if a := second.last(t, "assigned").given; len(a.Active) != 4 {
			t.Errorf("got %+v", a)
		}
	})
}

// Another process has joined with our group_instance_id: who was fenced does not take its place.
func TestAFencedStaticMemberThatWasReplaced(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		static := func(c *Config) { c.InstanceID = "one" }
		first := b.taken(static)
		b.model.set(func() {
			b.model.hang = func(_ int32, req kmsg.Request) bool { return req.Key() == int16(kmsg.Heartbeat) }
		})
		second := b.exactly(takeOverSteps, static)
		b.model.set(func() { b.model.hang = nil })
		mine := second.last(t, "assigned").given
		first.Fenced(first.Incarnation(), errors.New("47"))
		pass(5 * time.Second)
		if e := first.last(t, "fatal"); e.failure == nil {
			t.Errorf("got %s", first.string())
		}
		if second.has("lost") || second.last(t, "assigned").given.MemberID != mine.MemberID || len(second.Owned()) != 4 {
			t.Errorf("the other process: %s", second.string())
		}
	})
}
