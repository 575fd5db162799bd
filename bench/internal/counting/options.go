// Package counting compares ways to count records by key: each is a program that reads a source as a group, keeps a table of
// counts and writes its changelog, and commits what it has read.
//
// The source is filled if it is not there: keys equally often in random order, values of 100 bytes, 4 partitions, batches of
// 500 records, not compressed. Each run is a fresh process and a fresh group with an empty changelog; the ways take turns.
//
// The window is the same for all and seen from outside, by what the group has committed: from the first commit after the
// warm-up, so that the start of processes and the compilation of a JVM are not counted, to the commit of the last record.
// Offsets that a transaction commits are seen when it has ended.
//
// INVARIANT: a figure is printed only when the changelog of every run, read committed, made exactly the right table, and when
// its records were written in transactions, or not, as the way says.
package counting

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"
)

// partitions of the source and of each changelog.
const partitions = 4

// Options are what a command is told about a comparison.
type Options struct {
	Brokers string // addresses, joined by commas
	Sidecar string
	Records int // warm-up included
	Warmup  int
	Keys    int
	Rounds  int
	Quiet   float64 // share of the machine that others may have had
	Wait    time.Duration
	Verbose bool
	wanted  string // names of ways, joined by commas; empty: all
}

// Flags are the options as flags of the command.
func Flags() *Options {
	o := &Options{}
	flag.StringVar(&o.Brokers, "brokers", "127.0.0.1:9092", "addresses of the broker, joined by commas")
	flag.StringVar(&o.Sidecar, "sidecar", "bin/pillion", "the sidecar")
	flag.IntVar(&o.Records, "records", 4_000_000, "records to count, warm-up included")
	flag.IntVar(&o.Warmup, "warmup", 1_000_000, "records before anything is measured")
	flag.IntVar(&o.Keys, "keys", 10_000, "keys")
	flag.IntVar(&o.Rounds, "rounds", 5, "runs of each way")
	flag.StringVar(&o.wanted, "ways", "", "ways to run, joined by commas; without it all")
	flag.Float64Var(&o.Quiet, "quiet", 0.1, "repeat a run during which others than its processes and the broker used more than this share of the machine")
	flag.DurationVar(&o.Wait, "wait", 10*time.Minute, "how long to wait for a quiet machine and to repeat such runs before they count anyway")
	flag.BoolVar(&o.Verbose, "v", false, "show what the processes say")
	return o
}

// Wanted are the ways that the command was asked for.
func (o *Options) Wanted(all []Way) (ways []Way, err error) {
	if o.wanted == "" {
		return all, nil
	}
	for name := range strings.SplitSeq(o.wanted, ",") {
		n := len(ways)
		for _, w := range all {
			if w.Name == name {
				ways = append(ways, w)
			}
		}
		if len(ways) == n {
			return nil, fmt.Errorf("there is no way %q", name)
		}
	}
	return ways, nil
}

// Compare fills the source and measures the ways.
func (o *Options) Compare(ctx context.Context, ways []Way) (Rounds, error) {
	c, err := connect(strings.Split(o.Brokers, ","))
	if err != nil {
		return nil, err
	}
	defer c.cl.Close()
	j := Job{o.Records, o.Keys, partitions}
	if err := j.fill(ctx, c); err != nil {
		return nil, fmt.Errorf("fill %s: %w", j.Topic(), err)
	}
	return o.compare(ctx, j, c, ways)
}
