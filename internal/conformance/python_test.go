package conformance

import (
	"os"
	"path/filepath"
	"testing"
)

// The Python client passes all levels.
func TestThePythonClientPasses(t *testing.T) {
	t.Parallel()
	python, err := filepath.Abs("../../.venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("there is no %s: run `make setup`, which installs the Python client there (make test-fast does, too)", python)
	}
	worker, err := filepath.Abs("../../clients/python/conformance/worker.py")
	if err != nil {
		t.Fatal(err)
	}
	allPass(t, conform(t, "standby", nil, python, worker))
}
