package main

import (
	"strings"
	"testing"

	"github.com/pillion/pillion/bench/internal/counting"
)

// The worker that uses twice the CPU of the client has 2.00, whatever their speeds and the sidecar's CPU are.
func TestRatios(t *testing.T) {
	runs := counting.Rounds{
		worker:  {{Records: 600, Seconds: 1, Own: 9, Children: 6, Broker: 1}},
		client:  {{Records: 1000, Seconds: 1, Own: 12, Children: 5, Broker: 1}},
		kafkajs: {{Records: 200, Seconds: 1, Own: 9, Broker: 1}},
	}
	lines := strings.Join(ratios(runs), "\n")
	for _, want := range []string{
		"BENCH node/worker/cpu-vs-client 2.00 x", "BENCH node/worker/vs-client 0.60 x",
		"BENCH node/worker/vs-kafkajs 3.00 x", "BENCH node/worker/cpu/vs-kafkajs 3.00 x", "BENCH node/client/vs-kafkajs 5.00 x",
	} {
		if !strings.Contains(lines, want) {
			t.Errorf("no line %q in\n%s", want, lines)
		}
	}
	delete(runs, worker)
	if lines := ratios(runs); len(lines) != 1 {
		t.Errorf("ratios of what was not run: %q", lines)
	}
}

// Every way is told what to count and as which group.
func TestWays(t *testing.T) {
	for _, w := range ways {
		args := strings.Join(w.Command(counting.Job{}, "some-group", "/d"), " ")
		if !strings.Contains(args, "some-group") || !strings.Contains(args, counting.Job{}.Topic()) || w.Once {
			t.Errorf("%s: %s", w.Name, args)
		}
	}
}
