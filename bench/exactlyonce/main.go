// Command exactlyonce compares what exactly_once costs: the sidecar and a Python worker under both
// guarantees, and a Kafka Streams application under both, which count the same records by key.
//
//	go run ./bench/exactlyonce -brokers 127.0.0.1:9092
//
// How is told in bench/internal/counting: 4,000,000 records, 10,000 keys, 1,000,000 records of warm-up. All commit every 100 ms.
//
//	pillion/...              bin/pillion with worker.py as its child, MemoryStores
//	kafka-streams/...        streams/: groupByKey().count() in an in-memory store with its cache, 1 thread
//	kafka-streams/.../2-threads  the same with two threads
//
// A line "BENCH exactlyonce/cost-vs-at-least-once 9 %" is what exactly_once takes of the records per second, and
// "BENCH exactlyonce/vs-kafka-streams-eos 1.5 x" how many times as many the sidecar does as the better of
// Kafka Streams' exactly_once_v2: medians over the rounds of the ratio within a round.
package main

import (
	"context"
	"flag"
	"fmt"
	stdlog "log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/pillion/pillion/bench/internal/counting"
)

var (
	options  = counting.Flags()
	python   = flag.String("python", ".venv/bin/python", "Python with the client")
	settings = list("streams", "more settings of Kafka Streams, name=value,...: for trying")
)

func list(name, usage string) *[]string {
	var l []string
	flag.Func(name, usage, func(s string) error {
		l = append(l, strings.Split(s, ",")...)
		return nil
	})
	return &l
}

func main() {
	stdlog.SetFlags(0)
	stdlog.SetPrefix("bench/exactlyonce: ")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		stdlog.Fatal(err)
	}
}

func run(ctx context.Context) error {
	ways, err := options.Wanted(allWays)
	if err != nil {
		return err
	}
	if err := build(ctx); err != nil {
		return err
	}
	runs, err := options.Compare(ctx, ways)
	if err != nil {
		return err
	}
	runs.Report("exactlyonce", ways)
	for _, line := range ratios(runs) {
		fmt.Println(line)
	}
	return nil
}
