package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// List prints what there is.
func List(w io.Writer, scenarios []Scenario) {
	for _, s := range scenarios {
		fmt.Fprintf(w, "%-10s %-24s %s\n", s.Level, s.Name, s.About)
	}
}

// Text prints one result for people.
func Text(w io.Writer, r Result) {
	if r.Pass {
		fmt.Fprintf(w, "pass  %-10s %-24s %6.2f s\n", r.Level, r.Case, r.Seconds)
		return
	}
	fmt.Fprintf(w, "FAIL  %-10s %-24s %6.2f s  %s\n", r.Level, r.Case, r.Seconds, r.About)
	if r.Line > 0 {
		fmt.Fprintf(w, "      at        spec/scenarios/%s.jsonl, line %d: %s\n", r.Case, r.Line, short(r.Step))
	}
	fmt.Fprintf(w, "      expected  %s\n      came      %s\n      hint      %s\n", r.Expected, r.Came, r.Hint)
	block(w, "said last", r.Trace, 12)
	block(w, "the worker printed", r.Output, 12)
}

func short(text string) string {
	if len(text) > 200 {
		return text[:200] + "…"
	}
	return text
}

func block(w io.Writer, title, text string, most int) {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return
	}
	lines := strings.Split(text, "\n")
	lines = lines[max(0, len(lines)-most):]
	fmt.Fprintf(w, "      %s\n        %s\n", title, strings.Join(lines, "\n        "))
}

// Summary prints the last line for people.
func Summary(w io.Writer, results []Result, level string) {
	passed := 0
	for _, r := range results {
		if r.Pass {
			passed++
		}
	}
	if passed == len(results) {
		fmt.Fprintf(w, "all %d cases passed (level %s)\n", passed, level)
		return
	}
	fmt.Fprintf(w, "%d of %d cases failed (level %s)\n", len(results)-passed, len(results), level)
}

// JSON prints one result for programs, on a line of its own.
func JSON(w io.Writer, r Result) error { return json.NewEncoder(w).Encode(r) }
