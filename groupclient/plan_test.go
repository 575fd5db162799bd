package groupclient

import (
	"strings"
	"testing"
	"time"
)

// INVARIANT: a topic of which nothing is known is not planned as one without partitions.
func TestALeaderThatCannotAskForPartitionsTakesNothingAway(t *testing.T) {
	onFakeClock(t, func(t *testing.T, b *bench) {
		b.model.topic("payments", 2, 3)
		b.model.noTopics = errDown
		first := b.joined() // it knows what it declares
		if a := first.last(t, "assigned").given; len(a.Active) != 4 || !a.Leader {
			t.Fatalf("got %+v", a)
		}
		second := b.start()
		second.Join(Prepared{Group: "g", Sets: []PreparedSet{{Name: "payments", Sources: []string{"payments"}, Partitions: 2}}})
		pass(10 * time.Second)
		if first.has("lost") || len(first.Owned()) != 4 || second.has("assigned") {
			t.Errorf("first: %s\nsecond: %s", first.string(), second.string())
		}
		if w := first.last(t, "waiting"); w.code != codeRebalance || !strings.Contains(w.text, `has no plan yet: the number of partitions of topic "payments" is not known`) {
			t.Errorf("the worker is told %q", w.text)
		}
		b.model.set(func() { b.model.noTopics = nil })
		pass(3 * time.Second)
		if a := second.last(t, "assigned").given; len(a.Active) != 2 {
			t.Errorf("second: %+v", a)
		}
		if a := first.last(t, "assigned").given; len(a.Active) != 4 || first.last(t, "waiting").code != codeOK {
			t.Errorf("first: %s", first.string())
		}
	})
}
