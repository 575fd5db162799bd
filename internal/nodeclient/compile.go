// Package nodeclient compiles programs of clients/node for the tests that run them: what is run is what is written.
package nodeclient

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Compile compiles a project of the client in a checkout ("conformance", "drill"), and finds the Node that runs it.
func Compile(ctx context.Context, checkout, project string) (node string, err error) {
	client := filepath.Join(checkout, "clients", "node")
	compiler := filepath.Join(client, "node_modules", "typescript", "bin", "tsc")
	if _, err := os.Stat(compiler); err != nil {
		return "", fmt.Errorf("what the Node client is compiled with is not there: run `make setup-node` (%w)", err)
	}
	if node, err = exec.LookPath("node"); err != nil {
		return "", fmt.Errorf("there is no node: install Node 20.19 or newer (%w)", err)
	}
	if out, err := exec.CommandContext(ctx, node, compiler, "-p", filepath.Join(client, project)).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile clients/node/%s: %w\n%s", project, err, out)
	}
	return node, nil
}
