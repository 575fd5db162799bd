package conformance

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/pillion/pillion/internal/nodeclient"
)

// The Node client passes all levels: the protocol-level client, and a Worker whose handler takes
// records one by one, or batches. It is compiled here, so that what is checked is what is written.
func TestTheNodeClientPasses(t *testing.T) {
	t.Parallel()
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	node, err := nodeclient.Compile(t.Context(), checkout, "conformance")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"run-protocol.js"}, {"run-worker.js", "each"}, {"run-worker.js", "batches"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			worker := filepath.Join(checkout, "clients/node/build/job/conformance", args[0])
			allPass(t, conform(t, "standby", nil, append([]string{node, worker}, args[1:]...)...))
		})
	}
}
