package groupclient

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/assignor"
)

var errLate = errors.New("fails behind its claim")

// failing are the steps with the last one failing.
func failing() []step {
	steps := slices.Clone(takeOverSteps)
	steps[at(steps, "ends")].do = func(*taking, context.Context) error { return errLate }
	return steps
}

// claimedIn are the claims of a JoinGroup, the last one.
func (b *bench) claimedIn(t *testing.T, back int) []assignor.Task {
	t.Helper()
	b.model.mu.Lock()
	defer b.model.mu.Unlock()
	s, err := assignor.DecodeSubscription(b.model.joins[len(b.model.joins)-1-back])
	if err != nil {
		t.Fatal(err)
	}
	return s.Owned
}

// INVARIANT: a task whose claim may stand unreleased is claimed in the group until a release of it is
// acknowledged. Release does not wait for that; the follow-up join does.
func TestATakeOverThatFailsBehindItsClaimIsReleased(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.formerly(func(c *claim) { c.Released = true })
		m := b.exactly(failing())
		if _, err := m.take(t); !errors.Is(err, errLate) {
			t.Fatal(err)
		}
		if _, c := b.stored(); c.Incarnation != m.Incarnation() || c.Released {
			t.Fatalf("the claim is %+v", c)
		}
		var atJoin claim
		b.model.set(func() {
			b.model.answer = func(req kmsg.Request) kmsg.Response {
				if _, ok := req.(*kmsg.JoinGroupRequest); ok {
					_, atJoin = b.stored()
				}
				return nil
			}
		})
		joins := len(b.model.joins)
		start := time.Now()
		m.Release(one)
		if time.Since(start) > 0 {
			t.Error("Release waits")
		}
		if _, err := m.TakeOver(t.Context(), one); !errors.Is(err, ErrRebalancing) {
			t.Errorf("taken over before the next sync: %v", err)
		}
		pass(time.Second)
		if len(b.model.joins) != joins+1 || atJoin.Incarnation != m.Incarnation() || !atJoin.Released {
			t.Errorf("%d joins, the claim before it was %+v", len(b.model.joins)-joins, atJoin)
		}
		if position, _ := b.stored(); position != 7 {
			t.Errorf("the position is %d", position)
		}
		if slices.Contains(b.claimedIn(t, 0), assignor.Task{Set: assignorSet(orders(4).Sets[0]).Key(), Partition: 1}) {
			t.Error("the join claims what is released")
		}
	})
}

// The claim was sent and not answered: the same, and the claim is not written again in that generation, as the
// first one may come late and put the position back.
func TestAClaimThatWasNotAnswered(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.formerly(func(c *claim) { c.Released = true })
		m := b.exactly(takeOverSteps)
		generation := m.last(t, "assigned").given.Generation
		var late atomic.Pointer[kmsg.OffsetCommitRequest]
		b.model.set(func() {
			b.model.hang = func(_ int32, req kmsg.Request) bool {
				commit, ok := req.(*kmsg.OffsetCommitRequest)
				return ok && late.CompareAndSwap(nil, commit)
			}
		})
		_, err := m.take(t)
		if !errors.Is(err, ErrRebalancing) {
			t.Fatalf("got %v", err)
		}
		pass(time.Second)
		if a := m.last(t, "assigned").given; a.Generation != generation+1 || len(a.Active) != 4 {
			t.Fatalf("got %+v", a)
		}
		if _, err := m.take(t); err != nil {
			t.Fatal(err)
		}
		if resp := b.model.offsetCommit(late.Load()); resp.Topics[0].Partitions[0].ErrorCode != 22 {
			t.Errorf("the late claim is answered %+v", resp)
		}
	})
}

// The same when the take-over was given up meanwhile: the next one asks for a new generation first.
func TestAClaimThatWasNotAnsweredBeforeItWasGivenUp(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.formerly(func(c *claim) { c.Released = true })
		m := b.exactly(takeOverSteps)
		var hang atomic.Bool
		hang.Store(true)
		b.model.set(func() {
			b.model.hang = func(_ int32, req kmsg.Request) bool { return hang.Load() && req.Key() == int16(kmsg.OffsetCommit) }
		})
		if _, err := m.take(t); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		hang.Store(false)
		commits := b.model.count("OffsetCommit")
		if _, err := m.take(t); !errors.Is(err, ErrRebalancing) || b.model.count("OffsetCommit") != commits {
			t.Fatalf("got %v", err)
		}
		pass(time.Second)
		if _, err := m.take(t); err != nil {
			t.Error(err)
		}
	})
}

// As long as the release cannot be written, no follow-up join is made, and joins that others make claim the task.
func TestAReleaseThatHasToWait(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.formerly(func(c *claim) { c.Released = true })
		m := b.exactly(failing())
		if _, err := m.take(t); !errors.Is(err, errLate) {
			t.Fatal(err)
		}
		var refuse atomic.Bool
		refuse.Store(true)
		b.model.set(func() {
			b.model.answer = func(req kmsg.Request) kmsg.Response {
				if commit, ok := req.(*kmsg.OffsetCommitRequest); ok && refuse.Load() {
					resp := kmsg.NewPtrOffsetCommitResponse()
					for _, topic := range commit.Topics {
						rt, rp := kmsg.NewOffsetCommitResponseTopic(), kmsg.NewOffsetCommitResponseTopicPartition()
						rt.Topic, rp.Partition, rp.ErrorCode = topic.Topic, topic.Partitions[0].Partition, 7
						rt.Partitions = append(rt.Partitions, rp)
						resp.Topics = append(resp.Topics, rt)
					}
					return resp
				}
				return nil
			}
		})
		joins, beats := len(b.model.joins), b.model.count("Heartbeat")
		m.Release(one)
		pass(10 * time.Second)
		if len(b.model.joins) != joins {
			t.Errorf("%d joins before the release is written", len(b.model.joins)-joins)
		}
		if n := b.model.count("Heartbeat") - beats; n < 15 {
			t.Errorf("%d heartbeats in 10 s", n)
		}
		if n := b.model.count("OffsetCommit"); n > 60 {
			t.Errorf("%d tries in 10 s", n)
		}
		m.Drain() // so that everything is to go to the second one
		second := b.exactly(takeOverSteps)
		pass(5 * time.Second)
		if len(b.claimedIn(t, 0))+len(b.claimedIn(t, 1)) != 4 {
			t.Errorf("claimed: %v and %v", b.claimedIn(t, 0), b.claimedIn(t, 1))
		}
		if slices.Contains(second.last(t, "assigned").given.Active, one) {
			t.Error("the task is another's before its release is written")
		}
		refuse.Store(false)
		pass(3 * time.Second)
		if _, c := b.stored(); !c.Released {
			t.Errorf("the claim is %+v", c)
		}
		m.Release(m.Owned()...)
		pass(5 * time.Second)
		if n := len(second.last(t, "assigned").given.Active); n != 4 || m.has("lost") {
			t.Errorf("%d tasks are the second one's\n%s", n, m.string())
		}
	})
}

// Kafka does not take the release for good: the membership is over, and with it what the claim stands for.
func TestAReleaseThatIsRefusedEndsTheMembership(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.formerly(func(c *claim) { c.Released = true })
		m := b.exactly(failing())
		if _, err := m.take(t); !errors.Is(err, errLate) {
			t.Fatal(err)
		}
		was := m.Incarnation()
		b.model.set(func() {
			b.model.answer = func(req kmsg.Request) kmsg.Response {
				if _, ok := req.(*kmsg.OffsetCommitRequest); !ok {
					return nil
				}
				resp := kmsg.NewPtrOffsetCommitResponse()
				rt, rp := kmsg.NewOffsetCommitResponseTopic(), kmsg.NewOffsetCommitResponseTopicPartition()
				rt.Topic, rp.Partition, rp.ErrorCode = "orders", 1, 30
				rt.Partitions = append(rt.Partitions, rp)
				resp.Topics = append(resp.Topics, rt)
				return resp
			}
		})
		m.Release(one)
		pass(3 * time.Second)
		if e := m.last(t, "lost"); !strings.Contains(e.failure.Error(), "orders/1") || m.Incarnation() == was {
			t.Errorf("got %+v", e)
		}
	})
}

// A sync gives the task to us again before its release was written: it stays ours, and its claim is known.
func TestAPartingTaskThatComesBack(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.formerly(func(c *claim) { c.Released = true })
		m := b.exactly(failing())
		if _, err := m.take(t); !errors.Is(err, errLate) {
			t.Fatal(err)
		}
		hold := make(chan struct{})
		b.model.set(func() {
			b.model.answer = func(req kmsg.Request) kmsg.Response {
				if _, ok := req.(*kmsg.SyncGroupRequest); ok {
					<-hold
				}
				return nil
			}
		})
		m.Release(Task{"orders", 3})
		pass(time.Second) // joined, not synced, with orders/1 claimed
		m.Release(one)
		close(hold)
		pass(2 * time.Second)
		if !slices.Contains(m.Owned(), one) {
			t.Fatalf("owned %v", m.Owned())
		}
		m.Release(one) // never opened again: its claim still stands
		pass(2 * time.Second)
		if _, c := b.stored(); !c.Released {
			t.Errorf("the claim is %+v", c)
		}
	})
}

// A set that is declared no more cannot be claimed: the join waits for the release.
func TestATaskThatIsNotDeclaredAnyMoreIsReleasedBeforeTheJoin(t *testing.T) {
	for name, possible := range map[string]bool{"it is written": true, "it cannot be": false} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, b *bench) {
				b.model.topic("ticks", 4, 9)
				b.formerly(func(c *claim) { c.Released = true })
				m := b.exactly(failing())
				if _, err := m.take(t); !errors.Is(err, errLate) {
					t.Fatal(err)
				}
				was := m.Incarnation()
				var understated atomic.Bool
				b.model.set(func() {
					b.model.answer = func(req kmsg.Request) kmsg.Response {
						switch req := req.(type) {
						case *kmsg.JoinGroupRequest:
							if _, c := b.stored(); !c.Released && m.Incarnation() == was {
								understated.Store(true)
							}
						case *kmsg.OffsetCommitRequest:
							if !possible {
								return kmsg.NewPtrOffsetCommitResponse() // says nothing
							}
						case *kmsg.HeartbeatRequest:
							if !possible { // others make the group rebalance
								resp := kmsg.NewPtrHeartbeatResponse()
								resp.ErrorCode = 27
								return resp
							}
						default:
							_ = req
						}
						return nil
					}
				})
				p := orders(4)
				p.Sets = []PreparedSet{{Name: "ticks", Sources: []string{"ticks"}, Partitions: 4}}
				m.Join(p)
				pass(9 * time.Second)
				if understated.Load() {
					t.Error("a join understates what may be claimed")
				}
				if m.has("lost") == possible || (m.Incarnation() == was) != possible {
					t.Errorf("got %s", m.string())
				}
				if a := m.last(t, "assigned").given; len(a.Active) != 4 || a.Active[0].Set != "ticks" {
					t.Errorf("got %+v", a)
				}
			})
		})
	}
}

// Who leaves with a claim on which nobody works hands it over cleanly; one that is worked on is fenced.
func TestLeavingReleasesWhatNobodyWorksOn(t *testing.T) {
	for name, worked := range map[string]bool{"a take-over that failed": false, "worked on": true} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, b *bench) {
				b.formerly(func(c *claim) { c.Released = true })
				steps := failing()
				if worked {
					steps = takeOverSteps
				}
				m := b.exactly(steps)
				if _, err := m.take(t); (err == nil) != worked {
					t.Fatal(err)
				}
				was := m.Incarnation()
				if err := m.Leave(t.Context()); err != nil {
					t.Fatal(err)
				}
				if _, c := b.stored(); c.Incarnation != was || c.Released == worked {
					t.Errorf("the claim is %+v", c)
				}
			})
		})
	}
}

// A release that the session has written is not written again.
func TestACleanReleaseIsWrittenOnce(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.taken()
		if err := m.CommitReleased(t.Context(), one, map[string]int64{"orders": 8}); err != nil {
			t.Fatal(err)
		}
		seen := b.during(func() { m.Release(one); pass(time.Second) })
		if slices.Contains(seen, "OffsetCommit") || slices.Contains(seen, "OffsetFetch stable") || !slices.Contains(seen, "JoinGroup") {
			t.Errorf("requests %v", seen)
		}
	})
}

// Under at least once nothing changes: nobody is fenced by a claim.
func TestAtLeastOnceReleasesAsBefore(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.formerly(func(c *claim) { c.Released = true })
		m := b.joined()
		m.Group.steps = failing()
		if _, err := m.take(t); !errors.Is(err, errLate) {
			t.Fatal(err)
		}
		if seen := b.during(func() { m.Release(one); pass(time.Second) }); slices.Contains(seen, "OffsetCommit") {
			t.Errorf("requests %v", seen)
		}
	})
}

// A take-over that is still under way when its task is released ends soon, and the release waits for it.
func TestAReleaseDuringATakeOver(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.formerly(func(c *claim) { c.Released = true })
		steps := slices.Clone(takeOverSteps)
		reached, goOn := make(chan struct{}), make(chan struct{})
		steps[at(steps, "ends")].do = func(*taking, context.Context) error {
			close(reached)
			<-goOn
			return nil
		}
		m := b.exactly(steps)
		result := make(chan error, 1)
		go func() { _, err := m.take(t); result <- err }()
		<-reached
		joins := len(b.model.joins)
		m.Release(one)
		pass(2 * time.Second)
		if len(b.model.joins) != joins {
			t.Error("joined while a claim may be on its way")
		}
		close(goOn)
		if err := <-result; !errors.Is(err, ErrRebalancing) {
			t.Errorf("got %v", err)
		}
		pass(2 * time.Second)
		if _, c := b.stored(); !c.Released || len(b.model.joins) != joins+1 {
			t.Errorf("the claim is %+v after %d joins", c, len(b.model.joins)-joins)
		}
	})
}
