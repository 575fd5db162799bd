package main

import "github.com/pillion/pillion/bench/internal/counting"

// ratios are the lines of the figures that compare, as far as their ways were run.
func ratios(runs counting.Rounds) (lines []string) {
	cost := func(ratio float64) float64 { return 100 * (1 - ratio) }
	for _, each := range [][]string{
		runs.LineOf("BENCH exactlyonce/cost-vs-at-least-once %.1f %%", cost, pillionOnce, counting.Figures.Speed, pillionAtLeast),
		runs.LineOf("BENCH exactlyonce/cpu/cost-vs-at-least-once %.1f %%", cost, pillionOnce, counting.Figures.PerCPU, pillionAtLeast),
		runs.LineOf("BENCH exactlyonce/kafka-streams/cost-vs-at-least-once %.1f %%", cost, streamsOnce, counting.Figures.Speed, streamsAtLeast),
		runs.Line("BENCH exactlyonce/vs-kafka-streams-eos %.2f x", pillionOnce, counting.Figures.Speed, streamsOnce, streamsTwo),
		runs.Line("BENCH exactlyonce/vs-kafka-streams-eos/1-thread %.2f x", pillionOnce, counting.Figures.Speed, streamsOnce),
		runs.Line("BENCH exactlyonce/cpu/vs-kafka-streams-eos %.2f x", pillionOnce, counting.Figures.PerCPU, streamsOnce, streamsTwo),
	} {
		lines = append(lines, each...)
	}
	return lines
}
