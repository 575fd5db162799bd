package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The Python client passes all levels: the protocol-level client, and a Worker whose handler takes
// records one by one, or batches.
func TestThePythonClientPasses(t *testing.T) {
	t.Parallel()
	python, err := filepath.Abs("../../.venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("there is no %s: run `make setup`, which installs the Python client there (make test-fast does, too)", python)
	}
	for _, args := range [][]string{{"worker.py"}, {"app.py", "each"}, {"app.py", "batches"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			worker, err := filepath.Abs("../../clients/python/conformance/" + args[0])
			if err != nil {
				t.Fatal(err)
			}
			allPass(t, conform(t, "standby", nil, append([]string{python, worker}, args[1:]...)...))
		})
	}
}
