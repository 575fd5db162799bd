package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// enough undisturbed runs of a way make a median without the others.
const enough = 3

// patience is the time that may still be spent on waiting for a quiet machine and on repeating what was disturbed.
type patience struct{ until time.Time }

func (p patience) left() bool { return time.Now().Before(p.until) }

// wait returns when others have used less than their share for a second, or patience ends.
func (p patience) wait(ctx context.Context) error {
	for p.left() {
		before, err := lookAtMachine()
		if err != nil {
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		after, err := lookAtMachine()
		if err != nil {
			return err
		}
		if after.busy-before.busy <= *quiet*(after.total-before.total) {
			return nil
		}
	}
	return ctx.Err()
}

// undisturbed measures when the machine is quiet, and again when it did not stay so. What is repeated
// is decided by what others used alone, never by the figure.
func (w way) undisturbed(ctx context.Context, l *changelog, p patience, say func(figures)) (figures, error) {
	for {
		if err := p.wait(ctx); err != nil {
			return figures{}, err
		}
		f, err := w.measure(ctx, l)
		if err != nil || !f.disturbed() || !p.left() {
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

// machine is what all CPUs did since the start, in ticks.
type machine struct{ busy, total float64 }

// lookAtMachine reads /proc/stat. Time that the host gave to other guests counts as busy.
func lookAtMachine() (m machine, err error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return m, err
	}
	return parseStat(b)
}

func parseStat(b []byte) (m machine, err error) {
	line, _, _ := bytes.Cut(b, []byte{'\n'})
	fields := bytes.Fields(line) // cpu user nice system idle iowait irq softirq steal guest guest_nice
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return m, fmt.Errorf("/proc/stat begins with %q", line)
	}
	for i, f := range fields[1:9] { // the times of guests are in user and nice already
		v, err := strconv.ParseFloat(string(f), 64)
		if err != nil {
			return m, fmt.Errorf("/proc/stat begins with %q: %w", line, err)
		}
		m.total += v
		if i != 3 && i != 4 {
			m.busy += v
		}
	}
	return m, nil
}

// ticks is USER_HZ, which Linux shows to programs on every architecture that matters here.
const ticks = 100

// elsewhere is the share of the machine that went to others than the process while it ran: the broker,
// which serves it, and whatever disturbs.
func (m machine) elsewhere(before machine, ran *exec.Cmd) float64 {
	own := (ran.ProcessState.UserTime() + ran.ProcessState.SystemTime()).Seconds() * ticks // with its children
	if m.total <= before.total {
		return 0
	}
	return max(0, (m.busy-before.busy-own)/(m.total-before.total))
}
