package groupclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
)

// claimOf is a claim of orders under exactly once, as text.
func claimOf(t testing.TB, incarnation string, change ...func(*claim)) string {
	t.Helper()
	c := claim{Incarnation: incarnation, Guarantee: ExactlyOnce, Sources: map[string]string{"orders": shortID([16]byte{1})},
		Tables: map[string]string{"g-counts-changelog": shortID([16]byte{2})}}
	for _, change := range change {
		change(&c)
	}
	text, err := c.encode()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func open(*claim)       {}
func released(c *claim) { c.Released = true }
func atLeast(c *claim)  { c.Guarantee = AtLeastOnce }
func (b *bench) allInits() []string {
	b.model.mu.Lock()
	defer b.model.mu.Unlock()
	return append([]string(nil), b.model.inits...)
}

// Two sources of one task may carry claims of two owners: each is looked at by itself.
func TestTheClaimsOfATaskAreFencedEachByItself(t *testing.T) {
	for _, c := range []struct {
		name           string
		orders, payees func(*claim)
		want           []string
	}{
		{"two open ones", open, open, []string{"g-a", "g-b"}},
		{"one released", released, open, []string{"g-b"}},
		{"the other released", open, released, []string{"g-a"}},
		{"both released", released, released, nil},
		{"one of at least once", atLeast, open, []string{"g-b"}},
		{"both of at least once", atLeast, atLeast, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			onFakeClock(t, func(t *testing.T, b *bench) {
				b.model.topic("payees", 4, 3)
				p := orders(4)
				p.Sets[0].Sources = []string{"orders", "payees"}
				m := b.exactly(takeOverSteps)
				m.Join(p)
				pass(time.Second)
				b.model.offsets[tp("orders", 1)] = committed{0, claimOf(t, "a", c.orders)}
				b.model.offsets[tp("payees", 1)] = committed{0, claimOf(t, "b", c.payees)}
				if _, err := m.TakeOver(t.Context(), one); err != nil {
					t.Fatal(err)
				}
				want := append(c.want, TransactionalID("g", m.Incarnation())) // ours is initialised last
				if got := b.allInits(); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("initialised %v, want %v", got, want)
				}
			})
		})
	}
}

func TestOurOwnIncarnations(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.exactly(takeOverSteps)
		first := m.Incarnation()
		for range 2 { // opened anew under the same incarnation: it is not fenced, and initialised once
			if _, err := m.TakeOver(t.Context(), one); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := fmt.Sprint(b.allInits()), fmt.Sprint([]string{"g-" + first}); got != want {
			t.Errorf("initialised %v, want %v", got, want)
		}
		b.model.remove(m.last(t, "assigned").given.MemberID)
		pass(2 * time.Second)
		if _, err := m.TakeOver(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		// The earlier life is fenced (twice: its end is waited for), and the new one is initialised.
		second := m.Incarnation()
		if got, want := fmt.Sprint(b.allInits()), fmt.Sprint([]string{"g-" + first, "g-" + first, "g-" + second}); got != want {
			t.Errorf("initialised %v, want %v", got, want)
		}
	})
}

// Many tasks of one dead owner are one fence.
func TestTasksOfOneOwnerShareItsFence(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		for p := range int32(4) {
			b.model.offsets[tp("orders", p)] = committed{0, claimOf(t, former)}
		}
		p := b.model.newProducer("g-former")
		p.produce("g-counts-changelog", 1) // so that its end is waited for
		b.model.set(func() { b.model.hold = true })
		m := b.exactly(takeOverSteps)
		var all sync.WaitGroup
		// The first one to fence gives up: another has to go on for it.
		ctx, cancel := context.WithCancel(t.Context())
		for i := range int32(4) {
			ctx := ctx
			if i > 0 {
				synctest.Wait()
				ctx = t.Context()
			}
			all.Go(func() {
				_, err := m.TakeOver(ctx, Task{"orders", i})
				if i == 0 && !errors.Is(err, context.Canceled) || i > 0 && err != nil {
					t.Errorf("task %d: %v", i, err)
				}
			})
		}
		pass(3 * time.Second)
		cancel()
		pass(3 * time.Second)
		before := len(b.allInits())
		b.model.markers()
		all.Wait()
		succeeded := 0
		for _, id := range b.allInits()[before:] {
			if id == "g-former" {
				succeeded++
			}
		}
		if succeeded != 1 {
			t.Errorf("fenced %d times: %v", succeeded, b.allInits()[before:])
		}
		before = len(b.allInits())
		if _, err := m.TakeOver(t.Context(), Task{"orders", 0}); err != nil {
			t.Fatal(err)
		}
		if got := b.allInits()[before:]; len(got) != 0 {
			t.Errorf("a fence that was made is made again: %v", got)
		}
	})
}

// lines collects what is logged.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) logger() hclog.Logger { return hclog.New(&hclog.LoggerOptions{Output: l}) }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(p))
	return len(p), nil
}

func (l *lines) with(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.all {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// Brokers that allow no longer transactions than ours take our fence, too.
func TestAFenceAsksForNoLongerTransactions(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.model.offsets[tp("orders", 1)] = committed{0, claimOf(t, former)}
		b.model.set(func() {
			b.model.answer = func(req kmsg.Request) kmsg.Response {
				if init, ok := req.(*kmsg.InitProducerIDRequest); ok && init.TransactionTimeoutMillis > 3_000 {
					return initResponse(50) // INVALID_TRANSACTION_TIMEOUT
				}
				return nil
			}
		})
		m := b.exactly(takeOverSteps, func(c *Config) { c.TransactionTimeout = 3 * time.Second })
		if _, err := m.TakeOver(t.Context(), one); err != nil {
			t.Error(err)
		}
		if !b.model.initialised("g-" + former) {
			t.Error("the former owner is not fenced")
		}
	})
}

// The right that is missing is said in one sentence, once, and the take-overs go on.
func TestARefusedFenceIsSaidOnce(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		for p := range int32(4) {
			b.model.offsets[tp("orders", p)] = committed{0, claimOf(t, fmt.Sprintf("former-%d", p))}
		}
		var log lines
		m := b.exactly(takeOverSteps, func(c *Config) { c.Logger = log.logger() })
		b.model.set(func() { b.model.denied = true })
		for p := range int32(4) {
			if _, err := m.TakeOver(t.Context(), Task{"orders", p}); err != nil {
				t.Fatal(err)
			}
		}
		if n := log.with("grant Write to User:model"); n != 1 {
			t.Errorf("said %d times: %v", n, log.all)
		}
		if log.with(`a prefixed ACL on "g-"`) != 1 {
			t.Errorf("which right would do is not said: %v", log.all)
		}
	})
}

// A producer that may not be initialised is refused in words; one that could not be is begun again.
func TestAProducerThatCannotBegin(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		failures := []error{errors.New("no answer"), &kafka.AccessError{Code: 53, Principal: "User:p", Resource: "transactional id", Name: "g-x", Operation: "Write"}, nil}
		calls := 0
		m := b.start(func(c *Config) {
			c.Guarantee = ExactlyOnce
			c.Begin = func(context.Context, string) error { calls++; return failures[calls-1] }
		})
		m.Join(orders(4))
		pass(time.Second)
		_, err := m.TakeOver(t.Context(), one)
		if err == nil || !strings.Contains(err.Error(), "no answer") {
			t.Errorf("got %v", err)
		}
		var refused *RefusedError
		if _, err = m.TakeOver(t.Context(), one); !errors.As(err, &refused) || !strings.Contains(refused.Message, "User:p") {
			t.Errorf("got %v", err)
		}
		if b.model.count("OffsetCommit") != 0 {
			t.Error("a claim is written whose producer is not initialised")
		}
		for range 3 {
			if _, err = m.TakeOver(t.Context(), one); err != nil {
				t.Error(err)
			}
		}
		if calls != 3 {
			t.Errorf("begun %d times", calls)
		}
	})
}

// What a take-over waits for is told, and told again after something else was waited for; and that it is over.
func TestWhatATakeOverWaitsForIsTold(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.model.offsets[tp("orders", 1)] = committed{0, claimOf(t, former)}
		p := b.model.newProducer("g-former")
		p.produce("g-counts-changelog", 1)
		b.model.set(func() { b.model.hold = true })
		m := b.exactly(takeOverSteps)
		result := make(chan error, 1)
		go func() { _, err := m.TakeOver(t.Context(), one); result <- err }()
		pass(5 * time.Second)
		if e := m.last(t, "waiting"); e.code != codeRebalance || !strings.Contains(e.text, "g-former") || !strings.Contains(e.text, "orders/1") {
			t.Errorf("told %+v", e)
		}
		b.model.set(func() { b.model.down = errDown })
		pass(5 * time.Second)
		if e := m.last(t, "waiting"); e.code != codeUnreachable {
			t.Errorf("told %+v", e)
		}
		b.model.set(func() { b.model.down = nil })
		pass(3 * time.Second)
		if e := m.last(t, "waiting"); e.code != codeRebalance {
			t.Errorf("told %+v", e)
		}
		b.model.markers()
		pass(3 * time.Second)
		if err := <-result; err != nil {
			t.Error(err)
		}
		if e := m.last(t, "waiting"); e.code != codeOK {
			t.Errorf("told %+v", e)
		}
	})
}

// A refused take-over of the group's offsets names the right.
func TestARefusedGroupIsSaidInWords(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		m := b.joined()
		b.model.set(func() {
			b.model.answer = func(req kmsg.Request) kmsg.Response {
				if _, ok := req.(*kmsg.OffsetFetchRequest); !ok {
					return nil
				}
				resp := kmsg.NewPtrOffsetFetchResponse()
				resp.ErrorCode = 30
				return resp
			}
		})
		var refused *RefusedError
		if _, err := m.TakeOver(t.Context(), one); !errors.As(err, &refused) || !strings.Contains(refused.Message, "grant Read to User:model") {
			t.Errorf("got %v", err)
		}
	})
}
