// Command restore compares how fast a table is made whole from its changelog: the sidecar and the
// Python client into a dict, a tuned confluent-kafka loop into a dict, and a Kafka Streams
// application into its in-memory store; the sidecar and the Node client into a Map, and a tuned
// kafkajs loop into a Map.
//
//	go run ./bench/restore -brokers 127.0.0.1:9092
//
// It fills one changelog per variant if it is not there (2,000,000 records, 200,000 keys of 14 bytes
// updated 10 times each in random order, JSON values of 110 bytes, batches of 500 records, not
// compacted), then restores it in every way, every record, the ways taking turns, each run in a
// fresh process. The variants are none (not compressed, 1 partition) and lz4 (4 partitions).
//
// The window is the same for all: from the moment when the process is ready (connected, it knows
// which log to read and has its partitions) until the table is whole. Starting and joining the group are outside.
//
//	pillion          bin/pillion with worker.py as its child: the event Assigned to the event Restored of all tasks
//	confluent-kafka  confluent.py: assign() to the last message in the dict
//	kafka-streams    streams/: StateRestoreListener, first onRestoreStart to last onRestoreEnd
//	pillion-node     as pillion, with bench/node/restore/client.js as the child
//	kafkajs          bench/node/restore/kafkajs.js: the group is joined to the last message in the Map
//
// INVARIANT: a figure is printed only when every run of every way had exactly the table that was
// written, by a digest over all keys and values, and when no peer looks like a straw man (peers.go).
//
// A run begins when the machine is quiet, is repeated when others used the machine during it, and counts
// only when there are not enough undisturbed ones. INVARIANT: this is decided by what others used, not by the figure.
//
// A line "BENCH restore/none/vs-kafka-streams 3.5 x" says how many times as many records per second
// the sidecar restores, by the medians; "BENCH restore/none/cpu/vs-..." the same for records per CPU second,
// sidecar included. "BENCH restore/none/node/vs-kafkajs" is the same of the two in Node.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pillion/pillion/bench/internal/machine"
)

var (
	brokers  = flag.String("brokers", "127.0.0.1:9092", "addresses of the broker, joined by commas")
	records  = flag.Int("records", 2_000_000, "records of a changelog")
	keys     = flag.Int("keys", 200_000, "keys of a changelog; records are a multiple of them")
	rounds   = flag.Int("rounds", 5, "runs of each way")
	only     = flag.String("variants", "none,lz4", "variants to run")
	wanted   = flag.String("ways", "pillion,confluent-kafka,kafka-streams,pillion-node,kafkajs", "ways to run; ratios need them all")
	python   = flag.String("python", ".venv/bin/python", "Python with the client and confluent-kafka")
	sidecar  = flag.String("sidecar", "bin/pillion", "the sidecar")
	quiet    = flag.Float64("quiet", 0.2, "repeat a run during which others, the broker with them, used more than this share of the machine")
	waits    = flag.Duration("wait", 10*time.Minute, "how long a variant waits for a quiet machine and repeats such runs before they count anyway")
	unproven = flag.Bool("unproven", false, "print figures even when a peer looks like a straw man: for trying with few records")
	verbose  = flag.Bool("v", false, "show what the processes say")
)

// variant is one changelog.
type variant struct {
	name       string // its codec
	partitions int
}

var variants = []variant{{"none", 1}, {"lz4", 4}}

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench/restore: ")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	if *records%*keys != 0 {
		return fmt.Errorf("-records %d is not a multiple of -keys %d", *records, *keys)
	}
	ways, err := prepare(ctx, strings.Split(*wanted, ","))
	if err != nil {
		return err
	}
	for _, v := range variants {
		if !slices.Contains(strings.Split(*only, ","), v.name) {
			continue
		}
		if err := compare(ctx, v, ways); err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
	}
	return nil
}

// compare measures all ways on one changelog and prints the figures.
func compare(ctx context.Context, v variant, ways []way) error {
	l := newChangelog(v)
	if err := l.fill(ctx); err != nil {
		return fmt.Errorf("fill %s: %w", l.topic(), err)
	}
	runs, p := map[string][]figures{}, machine.Patience{Until: time.Now().Add(*waits)}
	for round := range *rounds {
		for i := range ways {
			w := ways[(i+round)%len(ways)] // nobody always follows the same one
			f, err := w.undisturbed(ctx, l, p, func(f figures) {
				fmt.Printf("%-4s round %d  %-15s %s: repeated\n", v.name, round+1, w.name, f)
			})
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", w.name, round+1, err)
			}
			fmt.Printf("%-4s round %d  %-15s %s\n", v.name, round+1, w.name, f)
			runs[w.name] = append(runs[w.name], f)
		}
	}
	return report(v, ways, runs)
}

// report prints the medians and ratios unless a peer's figure cannot be believed.
func report(v variant, ways []way, runs map[string][]figures) error {
	speed, cpu := map[string]float64{}, map[string]float64{} // records per second, CPU seconds per million
	for _, w := range ways {
		all, quiet := counting(runs[w.name])
		if !quiet {
			fmt.Printf("%-4s %s was disturbed in most runs: the machine was not quiet, the ratios are not to be trusted\n", v.name, w.name)
		}
		speed[w.name] = median(all, figures.speed)
		cpu[w.name] = median(all, func(f figures) float64 { return (f.CPU + f.SidecarCPU) / f.millions() })
		fmt.Printf("%-4s median of %d  %-15s %6.3f M records/s (%.3f to %.3f)  %.2f + %.2f CPU s per M records  %.0f + %.0f MB\n",
			v.name, len(all), w.name, speed[w.name]/1e6,
			slices.MinFunc(all, bySpeed).speed()/1e6, slices.MaxFunc(all, bySpeed).speed()/1e6,
			median(all, func(f figures) float64 { return f.CPU / f.millions() }),
			median(all, func(f figures) float64 { return f.SidecarCPU / f.millions() }),
			median(all, func(f figures) float64 { return f.RSS }),
			median(all, func(f figures) float64 { return f.SidecarRSS }))
	}
	if err := believable(v.name, speed); err != nil {
		if !*unproven {
			return err
		}
		fmt.Printf("%-4s not to be believed: %v\n", v.name, err)
	}
	for _, w := range ways {
		name := w.name
		if name == pillion {
			name = "records"
		}
		fmt.Printf("BENCH restore/%s/%s %.3f Mrec/s\n", v.name, name, speed[w.name]/1e6)
	}
	for _, our := range ours {
		name := v.name
		if our == pillionNode {
			name += "/node"
		}
		for _, peer := range peers[our] {
			if speed[our] > 0 && speed[peer] > 0 {
				fmt.Printf("BENCH restore/%s/vs-%s %.2f x\n", name, peer, speed[our]/speed[peer])
				fmt.Printf("BENCH restore/%s/cpu/vs-%s %.2f x\n", name, peer, cpu[peer]/cpu[our])
			}
		}
	}
	return nil
}

func bySpeed(a, b figures) int {
	if a.speed() < b.speed() {
		return -1
	}
	return 1
}

func median(all []figures, of func(figures) float64) float64 {
	values := make([]float64, len(all))
	for i, f := range all {
		values[i] = of(f)
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}
