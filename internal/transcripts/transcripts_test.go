package transcripts

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheSidecarPlaysEveryTranscript(t *testing.T) {
	for _, name := range names(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := except(t, name, load(t, name))
			t.Run("tcp", func(t *testing.T) { start(t, lines, "127.0.0.1:0").play() })
			t.Run("unix", func(t *testing.T) { start(t, lines, socket(t)).play() })
		})
	}
}

func TestExceptionsNameTranscripts(t *testing.T) {
	known := map[string]bool{}
	for _, name := range names(t) {
		known[name] = true
	}
	for _, e := range exceptions {
		if !known[e.transcript] || e.why == "" {
			t.Errorf("exception for %q: %q", e.transcript, e.why)
		}
	}
}

// socket is a path that is short enough for a Unix socket.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pt-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return "unix:" + filepath.Join(dir, "s")
}
