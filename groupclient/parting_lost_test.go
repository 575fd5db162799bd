package groupclient

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The source was created anew, so that its position is lost and the take-over decides to begin at the start. Its
// claim does not land, and it is given up. The release must not put the old position beside the new topic's id:
// the next owner would believe it, and pass over as many records.
func TestAReleaseDoesNotReviveALostPosition(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.formerly(func(c *claim) { c.Released, c.Sources = true, map[string]string{"orders": shortID([16]byte{9})} })
		earliest := func(c *Config) { c.OnLostPosition = ResetEarliest }
		m := b.exactly(takeOverSteps, earliest)
		var lost atomic.Bool
		b.model.set(func() {
			b.model.hang = func(_ int32, req kmsg.Request) bool {
				return req.Key() == int16(kmsg.OffsetCommit) && !lost.Swap(true)
			}
		})
		if over, err := m.take(t); err == nil || !lost.Load() {
			t.Fatalf("taken over: %+v", over)
		}
		m.Release(one)
		pass(5 * time.Second)
		position, c := b.stored()
		if id := c.Sources["orders"]; position != 0 && sameID(id, shortID([16]byte{1})) {
			t.Errorf("position %d of the topic that was deleted stands beside the id of the new one: %+v", position, c)
		}
		if over, err := m.take(t); err != nil || over.Positions["orders"] != 0 {
			t.Errorf("the next take-over begins at %v, %v", over.Positions, err)
		}
	})
}

// The same where the task was ours before the source was created anew: our older claim names another topic.
func TestAReleaseDoesNotReviveAPositionOfOurs(t *testing.T) {
	for _, how := range []string{"the session lets go", "the session writes the release"} {
		t.Run(how, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, b *bench) {
				m := b.taken(func(c *Config) { c.OnLostPosition = ResetEarliest })
				var hang atomic.Bool
				hang.Store(true)
				b.model.set(func() {
					b.model.topic("orders", 4, 9)
					b.model.hang = func(_ int32, req kmsg.Request) bool { return hang.Load() && req.Key() == int16(kmsg.OffsetCommit) }
				})
				if over, err := m.take(t); err == nil {
					t.Fatalf("taken over: %+v", over)
				}
				hang.Store(false)
				writes := how == "the session writes the release"
				if writes { // behind which the claim might come, so that it waits for the next generation
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
				position, c := b.stored()
				if writes && !c.Released || position != 0 && sameID(c.Sources["orders"], shortID([16]byte{9})) {
					t.Errorf("stored %d, %+v", position, c)
				}
				if over, err := m.take(t); err != nil || over.Positions["orders"] != 0 {
					t.Errorf("the next take-over begins at %v, %v", over.Positions, err)
				}
			})
		})
	}
}
