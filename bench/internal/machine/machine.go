// Package machine says what the machine did while a benchmark ran, so that a figure made beside others' work
// is told from one made alone. It reads /proc, so Linux only.
package machine

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Ticks is USER_HZ, which Linux shows to programs on every architecture that matters here.
const Ticks = 100

// Snapshot is what all CPUs did since the start, in ticks.
type Snapshot struct{ Busy, Total float64 }

// Look reads /proc/stat. Time that the host gave to other guests counts as busy.
func Look() (Snapshot, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Snapshot{}, err
	}
	return parseStat(b)
}

func parseStat(b []byte) (s Snapshot, err error) {
	line, _, _ := bytes.Cut(b, []byte{'\n'})
	fields := bytes.Fields(line) // cpu user nice system idle iowait irq softirq steal guest guest_nice
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return s, fmt.Errorf("/proc/stat begins with %q", line)
	}
	for i, f := range fields[1:9] { // the times of guests are in user and nice already
		v, err := strconv.ParseFloat(string(f), 64)
		if err != nil {
			return s, fmt.Errorf("/proc/stat begins with %q: %w", line, err)
		}
		s.Total += v
		if i != 3 && i != 4 {
			s.Busy += v
		}
	}
	return s, nil
}

// Elsewhere is the share of the machine that went, since before, to others than those who used so many CPU seconds.
func (s Snapshot) Elsewhere(before Snapshot, own float64) float64 {
	if s.Total <= before.Total {
		return 0
	}
	return max(0, (s.Busy-before.Busy-own*Ticks)/(s.Total-before.Total))
}

// Patience is the time that may still be spent on waiting for a quiet machine and on repeating what was disturbed.
type Patience struct{ Until time.Time }

// Left says whether there is any.
func (p Patience) Left() bool { return time.Now().Before(p.Until) }

// Wait returns when others have used less than this share of the machine for a second, or patience ends.
func (p Patience) Wait(ctx context.Context, quiet float64) error {
	for p.Left() {
		before, err := Look()
		if err != nil {
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		after, err := Look()
		if err != nil {
			return err
		}
		if after.Elsewhere(before, 0) <= quiet {
			return nil
		}
	}
	return ctx.Err()
}
