package drill

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// Result is one drill in a line of results.jsonl.
type Result struct {
	When       time.Time
	Guarantee  Guarantee
	Mild       bool
	Seed       uint64
	Waves      int
	Seconds    float64
	Inputs     int
	Tally      Tally
	Violations []Violation
}

// NewResult sums a drill up.
func NewResult(o Options, out Outcome) Result {
	return Result{
		When: time.Now().UTC().Truncate(time.Second), Guarantee: o.Guarantee, Mild: o.Mild, Seed: o.Seed, Waves: out.Waves,
		Seconds: out.Took.Seconds(), Inputs: out.Inputs, Tally: out.Tally, Violations: out.Violations,
	}
}

func (r Result) String() string {
	verdict := "nothing is violated"
	if n := len(r.Violations); n > 0 {
		verdict = fmt.Sprintf("%d VIOLATIONS", n)
	}
	mild := ""
	if r.Mild {
		mild = " mild"
	}
	return fmt.Sprintf("DRILL %s%s seed %d: %d waves in %.0f s, %d inputs, %d faults injected, %d counted, %d passed over: %s",
		r.Guarantee, mild, r.Seed, r.Waves, r.Seconds, r.Inputs, r.Tally.Injected, r.Tally.Counted, r.Tally.Missed, verdict)
}

// Sum adds the results of a file up, by guarantee.
func Sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var text strings.Builder
	sums := map[string]*Tally{}
	var names []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r Result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return "", err
		}
		fmt.Fprintln(&text, r)
		for _, v := range r.Violations {
			fmt.Fprintln(&text, "    ", v)
		}
		name := string(r.Guarantee)
		if r.Mild {
			name += " mild"
		}
		if sums[name] == nil {
			sums[name] = &Tally{ByKind: map[Kind]*KindTally{}}
			names = append(names, name)
		}
		sums[name].add(r.Tally)
	}
	for _, name := range names {
		fmt.Fprintf(&text, "\n%s, all together:\n\n%s", name, sums[name])
	}
	return text.String(), lines.Err()
}

// Print is a schedule for people.
func Print(steps []Step) string {
	var b strings.Builder
	for n, step := range steps {
		for i, f := range step.Faults {
			when := "          and"
			if i == 0 {
				when = fmt.Sprintf("%3d. after %4d ms:", n+1, step.After.Milliseconds())
			}
			fmt.Fprintf(&b, "%-19s %s\n", when, f)
		}
	}
	return b.String()
}

// Explain is what is printed when something is violated: the seed, the schedule, the violations, and the end
// of the history without the commits that went well.
func Explain(o Options, out Outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nseed %d, wave %d, guarantee %s: the schedule was\n\n%s\nthe history (whole in %s) ended with\n\n", o.Seed, out.Waves, o.Guarantee, Print(out.Schedule), o.Dir)
	var told []Event
	for _, e := range out.Events {
		if e.What != CommitBegan && (e.What != CommitEnded || !e.OK) {
			told = append(told, e)
		}
	}
	for _, e := range told[max(0, len(told)-200):] {
		fmt.Fprintln(&b, e)
	}
	b.WriteString("\nviolated:\n\n")
	for _, v := range out.Violations {
		fmt.Fprintln(&b, v)
	}
	return b.String()
}
