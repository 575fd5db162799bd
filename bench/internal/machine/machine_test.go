package machine

import "testing"

func TestParseStat(t *testing.T) {
	s, err := parseStat([]byte("cpu  10 1 20 300 40 2 3 5 7 1\ncpu0 1 1 1\n"))
	if err != nil || s != (Snapshot{Busy: 41, Total: 381}) {
		t.Fatalf("%v, %v", s, err)
	}
	for _, bad := range []string{"", "intr 1", "cpu 1 2 3 4", "cpu a 1 20 300 40 2 3 5 7 1"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q passed", bad)
		}
	}
}

func TestElsewhere(t *testing.T) {
	before := Snapshot{Busy: 100, Total: 1000}
	if got := (Snapshot{Busy: 500, Total: 2000}).Elsewhere(before, 3); got != 0.1 {
		t.Errorf("others had %g, want 0.1", got)
	}
	if got := (Snapshot{Busy: 500, Total: 2000}).Elsewhere(before, 5); got != 0 {
		t.Errorf("others had %g, want 0", got)
	}
	if got := before.Elsewhere(before, 0); got != 0 {
		t.Errorf("others had %g in no time", got)
	}
}

func TestParseProcess(t *testing.T) {
	p, err := parseProcess([]byte("42 (a) b) S 7 42 42 0 -1 4194560 1 2 3 4 100 20 1 1 20 0"))
	if err != nil || p != (Process{Parent: 7, Ticks: 120}) {
		t.Fatalf("%v, %v", p, err)
	}
	for _, bad := range []string{"", "42 (a) S 7", "42 (a) S x 42 42 0 -1 4194560 1 2 3 4 100 20"} {
		if _, err := parseProcess([]byte(bad)); err == nil {
			t.Errorf("%q passed", bad)
		}
	}
}

func TestCPU(t *testing.T) {
	all := map[int]Process{1: {0, 1000}, 2: {1, 100}, 3: {2, 10}, 4: {3, 1}, 5: {1, 7}}
	if got := CPU(all, 2); got != 1.11 {
		t.Errorf("%g CPU seconds, want 1.11", got)
	}
}
