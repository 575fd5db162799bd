package groupclient

import (
	"fmt"
	"maps"
	"slices"
)

// waitFor says what a take-over waits for. Run tells the handler.
func (g *Group) waitFor(t Task, sentence string) {
	g.mu.Lock()
	_, said := g.waits[t]
	g.waits[t] = sentence
	g.mu.Unlock()
	if !said {
		g.wake()
	}
}

// tellWaits tells the handler what take-overs wait for: one sentence, and when none waits any more.
func (g *Group) tellWaits() {
	g.mu.Lock()
	tasks := slices.SortedFunc(maps.Keys(g.waits), compareTasks)
	var sentence string
	if len(tasks) > 0 {
		sentence = g.waits[tasks[0]]
	}
	g.mu.Unlock()
	switch {
	case sentence != "" && !g.toldWait:
		if len(tasks) > 1 {
			sentence += fmt.Sprintf("; so do %d other tasks", len(tasks)-1)
		}
		g.toldWait = true
		g.log.Warn("waiting", "error", sentence)
		g.handler.Waiting(codeRebalance, sentence)
	case sentence == "" && g.toldWait:
		g.toldWait = false
		if g.reach.told == "" { // something else is waited for yet
			g.handler.Waiting(codeOK, "")
		}
	}
}
