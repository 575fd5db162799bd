package groupclient

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
)

func TestCommitAndRelease(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.joined()
		b.model.last["orders"] = 100
		task := Task{"orders", 1}
		if err := m.Commit(t.Context(), task, map[string]int64{"orders": 1}); err == nil {
			t.Error("committed before the take-over")
		}
		if _, err := m.TakeOver(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		if err := m.Commit(t.Context(), task, map[string]int64{"elsewhere": 1}); err == nil {
			t.Error("committed a source that is not the task's")
		}
		if err := m.Commit(t.Context(), task, map[string]int64{"orders": 5}); err != nil {
			t.Fatal(err)
		}
		stored := func() (int64, claim) {
			c := b.model.offsets[tp("orders", 1)]
			parsed, _, err := parseClaim(c.metadata)
			if err != nil {
				t.Fatal(err)
			}
			return c.offset, parsed
		}
		if offset, c := stored(); offset != 5 || c.Released || c.Incarnation != m.Incarnation() {
			t.Errorf("stored %d, %+v", offset, c)
		}
		if err := m.CommitReleased(t.Context(), task, nil); err != nil {
			t.Fatal(err)
		}
		if offset, c := stored(); offset != 5 || !c.Released {
			t.Errorf("stored %d, %+v", offset, c)
		}
		m.Release(task)
		// It may have come back already: then it is lost no more, but has not been taken over.
		if err := m.Commit(t.Context(), task, nil); err == nil {
			t.Error("committed after the release")
		}
		// The task comes back to the only member: it is opened anew, and its claim with it.
		pass(time.Second)
		if _, err := m.TakeOver(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		if offset, c := stored(); offset != 5 || c.Released {
			t.Errorf("stored %d, %+v", offset, c)
		}
	})
}

func TestWhatCodesMeanToACommit(t *testing.T) {
	for code, want := range map[int16]error{3: nil, 7: nil, 14: nil, 15: nil, 16: nil, 22: ErrRebalancing, 25: ErrLost, 27: ErrRebalancing, 82: ErrLost, 12: nil, 30: nil} {
		onFakeClock(t, func(t *testing.T, b *bench) {
			m := b.joined()
			task := Task{"orders", 1}
			if _, err := m.TakeOver(t.Context(), task); err != nil {
				t.Fatal(err)
			}
			done := false
			b.model.set(func() {
				b.model.answer = func(req kmsg.Request) kmsg.Response {
					if _, ok := req.(*kmsg.OffsetCommitRequest); !ok || done {
						return nil
					}
					done = true
					resp := kmsg.NewPtrOffsetCommitResponse()
					rt, rp := kmsg.NewOffsetCommitResponseTopic(), kmsg.NewOffsetCommitResponseTopicPartition()
					rp.ErrorCode = code
					rt.Partitions = append(rt.Partitions, rp)
					resp.Topics = append(resp.Topics, rt)
					return resp
				}
			})
			err := m.Commit(t.Context(), task, map[string]int64{"orders": 5})
			var refused *RefusedError
			if code == 12 || code == 30 {
				if !errors.As(err, &refused) || refused.Code != codeKafkaRefused {
					t.Errorf("code %d: %v", code, err)
				}
			} else if !errors.Is(err, want) {
				t.Errorf("code %d: %v, want %v", code, err, want)
			}
		})
	}
}

// A commit that cannot be sent is repeated under the identity of the moment, and ends with the
// membership.
func TestACommitEndsWithTheMembership(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.joined()
		task := Task{"orders", 1}
		if _, err := m.TakeOver(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		b.model.set(func() { b.model.down = errDown })
		result := make(chan error, 1)
		go func() { result <- m.Commit(t.Context(), task, map[string]int64{"orders": 5}) }()
		pass(15 * time.Second) // past the session
		b.model.set(func() { b.model.down = nil })
		pass(5 * time.Second)
		if err := <-result; !errors.Is(err, ErrLost) {
			t.Errorf("got %v", err)
		}
		if got := b.model.offsets[tp("orders", 1)].offset; got == 5 {
			t.Error("a commit of a lost task has landed")
		}
	})
}

// INVARIANT: what Kafka does not say is an error and never an offset.
func TestAnOffsetThatIsNotToldIsNoPosition(t *testing.T) {
	for _, what := range []string{
		"ListOffsets earliest orders", "ListOffsets latest orders", "ListOffsets earliest g-counts-changelog", "ListOffsets latest g-counts-changelog",
	} {
		t.Run(what, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, b *bench) {
				m := b.joined(func(c *Config) { c.OnLostPosition = ResetEarliest })
				b.model.offsets[tp("orders", 1)] = committed{offset: 5}
				b.model.last["orders"], b.model.last["g-counts-changelog"] = 10, 3
				b.model.noOffset = what
				over, err := m.TakeOver(t.Context(), Task{"orders", 1})
				if err == nil || !strings.Contains(err.Error(), "UNKNOWN_TOPIC_OR_PARTITION") {
					t.Errorf("got %+v, %v", over, err)
				}
				if got := b.model.offsets[tp("orders", 1)].offset; got != 5 {
					t.Errorf("the position was moved to %d", got)
				}
			})
		})
	}
}

func TestACommitEndsWithItsContext(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.joined()
		task := Task{"orders", 1}
		if _, err := m.TakeOver(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		b.model.set(func() { b.model.down = errDown })
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := m.Commit(ctx, task, nil); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, kafka.ErrUnreachable) {
			t.Errorf("got %v", err)
		}
	})
}

// INVARIANT: a partition that the answer leaves out is not committed.
func TestAnAnswerThatLeavesAPartitionOut(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.joined()
		if _, err := m.TakeOver(t.Context(), Task{"orders", 1}); err != nil {
			t.Fatal(err)
		}
		left := 2
		b.model.set(func() {
			b.model.answer = func(req kmsg.Request) kmsg.Response {
				if _, ok := req.(*kmsg.OffsetCommitRequest); !ok || left == 0 {
					return nil
				}
				left--
				return kmsg.NewPtrOffsetCommitResponse()
			}
		})
		if err := m.Commit(t.Context(), Task{"orders", 1}, map[string]int64{"orders": 5}); err != nil || left != 0 {
			t.Errorf("%v, %d left", err, left)
		}
		if got := b.model.offsets[tp("orders", 1)].offset; got != 5 {
			t.Errorf("committed %d", got)
		}
	})
}
