package groupclient

import (
	"errors"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
)

// fencedByRequests: who was fenced is a member again at once, under a new incarnation, which fences the old one.
func fencedByRequests(t *testing.T, addrs []string) {
	s := newStage(t, addrs, released)
	w := &watched{}
	m := s.join(takeOverSteps, w, nil)
	m.assigned(t, "the task", has(1))
	if _, err := s.take(m); err != nil {
		t.Fatal(err)
	}
	was, assigned := m.Incarnation(), count(m, "assigned")
	start := time.Now()
	m.Fenced(was, errors.New("PRODUCER_FENCED"))
	m.until(t, "another assignment", func([]event) bool { return count(m, "assigned") > assigned })
	if m.last(t, "lost").code != codeFenced || m.Incarnation() == was || len(m.Owned()) != 1 {
		t.Errorf("got %s", m.string())
	}
	t.Logf("a member again %s after the fence", time.Since(start).Round(time.Millisecond))
	if _, err := s.take(m); err != nil {
		t.Fatal(err)
	}
	if !w.initialised(TransactionalID(s.group, was)) {
		t.Error("the earlier incarnation was not fenced")
	}
	if _, c := s.stored(); c.Incarnation != m.Incarnation() {
		t.Errorf("the claim is %+v", c)
	}
}

func count(m *member, what string) (n int) {
	for _, e := range m.all() {
		if e.what == what {
			n++
		}
	}
	return n
}

func TestAFencedMemberIsBackAtOnce(t *testing.T) {
	fencedByRequests(t, kafkatest.Fake(t).Addrs())
}
