// Command node compares what it costs in Node to count records by key in a table: a worker over the
// sidecar as anyone would write it, the same by hand over the protocol-level client, and a program
// over kafkajs that does all of it alone.
//
//	go run ./bench/node -brokers 127.0.0.1:9092
//
// How is told in bench/internal/counting: 4,000,000 records, 10,000 keys, 1,000,000 records of warm-up.
// All commit every 100 ms and write a row once a commit, lz4, counts as 8 bytes.
//
//	worker   bin/pillion with count/worker.js as its child: Worker, str() to int(), MemoryStores
//	client   bin/pillion with count/client.js as its child: keyTextAt, a Map for each task, commits by hand
//	kafkajs  count/kafkajs.js: eachBatch, a Map for each partition, a producer for the changelog, commitOffsets
//
// A line "BENCH node/worker/cpu-vs-client 1.6 x" is how many times the CPU of the protocol-level program
// the worker's process uses for a record, the sidecar's left out; "BENCH node/worker/vs-kafkajs 3.5 x" is how many
// times as many records a second the worker does, and "BENCH node/worker/cpu/vs-kafkajs" the same for records per CPU
// second of all, the broker with them: medians over the rounds of the ratio within a round.
//
// The folder is an npm project, too: the JavaScript of all benchmarks. `npm ci` in it, when clients/node is built.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/pillion/pillion/bench/internal/counting"
)

const here = "bench/node"

// The ways to count.
const (
	worker  = "worker"
	client  = "client"
	kafkajs = "kafkajs"
)

var options = counting.Flags()

var ways = []counting.Way{
	{Name: worker, Command: beside("worker.js")},
	{Name: client, Command: beside("client.js")},
	{Name: kafkajs, Command: func(j counting.Job, group, _ string) []string {
		return []string{"node", here + "/count/kafkajs.js", options.Brokers, group, j.Topic(), counting.Changelog(group)}
	}},
}

// beside is a program as the child of the sidecar.
func beside(program string) func(j counting.Job, group, dir string) []string {
	return func(j counting.Job, group, _ string) []string {
		return []string{options.Sidecar, "run", "--bootstrap-servers", options.Brokers, "--group-id", group, "--log-level", "warn",
			"--processing-guarantee", "at_least_once", "--", "node", here + "/count/" + program, j.Topic(), counting.Table}
	}
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench/node: ")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	wanted, err := options.Wanted(ways)
	if err != nil {
		return err
	}
	runs, err := options.Compare(ctx, wanted)
	if err != nil {
		return err
	}
	runs.Report("node", wanted)
	for _, line := range ratios(runs) {
		fmt.Println(line)
	}
	return nil
}

// ratios are the lines of the figures that compare, as far as their ways were run.
func ratios(runs counting.Rounds) (lines []string) {
	for _, each := range [][]string{
		// Records per CPU second of the client, divided by those of the worker: the CPU of a record, the other way round.
		runs.Line("BENCH node/worker/cpu-vs-client %.2f x", client, counting.Figures.PerWorkerCPU, worker),
		runs.Line("BENCH node/worker/vs-client %.2f x", worker, counting.Figures.Speed, client),
		runs.Line("BENCH node/worker/vs-kafkajs %.2f x", worker, counting.Figures.Speed, kafkajs),
		runs.Line("BENCH node/worker/cpu/vs-kafkajs %.2f x", worker, counting.Figures.PerCPU, kafkajs),
		runs.Line("BENCH node/client/vs-kafkajs %.2f x", client, counting.Figures.Speed, kafkajs),
	} {
		lines = append(lines, each...)
	}
	return lines
}
