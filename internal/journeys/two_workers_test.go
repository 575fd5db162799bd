//go:build kafka

package journeys

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafkatest"
)

// shares are how many partitions each member has, when all partitions are given.
func (j *job) shares(g kafkatest.Group) (shares []int) {
	j.t.Helper()
	sum := 0
	for _, m := range g.Members {
		n := 0
		var a kmsg.ConsumerMemberAssignment
		if err := a.ReadFrom(m.Assignment); err == nil {
			for _, topic := range a.Topics {
				n += len(topic.Partitions)
			}
		}
		shares = append(shares, n)
		sum += n
	}
	if g.State != "Stable" || sum != int(j.partitions) {
		return nil
	}
	return shares
}

// shared waits until so many members have all the tasks, none of them none.
func (j *job) shared(members int) {
	j.t.Helper()
	kafkatest.WaitGroup(j.t, j.addrs, j.group, func(g kafkatest.Group) bool {
		shares := j.shares(g)
		for _, n := range shares {
			if n == 0 {
				return false
			}
		}
		return len(shares) == members
	})
}

// `--workers 2`: two pairs share the tasks, and one drain ends both.
func TestTwoWorkers(t *testing.T) {
	t.Parallel()
	j := newJob(t, oneBroker(t), 4)
	f := j.feed(0)
	s := j.pair("--workers", "2", "--restart")
	j.shared(2)
	j.flowing(400)
	killChild(s)
	j.flowing(400)
	f.end()
	j.check()
	s.drain()
	j.files()
}

// `--workers 2` without --restart: a worker that is killed ends its own pair. The other goes on, takes the
// tasks, and the exit code tells at the end.
func TestOneOfTwoWorkersDies(t *testing.T) {
	t.Parallel()
	j := newJob(t, oneBroker(t), 4)
	f := j.feed(0)
	s := j.pair("--workers", "2")
	j.shared(2)
	j.flowing(400)
	killChild(s)
	j.shared(1)
	j.flowing(400)
	f.end()
	j.check()
	if code := s.stop(); code != 128+9 {
		t.Errorf("exit code %d, a worker was killed", code)
	}
}

// A pair goes and its tasks move to the other one; it comes back and takes its share in two phases:
// the other one is asked, makes its last commit, and lets go. Nothing is processed twice.
func TestPairComesBack(t *testing.T) {
	t.Parallel()
	j := newJob(t, oneBroker(t), 4)
	other := *j
	other.place = newPlace(t)
	f := j.feed(0)
	first, second := j.pair(), other.pair()
	j.shared(2)
	j.flowing(400)

	second.drain()
	j.shared(1)
	j.flowing(400)

	mark := first.mark()
	second = other.pair()
	j.shared(2)
	first.waitSince(mark, "revoking", "code", "rebalance")
	j.flowing(400)
	f.end()
	j.check()
	if n := len(first.since(0, func(e entry) bool { return e.is("lost") })); n > 0 {
		t.Errorf("%d tasks were lost, not revoked", n)
	}
	first.drain()
	second.drain()
	j.files()
}
