//go:build kafka

package drill

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The short form: one wave of each guarantee. The long form is `make drill`.
func TestDrill(t *testing.T) {
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	python := os.Getenv("PILLION_TEST_PYTHON")
	if python == "" {
		python = filepath.Join(checkout, ".venv", "bin", "python")
	}
	seed := uint64(time.Now().UnixNano())
	for name, o := range map[string]Options{
		"exactly once":  {Guarantee: ExactlyOnce, PerWave: 20, Recreate: 1},
		"at least once": {Guarantee: AtLeastOnce, PerWave: 8},
	} {
		t.Run(name, func(t *testing.T) {
			o.Seed, o.Faults, o.Rate = seed, 1, 60
			o.Dir, o.Checkout, o.Python, o.Out = t.TempDir(), checkout, python, t.Output()
			out, err := Run(context.Background(), o)
			if err != nil {
				t.Fatalf("seed %d: the drill itself failed: %v", o.Seed, err)
			}
			t.Logf("\n%s%s", out.Tally, NewResult(o, out))
			if len(out.Violations) > 0 {
				t.Error(Explain(o, out))
			}
			if out.Tally.Counted == 0 || out.Inputs == 0 {
				t.Errorf("nothing is shown: %d faults counted, %d inputs", out.Tally.Counted, out.Inputs)
			}
		})
	}
}
