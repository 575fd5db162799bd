// Command revoke measures how long a revoke takes to reach the worker's code while data flows as fast
// as it can.
//
//	go run ./bench/revoke
//
// The sidecar's bridge and session are the real ones, over a real socket on loopback; feeds send frames
// of 256 KiB for several tasks without an end, and one task after the other is revoked and given back. The
// worker takes 10 ms for each frame. Measured is from the news of the group to the worker's event.
//
//	revoke/p50, p99          a worker that reads its socket only between frames: what was sent before the
//	                         revoke, at most its credit, has to be taken first
//	revoke/reading/p50, p99  a worker that reads ahead, as the clients do: only the frame in hand is
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"slices"
	"time"
)

var (
	revokes = flag.Int("revokes", 200, "revokes of each kind of worker")
	take    = flag.Duration("take", 10*time.Millisecond, "what the worker takes for a frame")
	size    = flag.Int("frame", 256<<10, "bytes of a frame")
	window  = flag.Int64("window", 1<<20, "credit of the connection and of each stream")
	tasks   = flag.Int("tasks", 4, "tasks whose records flow")
	settle  = flag.Int("settle", 8, "frames to take between revokes, so that all windows are full")
	_       = flag.String("brokers", "", "not used: no Kafka takes part")
)

// longest is when a single step counts as stuck.
const longest = 30 * time.Second

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench/revoke: ")
	flag.Parse()
	for _, kind := range []struct {
		name    string
		reading bool
	}{{"revoke", false}, {"revoke/reading", true}} {
		took, err := measure(context.Background(), kind.reading)
		if err != nil {
			log.Fatal(err)
		}
		slices.Sort(took)
		for _, p := range []int{50, 99} {
			fmt.Printf("BENCH %s/p%d %.1f ms\n", kind.name, p, percentile(took, p).Seconds()*1000)
		}
		fmt.Printf("%s: %d revokes, fastest %v, slowest %v\n", kind.name, len(took), took[0].Round(time.Microsecond), took[len(took)-1].Round(time.Microsecond))
	}
}

func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[min(len(sorted)-1, (len(sorted)*p+99)/100-1)]
}

// measure revokes one task after the other.
func measure(ctx context.Context, reading bool) (took []time.Duration, err error) {
	s, err := startSidecar(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if stopped := s.stop(); err == nil {
			err = stopped
		}
	}()
	w, err := startWorker(s.server.URL(), reading)
	if err != nil {
		return nil, err
	}
	defer w.stop()
	s.give(s.all()...)
	if err := w.running(*tasks); err != nil {
		return nil, err
	}
	for i := range *revokes {
		if err := w.taken(*settle); err != nil {
			return nil, err
		}
		time.Sleep(rand.N(*take)) // anywhere within a frame
		task := i % *tasks
		began := time.Now()
		s.take(task)
		at, err := w.revoked()
		if err != nil {
			return nil, fmt.Errorf("revoke %d: %w", i, err)
		}
		took = append(took, at.Sub(began))
		if err := s.released(); err != nil {
			return nil, err
		}
		s.give(s.all()...)
		if err := w.running(1); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// wait takes the next value, or says why it did not come.
func wait[T any](from <-chan T, ended <-chan error, what string) (v T, err error) {
	select {
	case v = <-from:
		return v, nil
	case err := <-ended:
		return v, err
	case <-time.After(longest):
		return v, fmt.Errorf("%s did not come within %v", what, longest)
	}
}
