package counting

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pillion/pillion/bench/internal/machine"
)

// enough undisturbed rounds make a median without the others.
const enough = 3

// Rounds are runs: what each way did in each round.
type Rounds map[string][]Figures

// compare runs all ways in each round; nobody always follows the same one.
func (o *Options) compare(ctx context.Context, j Job, c *cluster, ways []Way) (Rounds, error) {
	runs, p := Rounds{}, machine.Patience{Until: time.Now().Add(o.Wait)}
	for round := range o.Rounds {
		for i := range ways {
			w := ways[(i+round)%len(ways)]
			for {
				if err := p.Wait(ctx, o.Quiet); err != nil {
					return nil, err
				}
				f, err := w.measure(ctx, o, j, c)
				if err != nil {
					return nil, fmt.Errorf("%s, round %d: %w", w.Name, round+1, err)
				}
				f.disturbed = f.elsewhere > o.Quiet // it is not asked what the figure was
				again := f.disturbed && p.Left()
				fmt.Printf("round %d  %-36s %s%s\n", round+1, w.Name, f, map[bool]string{true: ": repeated"}[again])
				if !again {
					runs[w.Name] = append(runs[w.Name], f)
					break
				}
			}
		}
	}
	return runs, nil
}

// Report prints the medians of each way, and its figure under the name of the bench.
func (r Rounds) Report(bench string, ways []Way) {
	fmt.Println()
	for _, w := range ways {
		all := r[w.Name]
		speeds := each(all, Figures.Speed)
		fmt.Printf("%-36s median of %d: %7.0f records/s (%.0f to %.0f)  %.0f records per CPU s with the broker's\n",
			w.Name, len(all), median(speeds), slices.Min(speeds), slices.Max(speeds), median(each(all, Figures.PerCPU)))
	}
	for _, w := range ways {
		fmt.Printf("BENCH %s/%s %.0f records/s\n", bench, w.Name, median(each(r[w.Name], Figures.Speed)))
	}
}

// Line is a figure that compares: a BENCH line made of the median over the rounds, or none when one of the ways was not run.
// It is the ratio of one way to the best of the others, round by round: the machine drifts by more than what is looked for,
// but less within a round.
func (r Rounds) Line(format, a string, figure func(Figures) float64, others ...string) (lines []string) {
	return r.LineOf(format, func(ratio float64) float64 { return ratio }, a, figure, others...)
}

// LineOf is a line of what is made of each ratio.
func (r Rounds) LineOf(format string, of func(ratio float64) float64, a string, figure func(Figures) float64, others ...string) (lines []string) {
	ratios, disturbed := r.paired(a, figure, others...)
	if len(ratios) == 0 {
		return nil
	}
	if disturbed > 0 {
		lines = append(lines, fmt.Sprintf("the next figure is of %d rounds, %d of them disturbed", len(ratios), disturbed))
	}
	return append(lines, fmt.Sprintf(format, median(each(ratios, of))))
}

// paired is the ratio of one way to the best of the others, round by round. Rounds that were disturbed count only when there
// are not enough others; how many of them count is told.
func (r Rounds) paired(a string, figure func(Figures) float64, others ...string) (ratios []float64, disturbed int) {
	var calm, all []float64
	for i, mine := range r[a] {
		best, undisturbed := 0.0, !mine.disturbed
		for _, b := range others {
			if i >= len(r[b]) {
				return nil, 0
			}
			best = max(best, figure(r[b][i]))
			undisturbed = undisturbed && !r[b][i].disturbed
		}
		ratio := figure(mine) / best
		all = append(all, ratio)
		if undisturbed {
			calm = append(calm, ratio)
		}
	}
	if len(calm) >= min(enough, len(all)) {
		return calm, 0
	}
	return all, len(all) - len(calm)
}

func each[F, T any](all []F, of func(F) T) (list []T) {
	for _, f := range all {
		list = append(list, of(f))
	}
	return list
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
