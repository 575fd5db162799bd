package conformance

import (
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pillion/pillion"
)

// TestMain is also the mini worker: the player starts this program with a mutation.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "mini" {
		os.Exit(miniMain(os.Args[2]))
	}
	os.Exit(m.Run())
}

func scenarios(t testing.TB) []Scenario {
	t.Helper()
	files, err := fs.Sub(pillion.Scenarios, "spec/scenarios")
	if err != nil {
		t.Fatal(err)
	}
	all, err := Load(files)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// conform plays cases against a worker, and gives the results by case.
func conform(t testing.TB, level string, names []string, command ...string) map[string]Result {
	t.Helper()
	chosen, err := Choose(scenarios(t), level, names)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]Result{}
	o := Options{Command: command, Level: level, Parallel: max(4, runtime.NumCPU()), Patience: time.Minute} // the machine may be busy
	if err := Run(t.Context(), chosen, o, func(r Result) { out[r.Case] = r }); err != nil {
		t.Fatal(err)
	}
	return out
}

func allPass(t *testing.T, results map[string]Result) {
	t.Helper()
	for _, r := range results {
		if !r.Pass {
			var text strings.Builder
			Text(&text, r)
			t.Error(text.String())
		}
	}
}

func TestTheMiniWorkerPasses(t *testing.T) {
	t.Parallel()
	allPass(t, conform(t, "standby", nil, os.Args[0], "mini", "none"))
}

// A worker that can do no more says so, and is asked for no more.
func TestAStatelessWorker(t *testing.T) {
	t.Parallel()
	allPass(t, conform(t, "stateless", []string{"handshake", "process"}, os.Args[0], "mini", "level-stateless"))
}
