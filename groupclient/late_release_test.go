package groupclient

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// INVARIANT: a task is not taken over anew in the generation of a release that was not answered: that one may come
// late, and would put back the position that a transaction has committed since.
func TestAReleaseThatWasNotAnswered(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.taken()
		generation := m.last(t, "assigned").given.Generation
		var late atomic.Pointer[kmsg.OffsetCommitRequest]
		b.model.set(func() {
			b.model.hang = func(_ int32, req kmsg.Request) bool {
				commit, ok := req.(*kmsg.OffsetCommitRequest)
				return ok && late.CompareAndSwap(nil, commit)
			}
		})
		if err := m.CommitReleased(t.Context(), one, nil); err != nil || late.Load() == nil {
			t.Fatalf("got %v", err)
		}
		if _, err := m.take(t); !errors.Is(err, ErrRebalancing) { // a sync has given it to us again
			t.Fatalf("got %v", err)
		}
		pass(time.Second)
		if a := m.last(t, "assigned").given; a.Generation != generation+1 {
			t.Fatalf("got %+v", a)
		}
		if _, err := m.take(t); err != nil {
			t.Fatal(err)
		}
		if resp := b.model.offsetCommit(late.Load()); resp.Topics[0].Partitions[0].ErrorCode != 22 {
			t.Errorf("the late release is answered %+v", resp)
		}
	})
}

// INVARIANT: a claim that was not answered is released in a later generation only: it may come late, and would stand
// again behind the release, so that the next owner would fence this member, which lives and has other tasks.
func TestAClaimThatMayComeLateIsReleasedInALaterGeneration(t *testing.T) {
	for _, how := range []string{"the session lets go", "the session writes the release"} {
		t.Run(how, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, b *bench) {
				m := b.taken()
				var hang atomic.Bool
				var claimed, released atomic.Int32
				hang.Store(true)
				b.model.set(func() {
					b.model.hang = func(_ int32, req kmsg.Request) bool {
						commit, ok := req.(*kmsg.OffsetCommitRequest)
						if !ok {
							return false
						}
						if hang.Load() {
							claimed.Store(commit.Generation)
							return true
						}
						if strings.Contains(*commit.Topics[0].Partitions[0].Metadata, " released ") {
							released.CompareAndSwap(0, commit.Generation)
						}
						return false
					}
				})
				if over, err := m.take(t); err == nil {
					t.Fatalf("taken over: %+v", over)
				}
				hang.Store(false)
				if how == "the session writes the release" {
					if err := m.CommitReleased(t.Context(), one, nil); !errors.Is(err, ErrRebalancing) {
						t.Fatal(err)
					}
					pass(time.Second)
					if err := m.CommitReleased(t.Context(), one, nil); err != nil {
						t.Fatal(err)
					}
				}
				m.Release(one)
				pass(5 * time.Second)
				if at := released.Load(); at != 0 && at <= claimed.Load() {
					t.Errorf("claimed in generation %d without an answer, and released in generation %d", claimed.Load(), at)
				}
				if how == "the session writes the release" && released.Load() == 0 {
					t.Error("it was not released")
				}
			})
		})
	}
}
