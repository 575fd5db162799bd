// Command fetch compares the fetch path with franz-go and kafka-go: records per CPU second on a
// real broker.
//
//	go run ./bench/fetch -brokers 127.0.0.1:9092
//
// It fills one topic per codec (bench-fetch-none, -lz4, -zstd) if it is not there, then reads each in
// every mode, one process per run, the modes taking turns, and prints medians. CPU is user and
// system time of the process that reads, from its first record wanted to its last. All modes read
// committed records with checksums on:
//
//	fetch           internal/fetch, to columnar frames of 256 KiB
//	franz-go        PollFetches, looking at each record
//	franz-go+       the same, and the records put into the same frames
//	franz-go-pools  the same as franz-go, with its memory pools and each record recycled
//	kafka-go        Reader.ReadMessage, one reader per partition
//
// A line "BENCH fetch/lz4/vs-franz-go 3.5 x" says how many times as many records per CPU second
// fetch reads.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"slices"
	"strings"
)

var (
	brokers    = flag.String("brokers", "127.0.0.1:9092", "addresses of the broker, joined by commas")
	records    = flag.Int("records", 1_000_000, "records per topic")
	partitions = flag.Int("partitions", 4, "partitions per topic")
	rounds     = flag.Int("rounds", 5, "runs of each mode")
	codecs     = flag.String("codecs", "none,lz4,zstd", "codecs to compare")
	modes      = flag.String("modes", "fetch,franz-go,franz-go+,franz-go-pools,kafka-go", "modes to compare")
	batch      = flag.Int("batch", 128<<10, "bytes of a batch before compression")

	recycle = flag.Bool("recycle", true, "give frames back, as the sidecar does when they are written")

	mode    = flag.String("mode", "", "run one mode on one topic and print its figures (what the subprocesses do)")
	topic   = flag.String("topic", "", "topic of -mode")
	profile = flag.String("cpuprofile", "", "with -mode: write a CPU profile here")
	repeat  = flag.Int("repeat", 1, "with -mode: read the topic so often")
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench/fetch: ")
	flag.Parse()
	ctx := context.Background()
	if *mode != "" {
		if err := measure(ctx, *mode, *topic); err != nil {
			log.Fatal(err)
		}
		return
	}
	for codec := range strings.SplitSeq(*codecs, ",") {
		if err := compare(ctx, codec); err != nil {
			log.Fatal(err)
		}
	}
}

// figures are what one run printed.
type figures struct{ cpu, wall float64 }

func compare(ctx context.Context, codec string) error {
	name := fmt.Sprintf("bench-fetch-%s-%d-%d-%d", codec, *records, *partitions, *batch)
	if err := fill(ctx, name, codec); err != nil {
		return fmt.Errorf("fill %s: %w", name, err)
	}
	all := strings.Split(*modes, ",")
	runs := map[string][]figures{}
	for range *rounds {
		for _, m := range all {
			f, err := spawn(ctx, m, name)
			if err != nil {
				return err
			}
			runs[m] = append(runs[m], f)
		}
	}
	perCPU := map[string]float64{}
	for _, m := range all {
		cpu := median(runs[m], func(f figures) float64 { return f.cpu })
		wall := median(runs[m], func(f figures) float64 { return f.wall })
		perCPU[m] = float64(*records) / cpu
		fmt.Printf("%-5s %-14s %6.2f M records per CPU second  %6.2f M records/s\n", codec, m, perCPU[m]/1e6, float64(*records)/wall/1e6)
		fmt.Printf("BENCH fetch/%s/%s %.2f Mrec/cpu-s\n", codec, m, perCPU[m]/1e6)
	}
	for _, m := range all[1:] {
		fmt.Printf("BENCH fetch/%s/vs-%s %.2f x\n", codec, m, perCPU[all[0]]/perCPU[m])
	}
	return nil
}

func spawn(ctx context.Context, m, name string) (f figures, err error) {
	cmd := exec.CommandContext(ctx, os.Args[0], append(os.Args[1:], "-mode", m, "-topic", name)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return f, fmt.Errorf("%s on %s: %w", m, name, err)
	}
	if _, err := fmt.Sscan(string(out), &f.cpu, &f.wall); err != nil {
		return f, fmt.Errorf("%s on %s said %q: %w", m, name, out, err)
	}
	return f, nil
}

func median(all []figures, of func(figures) float64) float64 {
	values := make([]float64, len(all))
	for i, f := range all {
		values[i] = of(f)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
