//go:build kafka

package journeys

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
)

// The limits of these journeys. They run one after the other: what they measure is time.
const (
	grace   = 2 * time.Second
	timeout = 3 * time.Second
	slack   = 2 * time.Second // what a take-over may take beyond grace or session timeout
	busy    = 3 * time.Second // and beyond that, before it counts as a fault: what a machine at its limit takes
)

var quick = []string{"--worker-grace", grace.String(), "--session-timeout", timeout.String(), "--heartbeat-interval", "300ms"}

// takenOver waits until others go on with these partitions after the moment. It checks how long that took,
// and that no more was replayed than what the copy lacked then.
func (g *gang) takenOver(at time.Time, within time.Duration, partitions []int64, others ...string) {
	g.t.Helper()
	longest, replayed, lacked := time.Duration(0), 0, 0
	if len(partitions) == 0 {
		g.t.Fatal("who died had nothing, so that nothing is shown")
	}
	for _, p := range partitions {
		name, took := g.firstAfter(at, p, others)
		longest = max(longest, took)
		if took > within {
			g.t.Logf("OVER THE AIM: partition %d was without an owner for %v, more than %v", p, took, within)
		}
		if took > within+busy {
			g.t.Errorf("partition %d was without an owner for %v, more than %v", p, took, within+busy)
		}
		again, most := g.replayed(name, p, at)
		if again > most {
			g.t.Errorf("%d records of partition %d were replayed at %s, whose copy lacked %d", again, p, name, most)
		}
		replayed, lacked = replayed+again, lacked+most
	}
	g.t.Logf("%d tasks taken over, the last after %v; %d records replayed, the copies lacked %d",
		len(partitions), longest.Round(time.Millisecond), replayed, lacked)
}

// firstAfter waits for the first commit of a partition by one of these pairs after the moment.
func (g *gang) firstAfter(at time.Time, partition int64, pairs []string) (name string, took time.Duration) {
	g.t.Helper()
	until(g.t, fmt.Sprintf("one of %v goes on with partition %d", pairs, partition), func() bool {
		for _, name = range pairs {
			for _, e := range g.workers[name].since(0, func(e entry) bool {
				return e.is("commit", "ok", true) && e.num("partition") == partition && e.at().After(at)
			}) {
				took = e.at().Sub(at)
				return true
			}
		}
		return false
	})
	return name, took
}

// replayed is how many records of the changelog the pair's worker applied from the moment on until it had
// the task, and how many its copy lacked at the moment: those from its position on that are older than its
// own first one.
func (g *gang) replayed(name string, partition int64, at time.Time) (records, lacked int) {
	g.t.Helper()
	task, position := fmt.Sprintf("job/%d", partition), int64(0)
	began := g.workers[name].since(0, func(e entry) bool { return e.is("active") && e.str("task") == task && e.at().After(at) })
	if len(began) == 0 {
		g.t.Fatalf("%s works on %s and never had it", name, task)
	}
	for _, e := range g.workers[name].since(0, func(e entry) bool { return e.is("copied") && e.str("task") == task }) {
		if !e.at().After(at) {
			position = max(position, e.num("next"))
		} else if e.at().Before(began[0].at()) {
			records += int(e.num("records"))
		}
	}
	for _, r := range kafkatest.ReadAll(g.t, g.addrs, g.changelog(), true) {
		if int64(r.Partition) == partition && r.Offset >= position && r.Timestamp.Before(began[0].at()) {
			lacked++
		}
	}
	return records, lacked
}

// A worker is killed and does not come back. A sidecar that has started it hands over at once; one that
// has not waits for the grace. Others take over.
func TestWorkerDiesForGood(t *testing.T) {
	for name, within := range map[string]time.Duration{"pair": slack, "apart": grace + slack} {
		t.Run(name, func(t *testing.T) {
			workerDiesForGood(t, name == "apart", within)
		})
	}
}

func workerDiesForGood(t *testing.T, apart bool, within time.Duration) {
	g := newGang(t, oneBroker(t), 4, quick...)
	g.timed = true
	f := g.feed(0)
	if apart {
		g.joinApart("a")
	} else {
		g.join("a")
	}
	g.join("b", "c")
	g.settled("a", "b", "c")
	g.flowing(2000)

	had := g.owns("a")
	at := g.killWorker("a")
	g.takenOver(at, within, had, "b", "c")
	g.settled("b", "c")
	f.end()
	g.check()
	if apart {
		g.end("a")
	} else if code := g.pairs["a"].exit(); code != 128+9 {
		t.Errorf("exit code %d, the worker was killed", code)
	}
	g.end("b", "c")
	g.sound()
}

// A sidecar is killed, and its worker with it: the session timeout is all that anybody waits for.
func TestPairDies(t *testing.T) {
	g := newGang(t, oneBroker(t), 4, quick...)
	g.timed = true
	f := g.feed(0)
	g.join("a", "b", "c")
	g.settled("a", "b", "c")
	g.flowing(2000)

	had := g.owns("a")
	at := time.Now()
	g.killPair("a")
	g.takenOver(at, timeout+slack, had, "b", "c")
	g.settled("b", "c")
	f.end()
	g.checkButFor(g.inFlight("a"))
	g.end("b", "c")
	g.sound()
}

// killPair is SIGKILL to a sidecar and its worker at once.
func (g *gang) killPair(names ...string) {
	g.t.Helper()
	for _, name := range names {
		g.killWorker(name)
		g.pairs[name].kill()
	}
}

// inFlight are the inputs that were not known to be committed at some killed pairs: what may come once more.
func (g *gang) inFlight(names ...string) func(kafkatest.Record) bool {
	type span struct{ from, to int64 }
	spans := map[int32][]span{}
	for _, name := range names {
		for p := range g.partitions {
			last := int64(-1)
			for _, e := range g.workers[name].since(0, func(e entry) bool { return e.is("commit", "ok", true) && e.num("partition") == int64(p) }) {
				last = max(last, e.num("next"))
			}
			if last >= 0 {
				spans[p] = append(spans[p], span{last, last + 5000})
			}
		}
	}
	return func(r kafkatest.Record) bool {
		return slices.ContainsFunc(spans[r.Partition], func(s span) bool { return s.from <= r.Offset && r.Offset < s.to })
	}
}

// The leader of the group dies, with its worker.
func TestLeaderDies(t *testing.T) {
	g := newGang(t, oneBroker(t), 4, quick...)
	g.timed = true
	f := g.feed(0)
	g.join("a", "b", "c")
	g.settled("a", "b", "c")
	g.flowing(2000)

	leader := g.leader("a", "b", "c")
	others := slices.DeleteFunc([]string{"a", "b", "c"}, func(name string) bool { return name == leader })
	had := g.owns(leader)
	at := time.Now()
	g.killPair(leader)
	g.takenOver(at, timeout+slack, had, others...)
	g.settled(others...)
	f.end()
	g.checkButFor(g.inFlight(leader))
	g.end(others...)
	g.sound()
}

// leader is the pair that made the latest plan.
func (g *gang) leader(names ...string) (leader string) {
	g.t.Helper()
	newest := int64(-1)
	for _, name := range names {
		for _, e := range g.pairs[name].since(0, func(e entry) bool { return e.is("assigned") && e.fields["leader"] == true }) {
			if e.num("generation") > newest {
				newest, leader = e.num("generation"), name
			}
		}
	}
	if leader == "" {
		g.t.Fatalf("none of %s says that it is the leader", strings.Join(names, ", "))
	}
	return leader
}

// Two of four die at once. Each task has one copy, which may have died with it; nothing is lost.
func TestTwoOfFourDie(t *testing.T) {
	g := newGang(t, oneBroker(t), 4, append([]string{"--num-standby-replicas", "2"}, quick...)...)
	g.timed = true
	f := g.feed(0)
	g.join("a", "b", "c", "d")
	until(t, "all share the tasks", func() bool {
		return g.metricOf("shadowing") == 8 && g.metricOf("running") == 4 && len(g.owns("a"))*len(g.owns("b")) == 1
	})
	g.flowing(2000)

	had := append(g.owns("a"), g.owns("b")...)
	at := time.Now()
	g.killPair("a", "b")
	g.takenOver(at, timeout+slack, had, "c", "d")
	f.end()
	g.checkButFor(g.inFlight("a", "b"))
	g.end("c", "d")
	g.sound()
}

// metricOf sums the tasks in a state over all living pairs.
func (g *gang) metricOf(state string) (sum float64) {
	g.t.Helper()
	for _, s := range g.pairs {
		select {
		case <-s.ended:
		default:
			sum += s.metric("pillion_tasks", `state="`+state+`"`)
		}
	}
	return sum
}

// The sidecar alone is killed; its worker finds nobody. Others take over.
func TestSidecarDiesAlone(t *testing.T) {
	g := newGang(t, oneBroker(t), 4, quick...)
	g.timed = true
	f := g.feed(0)
	g.join("a", "b")
	g.settled("a", "b")
	g.flowing(2000)

	had := g.owns("b")
	at := time.Now()
	g.pairs["b"].kill()
	g.takenOver(at, timeout+slack, had, "a")
	inFlight := g.inFlight("b") // of the one that was killed, before another has its name
	g.join("b")                 // and comes back: its disk is still there
	g.settled("a", "b")
	f.end()
	g.checkButFor(inFlight)
	g.end("a", "b")
	g.sound()
}
