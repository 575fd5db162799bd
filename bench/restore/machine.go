package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
)

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
