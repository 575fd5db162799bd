package main

import (
	"strings"
	"testing"

	"github.com/pillion/pillion/bench/internal/counting"
)

func TestRatios(t *testing.T) {
	run := func(speed int64) counting.Figures {
		return counting.Figures{Records: speed, Seconds: 1, Own: 1, Broker: 1}
	}
	r := counting.Rounds{pillionOnce: {run(90)}, pillionAtLeast: {run(100)}, streamsOnce: {run(30)}, streamsTwo: {run(60)}}
	lines := strings.Join(ratios(r), "\n")
	for _, want := range []string{
		"BENCH exactlyonce/cost-vs-at-least-once 10.0 %", "BENCH exactlyonce/vs-kafka-streams-eos 1.50 x",
		"BENCH exactlyonce/vs-kafka-streams-eos/1-thread 3.00 x",
	} {
		if !strings.Contains(lines, want) {
			t.Errorf("no line %q in\n%s", want, lines)
		}
	}
	if strings.Contains(lines, "kafka-streams/cost") {
		t.Errorf("a ratio without one of its sides in\n%s", lines)
	}
	delete(r, pillionOnce)
	if lines := ratios(r); len(lines) > 0 {
		t.Errorf("ratios of what was not run: %v", lines)
	}
}

func TestWays(t *testing.T) {
	for _, w := range allWays {
		args := strings.Join(w.Command(counting.Job{}, "g", "/d"), " ")
		guarantee := map[bool]string{true: "exactly_once", false: "at_least_once"}[w.Once]
		if !strings.Contains(args, guarantee) || !strings.Contains(args, counting.Job{}.Topic()) {
			t.Errorf("%s: %s", w.Name, args)
		}
	}
}
