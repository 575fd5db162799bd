package main

import (
	"context"

	"github.com/pillion/pillion/bench/internal/machine"
)

// enough undisturbed runs of a way make a median without the others.
const enough = 3

// undisturbed measures when the machine is quiet, and again when it did not stay so. What is repeated
// is decided by what others used alone, never by the figure.
func (w way) undisturbed(ctx context.Context, l *changelog, p machine.Patience, say func(figures)) (figures, error) {
	for {
		if err := p.Wait(ctx, *quiet); err != nil {
			return figures{}, err
		}
		f, err := w.measure(ctx, l)
		if err != nil || !f.disturbed() || !p.Left() {
			return f, err
		}
		say(f)
	}
}

// disturbed says whether others had too much of the machine.
func (f figures) disturbed() bool { return f.elsewhere > *quiet }

// counting are the runs that make the medians: the undisturbed ones if they are enough, or else all.
func counting(runs []figures) (counted []figures, quiet bool) {
	for _, f := range runs {
		if !f.disturbed() {
			counted = append(counted, f)
		}
	}
	if len(counted) >= min(enough, len(runs)) {
		return counted, true
	}
	return runs, false
}
