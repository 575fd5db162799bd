// Command cmd runs a drill: see package drill, and docs/reliability.md.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pillion/pillion/internal/drill"
)

func main() {
	var o drill.Options
	flag.Uint64Var(&o.Seed, "seed", 1, "of the schedule")
	flag.IntVar(&o.Faults, "faults", 100, "how many faults must count; 0: no limit")
	flag.DurationVar(&o.Time, "time", 0, "end after the wave in which so much time is over; 0: no limit")
	flag.IntVar(&o.PerWave, "wave", 40, "faults of a wave; after each everything is checked")
	flag.BoolVar(&o.Mild, "mild", false, "kill and stop no sidecar: at_least_once is exact then")
	flag.BoolVar(&o.Plain, "plain", false, "past TLS, SCRAM and the proxies: only to look for a fault")
	flag.Float64Var(&o.Pace, "pace", 1, "all times are so many times longer: for a machine that is slow")
	flag.IntVar(&o.Rate, "rate", 150, "inputs a second")
	flag.IntVar(&o.Recreate, "recreate", 3, "delete the source and create it anew after each such wave; 0: never")
	flag.StringVar(&o.Binary, "binary", "", "pillion to drill; empty: it is built")
	guarantee := flag.String("guarantee", string(drill.ExactlyOnce), "exactly_once or at_least_once")
	dir := flag.String("dir", "drill-data", "for logs, history and results")
	show := flag.Bool("schedule", false, "only print the schedule's first wave")
	sum := flag.Bool("sum", false, "only add up the results of all drills in --dir")
	flag.Parse()
	o.Guarantee = drill.Guarantee(*guarantee)
	if o.Guarantee != drill.ExactlyOnce && o.Guarantee != drill.AtLeastOnce {
		fail(2, fmt.Errorf("--guarantee is %q, must be exactly_once or at_least_once", o.Guarantee))
	}
	if *show {
		fmt.Print(drill.Print(drill.Schedule(drill.Plan{Seed: o.Seed, Wave: 1, Faults: o.PerWave, Guarantee: o.Guarantee, Mild: o.Mild})))
		return
	}
	if *sum {
		text, err := drill.Sum(filepath.Join(*dir, "results.jsonl"))
		if err != nil {
			fail(2, err)
		}
		fmt.Print(text)
		return
	}
	os.Exit(run(o, *dir))
}

func run(o drill.Options, dir string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	checkout, err := filepath.Abs(".")
	if err != nil {
		fail(2, err)
	}
	root, err := filepath.Abs(dir)
	if err != nil {
		fail(2, err)
	}
	o.Checkout, o.Python, o.Out = checkout, filepath.Join(checkout, ".venv", "bin", "python"), os.Stdout
	o.Dir = filepath.Join(root, fmt.Sprintf("%s-seed-%d-%s", o.Guarantee, o.Seed, time.Now().Format("0102-150405")))
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		fail(2, err)
	}
	history, err := os.Create(filepath.Join(o.Dir, "history.jsonl"))
	if err != nil {
		fail(2, err)
	}
	defer history.Close()
	o.HistoryOut = history
	out, err := drill.Run(ctx, o)
	fmt.Printf("\n%s\n", out.Tally)
	result := drill.NewResult(o, out)
	line, _ := json.Marshal(result)
	results, openErr := os.OpenFile(filepath.Join(root, "results.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if openErr == nil && out.Waves > 0 {
		fmt.Fprintf(results, "%s\n", line)
		results.Close()
	}
	fmt.Println(result)
	if len(out.Violations) > 0 {
		fmt.Print(drill.Explain(o, out))
		return 1
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "the drill itself failed:", err)
		return 2
	}
	_ = os.RemoveAll(filepath.Join(o.Dir, "kafka"))
	return 0
}

func fail(code int, err error) {
	fmt.Fprintln(os.Stderr, "drill:", err)
	os.Exit(code)
}
