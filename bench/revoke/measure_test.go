package main

import (
	"flag"
	"testing"
)

// The benchmark still runs: both kinds of worker answer a few revokes.
func TestMeasure(t *testing.T) {
	was := flag.Lookup("revokes").Value.String()
	if err := flag.Set("revokes", "3"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set("revokes", was) })
	for _, reading := range []bool{false, true} {
		if took, err := measure(t.Context(), reading); err != nil || len(took) != 3 {
			t.Errorf("reading %v: %d revokes: %v", reading, len(took), err)
		}
	}
}
