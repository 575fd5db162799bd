//go:build kafka

package journeys

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// noGap is the longest that a task which stays where it is should be without a processed record while
// others come and go, at a steady thousand records a second and partition. Where broker, feed, four workers
// and their sidecars share two cores the machine itself takes that long now and then: what lies above is
// told, with what was said meanwhile. A rebalance that stops the group shows as seconds, and fails.
const (
	noGap   = 250 * time.Millisecond
	stopped = time.Second
)

// warmUp is how many changes come before: a broker that has just started takes hundreds of milliseconds
// for its first rebalance, whatever its clients do. They are printed, and not counted.
const warmUp = 2

// Two to four pairs over four tasks, in and out, twenty times. Tasks that do not move go on.
func TestOthersComeAndGo(t *testing.T) { // alone: what it measures is time
	g := newGang(t, oneBroker(t), 4, "--log-level", "info")
	g.timed = true
	stop := g.steady(1000)
	in := []string{"a", "b"}
	g.join(in...)
	g.settled(in...)
	g.flowing(4000)
	largest := time.Duration(0)
	for change := -warmUp; change < 20; change++ {
		from := time.Now()
		owned := map[string][]int64{}
		for _, name := range in {
			owned[name] = g.owns(name)
		}
		if len(in) < 4 && (len(in) == 2 || change%3 == 0) {
			name := []string{"a", "b", "c", "d"}[slices.IndexFunc([]string{"a", "b", "c", "d"}, func(n string) bool { return !slices.Contains(in, n) })]
			g.join(name)
			in = append(in, name)
		} else {
			g.end(in[0])
			in = in[1:]
		}
		g.settled(in...)
		g.flowing(4000) // a second of it
		gap := g.longest(in, owned, from)
		t.Logf("change %d: %d pairs, largest gap of a task that stays %v", change+1, len(in), gap.Round(time.Millisecond))
		if change >= 0 {
			largest = max(largest, gap)
		}
	}
	t.Logf("largest gap of a task that stays, in 20 joins and leaves: %v", largest.Round(time.Millisecond))
	if largest > stopped {
		t.Errorf("largest gap %v, more than %v", largest, stopped)
	}
	stop()
	g.check()
	g.end(in...)
	g.sound()
}

// longest is the largest gap of the tasks that are where they were.
func (g *gang) longest(in []string, owned map[string][]int64, from time.Time) (largest time.Duration) {
	g.t.Helper()
	for _, name := range in {
		for _, p := range owned[name] {
			if slices.Contains(g.owns(name), p) {
				gap, at := g.gap(name, p, from)
				if gap > noGap {
					g.t.Logf("task %d at %s stood still for %v:\n%s", p, name, gap.Round(time.Millisecond), g.around(name, at, at.Add(gap)))
				}
				largest = max(largest, gap)
			}
		}
	}
	return largest
}

// gap is the longest time between two batches of a partition at one worker of which the second came after a
// moment.
func (g *gang) gap(name string, partition int64, from time.Time) (largest time.Duration, began time.Time) {
	g.t.Helper()
	var last time.Time
	for _, e := range g.workers[name].since(0, func(e entry) bool { return e.is("commit") && e.num("partition") == partition }) {
		at := e.at()
		if !last.IsZero() && !at.Before(from) && at.Sub(last) > largest {
			largest, began = at.Sub(last), last
		}
		last = at
	}
	return largest, began
}

// around is what a pair said between two moments.
func (g *gang) around(name string, from, to time.Time) string {
	var b strings.Builder
	for _, e := range g.pairs[name].since(0, func(entry) bool { return true }) {
		at := e.at()
		if logged, err := time.Parse("2006-01-02T15:04:05.000Z0700", e.str("@timestamp")); err == nil {
			at = logged
		}
		if !at.Before(from.Add(-20*time.Millisecond)) && !at.After(to.Add(20*time.Millisecond)) {
			fmt.Fprintf(&b, "    %s %s\n", at.Format("05.000"), e.text)
		}
	}
	return b.String()
}

// steady produces so many records a second to each partition until stop.
func (g *gang) steady(rate int) (stop func()) {
	g.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(g.addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		g.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	var failed error
	done.Go(func() {
		defer cl.Close()
		const every = 50 * time.Millisecond // 10 would fill two cores by itself, and measure that
		tick := time.NewTicker(every)
		defer tick.Stop()
		begin, n := time.Now(), 0
		for ctx.Err() == nil {
			due := int(time.Since(begin).Seconds() * float64(rate*int(g.partitions)))
			for ; n < due; n++ {
				r := g.record(n)
				cl.Produce(context.Background(), &kgo.Record{Topic: g.in, Partition: r.Partition, Key: r.Key, Value: r.Value}, func(_ *kgo.Record, err error) {
					if err != nil {
						failed = err
					}
				})
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		if err := cl.Flush(context.Background()); err != nil {
			failed = err
		}
	})
	end := func() { cancel(); done.Wait() }
	g.t.Cleanup(end)
	return func() {
		end()
		if failed != nil {
			g.t.Fatalf("feed the job: %v", failed)
		}
	}
}
