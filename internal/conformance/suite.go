package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Options say what is played and how.
type Options struct {
	Command  []string // of the worker; it runs the conformance job of spec/scenarios/README.md
	Dir      string   // in which the command is started; empty: the present one
	Environ  []string // of the command, beside what the cases give it; nil: that of this process
	Level    string   // the highest level that is played
	Cases    []string // only these; empty: all of the level
	Parallel int      // cases at the same time
	Patience time.Duration
}

// DefaultPatience is how long the worker may take for each thing that it owes.
const DefaultPatience = 10 * time.Second

// Validate says what is wrong with the options in the user's words.
func (o Options) Validate() error {
	switch {
	case len(o.Command) == 0:
		return errors.New("there is no worker's command: put it behind --")
	case !slices.Contains(Levels, o.Level):
		return fmt.Errorf("level %q: use %s", o.Level, strings.Join(Levels, ", "))
	case o.Parallel < 1:
		return fmt.Errorf("%d cases at the same time: use at least 1", o.Parallel)
	case o.Patience <= 0:
		return fmt.Errorf("a patience of %s: use more than 0", o.Patience)
	}
	return nil
}

// Result is how one case ended.
type Result struct {
	Case     string  `json:"case"`
	Level    string  `json:"level"`
	About    string  `json:"about"`
	Pass     bool    `json:"pass"`
	Line     int     `json:"line,omitempty"` // of the scenario, at which it failed
	Step     string  `json:"step,omitempty"`
	Expected string  `json:"expected,omitempty"`
	Came     string  `json:"came,omitempty"`
	Hint     string  `json:"hint,omitempty"`
	Output   string  `json:"output,omitempty"` // the end of what the worker printed
	Trace    string  `json:"trace,omitempty"`  // the end of what was said
	Seconds  float64 `json:"seconds"`
}

// Choose gives the scenarios that the options ask for.
func Choose(all []Scenario, level string, names []string) ([]Scenario, error) {
	var out []Scenario
	for _, s := range all {
		if slices.Index(Levels, s.Level) <= slices.Index(Levels, level) && (len(names) == 0 || slices.Contains(names, s.Name)) {
			out = append(out, s)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(out, func(s Scenario) bool { return s.Name == name }) {
			return nil, fmt.Errorf("there is no case %q up to level %s; --list names them", name, level)
		}
	}
	return out, nil
}

// Run plays scenarios and calls each with every result, in their order.
func Run(ctx context.Context, scenarios []Scenario, o Options, each func(Result)) error {
	if err := o.Validate(); err != nil {
		return err
	}
	results := make([]chan Result, len(scenarios))
	for i := range results {
		results[i] = make(chan Result, 1)
	}
	go func() {
		room := make(chan struct{}, o.Parallel)
		for i, s := range scenarios {
			room <- struct{}{}
			go func() {
				defer func() { <-room }()
				results[i] <- play(ctx, s, o)
			}()
		}
	}()
	for _, r := range results {
		each(<-r)
	}
	return ctx.Err()
}
