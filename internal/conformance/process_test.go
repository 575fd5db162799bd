package conformance

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A worker that ends at once, and leaves a child behind: the child ends, too. The child has the only
// writing end of a pipe, so that its end is seen.
func TestChildrenThatAreLeftBehindEnd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	script := `exec 3>"$1"; echo up >&3; sleep 600 >/dev/null 2>&1 & exit 0`
	if result := conform(t, "stateless", []string{"process"}, "sh", "-c", script, "sh", path)["process"]; result.Pass {
		t.Error("a worker that does nothing passes")
	}
	if got, err := io.ReadAll(r); string(got) != "up\n" || err != nil {
		t.Errorf("the child wrote %q, %v", got, err)
	}
}
