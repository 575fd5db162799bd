package groupclient

import (
	"errors"
	"testing"
	"time"
)

func TestATaskIsConfirmedByHeartbeats(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.joined()
		defer m.stop()
		task := Task{"orders", 1}
		if err := m.Confirm(t.Context(), task); !errors.Is(err, ErrLost) {
			t.Errorf("before it was taken over: %v", err)
		}
		if _, err := m.TakeOver(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		if asked := b.during(func() {
			if err := m.Confirm(t.Context(), task); err != nil {
				t.Error(err)
			}
		}); len(asked) != 0 {
			t.Errorf("asked %v though it is known", asked)
		}
		// Kafka is away, shorter than the session: the answer waits until it is back.
		b.model.set(func() { b.model.down = errDown })
		pass(6 * time.Second)
		result := make(chan error, 1)
		go func() { result <- m.Confirm(t.Context(), task) }()
		pass(time.Second)
		if len(result) != 0 {
			t.Fatalf("%v, though nobody knows", <-result)
		}
		b.model.set(func() { b.model.down = nil })
		if err := <-result; err != nil {
			t.Error(err)
		}
		m.Release(task)
		if err := m.Confirm(t.Context(), task); !errors.Is(err, ErrLost) {
			t.Errorf("after the release: %v", err)
		}
	})
}

// INVARIANT: a member that was stopped, and is a member no more without knowing it, begins no write.
func TestATaskOfAMemberThatWasStoppedIsNotConfirmed(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.joined()
		defer m.stop()
		task := Task{"orders", 1}
		if _, err := m.TakeOver(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		b.model.set(func() { b.model.down = errDown })
		pass(15 * time.Second) // past the session
		result := make(chan error, 1)
		go func() { result <- m.Confirm(t.Context(), task) }()
		b.model.set(func() { b.model.down = nil })
		if err := <-result; !errors.Is(err, ErrLost) {
			t.Errorf("got %v", err)
		}
	})
}

func TestAMomentIsFreshOnBothClocks(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		at   time.Time
		want bool
	}{
		"now":                    {now, true},
		"a minute ago":           {now.Add(-time.Minute), false},
		"before a sleep":         {now.Round(0).Add(-time.Minute), false},
		"the clock was set back": {now.Round(0).Add(time.Minute), false},
	} {
		if got := (moment{c.at}).fresh(30 * time.Second); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
