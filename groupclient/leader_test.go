package groupclient

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// claimsAt writes claims beside the positions of a source.
func (b *bench) claimsAt(topic string, partitions int32, c claim) {
	text, err := c.encode()
	if err != nil {
		b.t.Fatal(err)
	}
	for p := range partitions {
		b.model.offsets[tp(topic, p)] = committed{0, text}
	}
}

// withTable is orders with another table.
func withTable(changelog string) Prepared {
	p := orders(4)
	p.Sets[0].Tables = append(p.Sets[0].Tables, PreparedTable{Name: "more", Topic: changelog})
	return p
}

// Members that declare the same need no claims: nothing is read for a plan.
func TestEqualDeclarationsReadNoClaims(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		for range 3 {
			b.start().Join(orders(4))
			pass(time.Second)
		}
		if n := b.model.count("OffsetFetch"); n != 0 {
			t.Errorf("%d OffsetFetch", n)
		}
	})
}

// A table that the claims name goes only to members that declare it. Once nobody does, the tasks are free.
func TestATableThatIsClaimedWaitsForItsMembers(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.model.topic("more-log", 4, 3)
		b.claimsAt("orders", 4, claim{Incarnation: "gone", Guarantee: AtLeastOnce,
			Sources: map[string]string{"orders": shortID([16]byte{1})},
			Tables:  map[string]string{"g-counts-changelog": shortID([16]byte{2}), "more-log": shortID([16]byte{3})}})
		old := b.start()
		old.Join(orders(4))
		pass(time.Second)
		if a := old.last(t, "assigned").given; len(a.Active) != 4 {
			t.Fatalf("nobody declares the table, and the old member has %v", a.Active)
		}
		newer := b.start()
		newer.Join(withTable("more-log"))
		pass(time.Second)
		if a := old.last(t, "assigned").given; len(a.Active) != 0 {
			t.Errorf("the old member is given %v", a.Active)
		}
		old.Release(old.Owned()...)
		pass(time.Second)
		if a := newer.last(t, "assigned").given; len(a.Active) != 4 {
			t.Errorf("the newer member has %v", a.Active)
		}
		if n := b.model.count("OffsetFetch"); n == 0 || n > 4 {
			t.Errorf("%d OffsetFetch", n)
		}
		newer.stop()
		pass(30 * time.Second)
		if a := old.last(t, "assigned").given; len(a.Active) != 4 {
			t.Errorf("after the newer member has died the old one has %v", a.Active)
		}
	})
}

// Without its claims no plan is made: a table might get a hole.
func TestClaimsThatCannotBeReadAreWaitedFor(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.model.topic("more-log", 4, 3)
		m := b.joined()
		b.model.set(func() {
			b.model.answer = func(req kmsg.Request) kmsg.Response {
				if _, ok := req.(*kmsg.OffsetFetchRequest); !ok {
					return nil
				}
				resp := kmsg.NewPtrOffsetFetchResponse()
				resp.ErrorCode = 14
				return resp
			}
		})
		other := b.start()
		other.Join(withTable("more-log"))
		pass(10 * time.Second)
		if other.has("assigned") || m.has("lost") || len(m.Owned()) != 4 {
			t.Errorf("%s\n%s", m.string(), other.string())
		}
		b.model.set(func() { b.model.answer = nil })
		pass(5 * time.Second)
		other.last(t, "assigned")
	})
}

// What waits is said once, and once more when it is over.
func TestWhatWaitsIsSaidOnce(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.model.topic("returns", 4, 3)
		var lines strings.Builder
		logger := hclog.New(&hclog.LoggerOptions{Output: &lines, Level: hclog.Info})
		logged := func(c *Config) { c.Logger = logger }
		wide := orders(4)
		wide.Sets[0].Sources = []string{"orders", "returns"}
		old := b.start(logged)
		old.Join(orders(4))
		pass(time.Second)
		newer := b.start(logged)
		newer.Join(wide)
		pass(time.Second)
		for range 3 {
			m := b.start(logged)
			m.Join(wide)
			pass(time.Second)
			_ = m.Leave(t.Context())
			pass(time.Second)
		}
		waits := `source "returns" of set "orders,returns" waits at `
		var said []string
		for line := range strings.SplitSeq(lines.String(), "\n") {
			if strings.Contains(line, waits) && !strings.Contains(line, "no longer") {
				_, words, _ := strings.Cut(line, waits)
				said = append(said, words)
			}
		}
		if len(said) == 0 || len(slices.Compact(slices.Clone(said))) != len(said) {
			t.Errorf("said %q", said)
		}
		old.Join(wide)
		pass(5 * time.Second)
		if !strings.Contains(lines.String(), "no longer: "+waits) {
			t.Errorf("never over:\n%s", lines.String())
		}
	})
}
