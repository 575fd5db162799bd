package groupclient

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
)

func tp(topic string, partition int32) kafka.TopicPartition {
	return kafka.TopicPartition{Topic: topic, Partition: partition}
}

// joined is a member with all four tasks of orders.
func (b *bench) joined(change ...func(*Config)) *member {
	m := b.start(change...)
	m.Join(orders(4))
	pass(time.Second)
	return m
}

// during notes the requests that are made meanwhile, heartbeats of the loop aside.
func (b *bench) during(run func()) []string {
	before := len(b.model.requests())
	run()
	return b.model.requests()[before:]
}

// INVARIANT: the order of the steps on the wire.
func TestTheOrderOfATakeOver(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.joined()
		former := claim{Incarnation: "former", Guarantee: ExactlyOnce, Sources: map[string]string{"orders": shortID([16]byte{1})},
			Tables: map[string]string{"g-counts-changelog": shortID([16]byte{2})}}
		text, _ := former.encode()
		b.model.offsets[tp("orders", 2)] = committed{7, text}
		b.model.last["orders"], b.model.last["g-counts-changelog"] = 10, 3
		var over TakeOver
		var err error
		seen := b.during(func() { over, err = m.TakeOver(t.Context(), Task{"orders", 2}) })
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"OffsetFetch", "Heartbeat", "SyncGroup", "InitProducerID", "OffsetFetch stable", "Metadata", "ListOffsets", "ListOffsets", "OffsetCommit", "ListOffsets latest"}
		for i := range seen {
			if i == 6 || i == 7 {
				seen[i] = "ListOffsets" // earliest and latest, in any order
			}
		}
		if !slices.Equal(seen, want) {
			t.Errorf("requests %v\nwant     %v", seen, want)
		}
		if over.Positions["orders"] != 7 || over.Ends["counts"] != 3 || over.TopicIDs["orders"] != [16]byte{1} {
			t.Errorf("got %+v", over)
		}
		c, ok, err := parseClaim(b.model.offsets[tp("orders", 2)].metadata)
		if err != nil || !ok || c.Incarnation != m.Incarnation() || c.Released || c.Guarantee != AtLeastOnce {
			t.Errorf("claim %+v, %v, %v", c, ok, err)
		}
		if b.model.offsets[tp("orders", 2)].offset != 7 {
			t.Error("the position was moved")
		}
	})
}

func TestWhatIsNotFenced(t *testing.T) {
	for name, change := range map[string]func(*claim, string){
		"at least once": func(c *claim, _ string) { c.Guarantee = AtLeastOnce },
		"released":      func(c *claim, _ string) { c.Released = true },
		"ours":          func(c *claim, incarnation string) { c.Incarnation = incarnation },
	} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, b *bench) {
				m := b.joined()
				former := claim{Incarnation: "former", Guarantee: ExactlyOnce, Sources: map[string]string{}, Tables: map[string]string{}}
				change(&former, m.Incarnation())
				text, _ := former.encode()
				b.model.offsets[tp("orders", 0)] = committed{0, text}
				if _, err := m.TakeOver(t.Context(), Task{"orders", 0}); err != nil {
					t.Fatal(err)
				}
				if b.model.count("InitProducerID") != 0 {
					t.Error("fenced")
				}
			})
		})
	}
}

func TestFencingIsRepeatedOrForbidden(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.joined()
		former := claim{Incarnation: "former", Guarantee: ExactlyOnce, Sources: map[string]string{}, Tables: map[string]string{}}
		text, _ := former.encode()
		b.model.offsets[tp("orders", 0)] = committed{0, text}
		codes := []int16{51, 16, 51, 53}
		b.model.set(func() {
			b.model.answer = func(req kmsg.Request) kmsg.Response {
				init, ok := req.(*kmsg.InitProducerIDRequest)
				if !ok {
					return nil
				}
				if *init.TransactionalID != "g-former" {
					t.Errorf("fenced %q", *init.TransactionalID)
				}
				resp := kmsg.NewPtrInitProducerIDResponse()
				resp.ErrorCode, codes = codes[0], codes[1:]
				return resp
			}
		})
		if _, err := m.TakeOver(t.Context(), Task{"orders", 0}); err != nil || len(codes) != 0 {
			t.Errorf("%v, codes left %v", err, codes)
		}
	})
}

func TestStableOffsetsAreWaitedFor(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.joined()
		left := 3
		b.model.set(func() {
			b.model.answer = func(req kmsg.Request) kmsg.Response {
				if fetch, ok := req.(*kmsg.OffsetFetchRequest); !ok || !fetch.RequireStable || left == 0 {
					return nil
				}
				left--
				resp := b.model.offsetFetch(req.(*kmsg.OffsetFetchRequest))
				resp.Topics[0].Partitions[0].ErrorCode = 88
				return resp
			}
		})
		if _, err := m.TakeOver(t.Context(), Task{"orders", 0}); err != nil || left != 0 {
			t.Errorf("%v, %d left", err, left)
		}
	})
}

func TestTakeOverChecksItsGeneration(t *testing.T) {
	for code, want := range map[int16]error{0: nil, 27: nil, 22: ErrLost, 25: ErrLost, 82: ErrLost} {
		onFakeClock(t, func(t *testing.T, b *bench) {
			m := b.joined()
			b.model.set(func() { b.model.answer = once(code, kmsg.Heartbeat) })
			_, err := m.TakeOver(t.Context(), Task{"orders", 0})
			if !errors.Is(err, want) {
				t.Errorf("heartbeat %d: %v, want %v", code, err, want)
			}
			if want != nil && b.model.count("OffsetCommit") != 0 {
				t.Errorf("heartbeat %d: a claim was written", code)
			}
		})
	}
}

func TestTakeOverDuringOurOwnRebalance(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.joined()
		hold := make(chan struct{})
		b.model.set(func() {
			b.model.answer = func(req kmsg.Request) kmsg.Response {
				if _, ok := req.(*kmsg.SyncGroupRequest); ok {
					<-hold
				}
				return nil
			}
		})
		m.Release(tasks("orders", 3)...)
		pass(time.Second) // joined, not synced
		if _, err := m.TakeOver(t.Context(), Task{"orders", 0}); !errors.Is(err, ErrRebalancing) {
			t.Errorf("got %v", err)
		}
		close(hold)
		pass(time.Second)
		if m.has("lost") {
			t.Errorf("lost: %s", m.string())
		}
		if _, err := m.TakeOver(t.Context(), Task{"orders", 0}); err != nil {
			t.Error(err)
		}
	})
}

// The caller has not yet heard of the generation in which its release is known.
func TestTakeOverOfATaskThatWasJustReleased(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.joined()
		task := Task{"orders", 3}
		m.Release(task)
		if _, err := m.TakeOver(t.Context(), task); !errors.Is(err, ErrRebalancing) {
			t.Errorf("got %v", err)
		}
		pass(time.Second)
		if _, err := m.TakeOver(t.Context(), task); err != nil {
			t.Errorf("after the next assignment: %v", err)
		}
	})
}

func TestTakeOverRefuses(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.joined()
		b.model.last["g-counts-changelog"] = 5
		var refused *RefusedError
		if _, err := m.TakeOver(t.Context(), Task{"orders", 0}); !errors.As(err, &refused) || refused.Code != codeLostPosition {
			t.Errorf("got %v", err)
		}
		b.model.offsets[tp("orders", 1)] = committed{0, "pillion/9 from the future"}
		if _, err := m.TakeOver(t.Context(), Task{"orders", 1}); !errors.As(err, &refused) || !strings.Contains(refused.Message, "newest version") {
			t.Errorf("got %v", err)
		}
		if b.model.count("OffsetCommit") != 0 {
			t.Error("a refused take-over has committed")
		}
		if _, err := m.TakeOver(t.Context(), Task{"orders", 9}); !errors.Is(err, ErrLost) {
			t.Errorf("got %v", err)
		}
	})
}

// Two members and one hand-over: the new owner starts where the old one ended, and its claim stands.
func TestHandOver(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.model.last["orders"] = 100
		first := b.joined()
		for _, task := range first.Owned() {
			if _, err := first.TakeOver(t.Context(), task); err != nil {
				t.Fatal(err)
			}
		}
		second := b.start()
		second.Join(orders(4))
		pass(time.Second)
		kept := first.last(t, "assigned").given.Active
		ends := map[Task]int64{}
		for i, task := range first.Owned() {
			if slices.Contains(kept, task) {
				continue
			}
			ends[task] = int64(40 + i)
			// The release is written in the new generation, which has not given the task to us.
			if err := first.CommitReleased(t.Context(), task, map[string]int64{"orders": ends[task]}); err != nil {
				t.Fatal(err)
			}
		}
		first.Release(slices.Collect(maps.Keys(ends))...)
		pass(time.Second)
		for _, task := range second.last(t, "assigned").given.Active {
			over, err := second.TakeOver(t.Context(), task)
			if err != nil || over.Positions["orders"] != ends[task] {
				t.Errorf("%s starts at %v, %v; want %d", task, over.Positions, err, ends[task])
			}
			if err := first.Commit(t.Context(), task, map[string]int64{"orders": 99}); !errors.Is(err, ErrLost) {
				t.Errorf("the former owner has committed %s: %v", task, err)
			}
		}
		if len(second.last(t, "assigned").given.Active) != 2 {
			t.Errorf("got %s", second.string())
		}
	})
}

// A coordinator that is loading answers 0 to any heartbeat. INVARIANT: nobody is fenced on its word.
func TestALoadingCoordinatorIsNotBelieved(t *testing.T) {
	for name, member := range map[string]bool{"a member": true, "not a member any more": false} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, b *bench) {
				m := b.joined()
				former := claim{Incarnation: "former", Guarantee: ExactlyOnce, Sources: map[string]string{}, Tables: map[string]string{}}
				text, _ := former.encode()
				b.model.offsets[tp("orders", 0)] = committed{0, text}
				loading := 3
				b.model.set(func() {
					b.model.answer = func(req kmsg.Request) kmsg.Response {
						switch req := req.(type) {
						case *kmsg.HeartbeatRequest:
							return kmsg.NewPtrHeartbeatResponse() // to anybody
						case *kmsg.SyncGroupRequest:
							resp := kmsg.NewPtrSyncGroupResponse()
							if loading > 0 {
								loading--
								resp.ErrorCode = 14
							} else if !member {
								resp.ErrorCode = 25
							} else {
								return nil
							}
							return resp
						case *kmsg.InitProducerIDRequest:
							if loading > 0 || !member {
								t.Errorf("fenced %q", *req.TransactionalID)
							}
						}
						return nil
					}
				})
				_, err := m.TakeOver(t.Context(), Task{"orders", 0})
				if member && err != nil || !member && !errors.Is(err, ErrLost) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// Heartbeats of a member that was stopped for long do not confirm it: a coordinator that is loading might
// have answered them.
func TestAHeartbeatAfterALongGapConfirmsNothing(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.joined()
		if _, err := m.TakeOver(t.Context(), Task{"orders", 0}); err != nil {
			t.Fatal(err)
		}
		b.model.set(func() {
			b.model.answer = func(req kmsg.Request) kmsg.Response {
				switch req.(type) {
				case *kmsg.HeartbeatRequest:
					return kmsg.NewPtrHeartbeatResponse()
				case *kmsg.SyncGroupRequest:
					resp := kmsg.NewPtrSyncGroupResponse()
					resp.ErrorCode = 25
					return resp
				}
				return nil
			}
		})
		pass(2 * time.Second)
		if err := m.Confirm(t.Context(), Task{"orders", 0}); err != nil {
			t.Errorf("a member whose heartbeats never paused is not believed: %v", err)
		}
		m.Group.mu.Lock()
		m.confirmed = moment{time.Now().Add(-time.Minute)}
		m.Group.mu.Unlock()
		pass(2 * time.Second)
		if err := m.Confirm(t.Context(), Task{"orders", 0}); !errors.Is(err, ErrLost) {
			t.Errorf("got %v", err)
		}
	})
}

// A take-over that waits for a former owner's transaction ends with its membership.
func TestFencingEndsWithTheMembership(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.joined()
		former := claim{Incarnation: "former", Guarantee: ExactlyOnce, Sources: map[string]string{}, Tables: map[string]string{}}
		text, _ := former.encode()
		b.model.offsets[tp("orders", 0)] = committed{0, text}
		var lost atomic.Bool
		b.model.set(func() {
			b.model.answer = func(req kmsg.Request) kmsg.Response {
				switch req.(type) {
				case *kmsg.InitProducerIDRequest:
					if lost.Load() {
						t.Error("fenced after the loss")
					}
					resp := kmsg.NewPtrInitProducerIDResponse()
					resp.ErrorCode = 51
					return resp
				case *kmsg.HeartbeatRequest:
					if lost.Load() {
						resp := kmsg.NewPtrHeartbeatResponse()
						resp.ErrorCode = 25
						return resp
					}
				}
				return nil
			}
		})
		done := make(chan error, 1)
		go func() { _, err := m.TakeOver(t.Context(), Task{"orders", 0}); done <- err }()
		pass(2 * time.Second)
		m.Group.mu.Lock()
		m.identity.incarnation = "another life" // what a loss does
		m.Group.mu.Unlock()
		synctest.Wait()
		lost.Store(true)
		if err := <-done; !errors.Is(err, ErrLost) {
			t.Errorf("got %v", err)
		}
	})
}
