//go:build kafka

package journeys

import (
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// compileExamples installs what the examples in TypeScript need, and compiles them and the client: what is run is what is written.
var compileExamples = sync.OnceValues(func() ([]byte, error) {
	cmd := exec.Command("scripts/setup-node", "examples")
	cmd.Dir = checkout()
	return cmd.CombinedOutput()
})

// nodeExample is a compiled example: flights/worker.js, say.
func nodeExample(t *testing.T, name string) string {
	t.Helper()
	if out, err := compileExamples(); err != nil {
		t.Fatalf("scripts/setup-node examples: %v\n%s", err, out)
	}
	return filepath.Join(checkout(), "examples", "build", name)
}
