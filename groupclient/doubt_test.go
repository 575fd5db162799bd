package groupclient

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// How a transaction has ended was not told when a take-over fails behind its claim: what is released is what Kafka has.
func TestAFailedTakeOverAfterATransactionWhoseEndWasNotTold(t *testing.T) {
	for _, how := range []string{"the session lets go", "the session writes the release"} {
		t.Run(how, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, b *bench) {
				m := b.taken()
				b.untold(m).commit()
				m.Group.steps = failing()
				if _, err := m.take(t); !errors.Is(err, errLate) {
					t.Fatal(err)
				}
				if how == "the session writes the release" {
					if err := m.CommitReleased(t.Context(), one, nil); err != nil {
						t.Fatal(err)
					}
				}
				m.Release(one)
				pass(3 * time.Second)
				if position, c := b.stored(); position != 9 || !c.Released {
					t.Errorf("stored %d, %+v", position, c)
				}
			})
		})
	}
}

// untold is a transaction that takes orders/1 to 9, whose end the membership is not told.
func (b *bench) untold(m *member) *producer {
	b.t.Helper()
	at, err := m.Transactional(one, map[string]int64{"orders": 9})
	if err != nil {
		b.t.Fatal(err)
	}
	id := TransactionalID("g", at.Incarnation)
	p := &producer{b.model, id, b.model.txns[id].epoch}
	p.commitOffset(tp("orders", 1), committed{9, at.Metadata})
	return p
}

// A transaction of which nothing more was told has been ended by Kafka after its timeout.
func TestATaskInDoubtIsReleasedAfterTheTimeout(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.taken()
		p := b.untold(m)
		b.model.set(func() { b.model.end(b.model.txns[p.id], false) })
		m.Release(one)
		pass(24 * time.Second)
		if _, c := b.stored(); c.Released {
			t.Error("released before the timeout")
		}
		pass(3 * time.Second)
		if position, c := b.stored(); position != 7 || !c.Released {
			t.Errorf("stored %d, %+v", position, c)
		}
	})
}

// INVARIANT: nothing is released while a transaction may have no end. Who drains lets go of the task all the same:
// it stays claimed, and who takes it over after the leave finds the claim, and ends the transaction.
func TestATaskInDoubtIsNotReleased(t *testing.T) {
	for name, told := range map[string]bool{"the end is told": true, "it is not": false} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, b *bench) {
				m := b.taken()
				p := b.untold(m)
				was, joins := m.Incarnation(), len(b.model.joins)
				m.Drain()
				m.Release(one)
				pass(5 * time.Second)
				if _, c := b.stored(); c.Released || len(b.model.joins) != joins {
					t.Errorf("the claim is %+v after %d joins", c, len(b.model.joins)-joins)
				}
				if told {
					p.commit()
					m.Transacted(one, map[string]int64{"orders": 9}, was)
					pass(2 * time.Second)
				}
				if err := m.Leave(t.Context()); err != nil {
					t.Fatal(err)
				}
				position, c := b.stored()
				if want := int64(7); c.Released != told || c.Incarnation != was || !told && position != want || told && position != 9 {
					t.Errorf("stored %d, %+v", position, c)
				}
			})
		})
	}
}

// A coordinator that has moved knows a static member of before again, while its successor has taken over: what the
// woken one releases must not be written over the successor's claim.
func TestNothingIsReleasedOverAnothersClaim(t *testing.T) {
	for name, release := range map[string]func(*testing.T, *member){
		"the session writes the release": func(t *testing.T, m *member) {
			if err := m.CommitReleased(t.Context(), one, map[string]int64{"orders": 8}); !errors.Is(err, ErrLost) {
				t.Errorf("got %v", err)
			}
			m.Release(one)
		},
		"the session lets go": func(_ *testing.T, m *member) { m.Release(one) },
	} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, b *bench) {
				m := b.taken()
				joins := len(b.model.joins)
				successors := b.formerly(func(c *claim) { c.Incarnation = "successor" })
				b.model.set(func() { b.model.offsets[tp("orders", 1)] = committed{20, successors} })
				release(t, m)
				pass(3 * time.Second)
				if position, c := b.stored(); position != 20 || c.Incarnation != "successor" || c.Released {
					t.Errorf("stored %d, %+v", position, c)
				}
				if len(b.model.joins) == joins || !m.has("lost") {
					t.Error("the membership goes on")
				}
			})
		})
	}
}

// losesCommits loses OffsetCommits until the last of these; at that one the successor takes orders/1 over.
func (b *bench) losesCommits(until int) (tries func() int) {
	successors := claim{Incarnation: "successor", Guarantee: ExactlyOnce}
	metadata, err := successors.encode()
	if err != nil {
		b.t.Fatal(err)
	}
	n := 0
	b.model.set(func() {
		b.model.hang = func(_ int32, req kmsg.Request) bool {
			if req.Key() != int16(kmsg.OffsetCommit) {
				return false
			}
			b.model.set(func() {
				if n++; n == until {
					b.model.offsets[tp("orders", 1)] = committed{20, metadata}
				}
			})
			return n <= until
		}
	})
	return func() int { return n }
}

// The same while a release is repeated, and while a claim is: the successor comes between two tries.
func TestWhatIsRepeatedIsNotWrittenOverAnothersClaim(t *testing.T) {
	for name, write := range map[string]func(*testing.T, *bench, *member) error{
		"a release": func(t *testing.T, b *bench, m *member) error {
			if _, err := m.take(t); err != nil {
				t.Fatal(err)
			}
			tries := b.losesCommits(2)
			err := m.CommitReleased(t.Context(), one, map[string]int64{"orders": 8})
			if tries() != 2 {
				t.Errorf("%d tries", tries())
			}
			return err
		},
		"a claim": func(t *testing.T, b *bench, m *member) error {
			tries := b.losesCommits(1)
			_, err := m.take(t)
			if tries() != 1 {
				t.Errorf("%d tries", tries())
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, b *bench) {
				b.formerly(func(c *claim) { c.Released = true })
				m := b.exactly(takeOverSteps)
				was := m.Incarnation()
				if err := write(t, b, m); !errors.Is(err, ErrLost) {
					t.Errorf("got %v", err)
				}
				if position, c := b.stored(); position != 20 || c.Incarnation != "successor" {
					t.Errorf("stored %d, %+v", position, c)
				}
				pass(3 * time.Second)
				if e := m.last(t, "lost"); !strings.Contains(e.failure.Error(), "another sidecar has taken task orders/1 over") || m.Incarnation() == was {
					t.Errorf("got %+v", e)
				}
			})
		})
	}
}

// What stood before our claim is tolerated only until that stands.
func TestTheFormerOwnersClaimOverOursIsAnothers(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.taken()
		b.formerly(func(*claim) {})
		m.Release(one)
		pass(3 * time.Second)
		if position, c := b.stored(); position != 7 || c.Incarnation != former || c.Released {
			t.Errorf("stored %d, %+v", position, c)
		}
		if !m.has("lost") {
			t.Error("the membership goes on")
		}
	})
}
