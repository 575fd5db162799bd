//go:build kafka

package journeys

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// noGap is the longest that a task which stays where it is may be without a processed record while
// others come and go, at a steady thousand records a second and partition.
const noGap = 250 * time.Millisecond

// Two to four pairs over four tasks, in and out, twenty times. Tasks that do not move go on.
func TestOthersComeAndGo(t *testing.T) { // alone: what it measures is time
	g := newGang(t, oneBroker(t), 4)
	g.timed = true
	stop := g.steady(1000)
	in := []string{"a", "b"}
	g.join(in...)
	g.settled(in...)
	g.flowing(4000)
	largest := time.Duration(0)
	for change := range 20 {
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
		for _, name := range in {
			for _, p := range owned[name] {
				if !slices.Contains(g.owns(name), p) {
					continue // it has moved
				}
				if gap := g.gap(name, p, from); gap > largest {
					largest = gap
					t.Logf("change %d: task %d stays at %s, largest gap %v", change+1, p, name, gap.Round(time.Millisecond))
				}
			}
		}
	}
	t.Logf("largest gap of a task that stays, in 20 joins and leaves: %v", largest.Round(time.Millisecond))
	if largest > noGap {
		t.Errorf("largest gap %v, more than %v", largest, noGap)
	}
	stop()
	g.check()
	g.end(in...)
	g.sound()
}

// gap is the longest time between two batches of a partition at one worker of which the second came after a
// moment.
func (g *gang) gap(name string, partition int64, from time.Time) (largest time.Duration) {
	g.t.Helper()
	var last time.Time
	for _, e := range g.workers[name].since(0, func(e entry) bool { return e.is("commit") && e.num("partition") == partition }) {
		at := e.at()
		if !last.IsZero() && !at.Before(from) {
			largest = max(largest, at.Sub(last))
		}
		last = at
	}
	return largest
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
		const every = 10 * time.Millisecond
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
