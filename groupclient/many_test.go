package groupclient

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/assignor"
	"github.com/pillion/pillion/internal/groupmodel"
	"github.com/pillion/pillion/internal/kafka"
)

// Groups of several members whose leader, coordinator or members fail at the worst moment. The workers are
// those of the simulation; its ledger checks every commit.

// crowd is a group of workers that has settled.
func crowd(t *testing.T, n int) *simulation {
	s := newSimulation(t, 1)
	for range n {
		s.grow()
	}
	t.Cleanup(func() {
		for _, w := range s.workers {
			w.kill()
		}
	})
	pass(20 * time.Second)
	s.check("at the start")
	return s
}

// inCrowd runs a test with a group of so many workers on a fake clock.
func inCrowd(t *testing.T, n int, run func(t *testing.T, s *simulation)) {
	onFakeClock(t, func(t *testing.T, _ *bench) {
		s := crowd(t, n)
		run(t, s)
		for _, w := range s.workers {
			w.kill()
		}
		s.workers = nil
	})
}

func (s *simulation) check(when string) {
	s.t.Helper()
	for _, err := range s.settled() {
		s.t.Errorf("%s: %s", when, err)
	}
}

// leader is the index of the worker that leads.
func (s *simulation) leader() int {
	s.t.Helper()
	i := slices.IndexFunc(s.workers, func(w *worker) bool { return w.leads.Load() })
	if i < 0 {
		s.t.Fatal("nobody leads")
	}
	return i
}

func (s *simulation) remove(i int) *worker {
	w := s.workers[i]
	s.model.set(func() { s.workers = slices.Delete(s.workers, i, i+1) })
	return w
}

// isPlan tells whether a request is the leader's SyncGroup.
func isPlan(req kmsg.Request) bool {
	sync, ok := req.(*kmsg.SyncGroupRequest)
	return ok && len(sync.GroupAssignment) > 0
}

// The leader dies between the answer to its JoinGroup and its SyncGroup: the others wait, are sent back
// by the coordinator, and get a plan of the next leader. Nobody else loses anything.
func TestALeaderThatDiesInTheMiddleOfAPlan(t *testing.T) {
	inCrowd(t, 4, func(t *testing.T, s *simulation) {
		lead := s.leader()
		died := make(chan struct{})
		var once atomic.Bool
		leader := s.workers[lead]
		s.model.set(func() {
			s.model.hang = func(_ int32, req kmsg.Request) bool {
				if isPlan(req) && req.(*kmsg.SyncGroupRequest).MemberID == leader.current().member {
					if !once.Swap(true) {
						close(died)
					}
					return true
				}
				return false
			}
		})
		s.grow()
		<-died
		s.remove(lead).kill()
		start := time.Now()
		for s.state() != groupmodel.Stable {
			pass(100 * time.Millisecond)
		}
		t.Logf("a generation is stable %s after the leader's death", time.Since(start))
		if took := time.Since(start); took > 21*time.Second { // rebalance timeout, and its session
			t.Errorf("took %s", took)
		}
		pass(10 * time.Second)
		s.check("after the leader's death")
		for i, w := range s.workers {
			if w.losses.Load() > 0 {
				t.Errorf("worker %d lost its membership", i)
			}
		}
	})
}

// The leader lives, but its plan does not arrive: for the coordinator it is gone after the rebalance
// timeout. It comes back as a new member.
func TestFollowersOfASilentLeader(t *testing.T) {
	inCrowd(t, 3, func(t *testing.T, s *simulation) {
		leader := s.workers[s.leader()]
		silent := make(chan struct{})
		var once atomic.Bool
		s.model.set(func() {
			s.model.hang = func(_ int32, req kmsg.Request) bool {
				if isPlan(req) && req.(*kmsg.SyncGroupRequest).MemberID == leader.current().member {
					if !once.Swap(true) {
						leader.line.cut.Store(true)
						close(silent)
					}
					return true
				}
				return false
			}
		})
		s.grow()
		<-silent
		pass(40 * time.Second)
		s.model.set(func() { s.model.hang = nil })
		leader.line.cut.Store(false)
		pass(30 * time.Second)
		s.check("after the leader is back")
		for i, w := range s.workers {
			if w != leader && w.losses.Load() > 0 {
				t.Errorf("worker %d lost its membership", i)
			}
		}
		if leader.losses.Load() != 1 {
			t.Errorf("the silent leader lost its membership %d times", leader.losses.Load())
		}
	})
}

// The coordinator moves, and loads for a while, in each state of the group. Nobody loses anything.
func TestTheCoordinatorMovesInEachState(t *testing.T) {
	for _, state := range []groupmodel.State{groupmodel.Stable, groupmodel.Preparing, groupmodel.Completing} {
		for _, loading := range []time.Duration{0, time.Second} {
			t.Run(fmt.Sprintf("%s %s", state, loading), func(t *testing.T) {
				inCrowd(t, 3, func(t *testing.T, s *simulation) {
					s.hold(state)
					s.move(loading)
					s.model.set(func() { s.model.hang = nil })
					pass(30 * time.Second)
					s.check("after the move")
					for i, w := range s.workers[:3] {
						if w.losses.Load() > 0 {
							t.Errorf("worker %d lost its membership", i)
						}
					}
				})
			})
		}
	}
}

// hold brings the group into a state in which it stays for a while.
func (s *simulation) hold(state groupmodel.State) {
	if state == groupmodel.Stable {
		return
	}
	slow := s.workers[(s.leader()+1)%len(s.workers)].current().member
	s.model.set(func() {
		s.model.hang = func(_ int32, req kmsg.Request) bool {
			join, ok := req.(*kmsg.JoinGroupRequest)
			return state == groupmodel.Preparing && ok && join.MemberID == slow || state == groupmodel.Completing && isPlan(req)
		}
	})
	s.grow()
	for range 50 {
		if s.state() == state {
			return
		}
		pass(100 * time.Millisecond)
	}
	s.t.Fatalf("the group is %s, not %s", s.state(), state)
}

func (s *simulation) state() groupmodel.State {
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	return s.model.group.State()
}

func (s *simulation) move(loading time.Duration) {
	s.model.set(func() {
		s.model.hear(s.model.group.Move(time.Now(), loading))
		s.model.node = s.model.group.Node()
	})
}

// A member joins while another one's take-over waits for a former owner's transaction (as it does while
// tables restore): the membership goes on, the newcomer gets its share, and the take-over succeeds.
func TestAMemberJoinsWhileAnotherTakesOver(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.claimsAt("orders", 4, claim{Incarnation: "former", Guarantee: ExactlyOnce, Sources: map[string]string{"orders": shortID([16]byte{1})},
			Tables: map[string]string{"g-counts-changelog": shortID([16]byte{2})}})
		var open atomic.Bool
		open.Store(true)
		b.model.answer = func(req kmsg.Request) kmsg.Response {
			if _, ok := req.(*kmsg.InitProducerIDRequest); !ok || !open.Load() {
				return nil
			}
			resp := kmsg.NewPtrInitProducerIDResponse()
			resp.ErrorCode = 51
			return resp
		}
		first := b.joined()
		done := make(chan error, 4)
		take := func(m *member, task Task) {
			go func() {
				for {
					seen := len(m.all())
					_, err := m.TakeOver(t.Context(), task)
					if err == nil || !m.rebalanced(err, seen) {
						done <- err
						return
					}
				}
			}()
		}
		for _, task := range first.Owned() {
			take(first, task)
		}
		pass(5 * time.Second)
		second := b.start()
		second.Join(orders(4))
		pass(5 * time.Second)
		kept := first.last(t, "assigned").given.Active
		if len(kept) != 2 || len(first.Owned()) != 4 || first.has("lost") {
			t.Fatalf("the first has %v and owns %v", kept, first.Owned())
		}
		for _, task := range first.Owned() {
			if !slices.Contains(kept, task) {
				first.Release(task) // nothing was taken over, so there is nothing to write
			}
		}
		pass(5 * time.Second)
		if a := second.last(t, "assigned").given; len(a.Active) != 2 {
			t.Errorf("the second has %v", a.Active)
		}
		open.Store(false)
		failed := 0
		for range 4 {
			if err := <-done; err != nil {
				failed++ // of a task that was released
			}
		}
		if failed != 2 {
			t.Errorf("%d of 4 take-overs failed, not those of the 2 tasks that were released", failed)
		}
	})
}

// rebalanced waits for the next assignment, if that is what an error asks for.
func (m *member) rebalanced(err error, seen int) bool {
	if !errors.Is(err, ErrRebalancing) {
		return false
	}
	for range 300 {
		for _, e := range m.all()[min(seen, len(m.all())):] {
			if e.what == "assigned" {
				return true
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false
}

// A draining member lets go of one task after the other. Each goes on with another member while the rest is
// still worked on, and nothing comes back.
func TestADrainingMemberHandsOverOneByOne(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		first := b.joined()
		second := b.start()
		second.Join(orders(4))
		pass(time.Second)
		before := b.model.generations()
		first.Drain()
		pass(2 * time.Second)
		if b.model.generations() != before {
			t.Error("a drain alone makes a rebalance")
		}
		for left := 3; left >= 0; left-- {
			first.Release(first.Owned()[0])
			pass(time.Second)
			if got := len(second.last(t, "assigned").given.Active); got != 4-left {
				t.Errorf("with %d tasks left the second has %d", left, got)
			}
			if a := first.last(t, "assigned").given; len(a.Standby) != 0 || len(first.Owned()) != left {
				t.Errorf("with %d tasks left the first is given %v and %v, and owns %v", left, a.Active, a.Standby, first.Owned())
			}
		}
		if made := b.model.generations() - before; made > 4 {
			t.Errorf("four releases made %d generations", made)
		}
		if err := first.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Second)
		first.Join(orders(4)) // a drain is over with the leave
		pass(2 * time.Second)
		second.Release(tasks("orders", 0, 1)...)
		pass(2 * time.Second)
		s, err := assignor.DecodeSubscription(b.model.joins[len(b.model.joins)-1])
		if err != nil || s.Draining {
			t.Errorf("still draining: %+v, %v", s, err)
		}
		if a := first.last(t, "assigned").given; len(a.Active) == 0 {
			t.Errorf("the first has %+v", a)
		}
	})
}

// Copies are asked for when a JoinGroup is built, and an orphan goes to the member that has one.
func TestATaskGoesToItsCopy(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		kept := func(copies ...Copy) func(*Config) {
			return func(c *Config) { c.Copies = func() []Copy { return copies } }
		}
		first := b.joined(func(c *Config) { c.Replicas = new(1) })
		second := b.start(kept(Copy{Task{"orders", 3}, 0}))
		third := b.start(kept(Copy{Task{"orders", 0}, 100}, Copy{Task{"orders", 1}, 0}))
		second.Join(orders(4))
		third.Join(orders(4))
		pass(2 * time.Second)
		first.stop() // its tasks are orphans
		pass(15 * time.Second)
		a, c := second.last(t, "assigned").given, third.last(t, "assigned").given
		if !slices.Contains(a.Active, Task{"orders", 3}) || !slices.Contains(c.Active, Task{"orders", 1}) || !slices.Contains(c.Active, Task{"orders", 0}) {
			t.Errorf("second %v, third %v", a.Active, c.Active)
		}
	})
}

// A rolling deploy of four that adds a table, or removes one: each member is drained and comes back with the
// other declaration. INVARIANT: a task whose claim names a table is taken over without it only when no
// member that stays declares it.
func TestARollingDeploy(t *testing.T) {
	more := orders(8)
	more.Sets[0].Tables = append(more.Sets[0].Tables, PreparedTable{Name: "more", Topic: "more-log"})
	for name, c := range map[string]struct{ from, to Prepared }{"adds a table": {orders(8), more}, "removes a table": {more, orders(8)}} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, _ *bench) {
				s := newSimulation(t, 3)
				s.model.topic("more-log", 8, 3)
				for range 4 {
					s.join(c.from)
				}
				pass(20 * time.Second)
				s.check("at the start")
				named := map[int32]bool{} // tasks whose claim names the table
				accepted := s.model.accepted
				s.model.set(func() {
					s.model.accepted = func(tp kafka.TopicPartition, member string, offset int64, metadata string) {
						accepted(tp, member, offset, metadata)
						claim, _, _ := parseClaim(metadata)
						_, now := claim.Tables["more-log"]
						if named[tp.Partition] && !now && s.declares("more-log") {
							t.Errorf("partition %d went to %s, which does not keep the table", tp.Partition, member)
						}
						named[tp.Partition] = now
					}
				})
				for range 4 {
					w := s.workers[0]
					w.drain()
					if err := w.Leave(t.Context()); err != nil {
						t.Error(err)
					}
					w.kill()
					s.remove(0)
					s.join(c.to)
					pass(20 * time.Second)
					s.check("after a member was replaced")
				}
				owned := 0
				for _, w := range s.workers {
					if n := len(w.Owned()); n != 2 {
						t.Errorf("a worker owns %d tasks at the end", n)
					}
					owned += len(w.Owned())
					w.kill()
				}
				var got bool
				s.model.set(func() { got = named[0] })
				if _, want := c.to.Sets[0].table("more-log"); owned != 8 || got != want {
					t.Errorf("%d tasks are owned; the table is claimed: %v", owned, got)
				}
			})
		})
	}
}

func (set PreparedSet) table(topic string) (PreparedTable, bool) {
	i := slices.IndexFunc(set.Tables, func(t PreparedTable) bool { return t.Topic == topic })
	if i < 0 {
		return PreparedTable{}, false
	}
	return set.Tables[i], true
}

// declares tells whether a member that stays keeps a table.
func (s *simulation) declares(changelog string) bool {
	return slices.ContainsFunc(s.workers, func(w *worker) bool {
		w.Group.mu.Lock()
		defer w.Group.mu.Unlock()
		if w.want == nil || w.draining {
			return false
		}
		_, ok := w.want.Sets[0].table(changelog)
		return ok
	})
}
