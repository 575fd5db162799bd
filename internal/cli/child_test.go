package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// lockedBuffer may be written to by several pipes.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// shell is a child that runs a script; its sidecar never drains unless drained is closed.
func shell(script string, restart bool) (c *child, out *lockedBuffer) {
	out = &lockedBuffer{}
	return newChild([]string{"/bin/sh", "-c", script}, os.Environ(), "worker", out, out, hclog.NewNullLogger(), restart), out
}

func TestAChildsExitCodeComesBack(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -9 $$": 137, "kill -15 $$": 143} {
		c, _ := shell(script, false)
		if code, err := c.Run(t.Context(), nil); err != nil || code != want {
			t.Errorf("%s: exit code %d, %v, want %d", script, code, err, want)
		}
	}
}

// A line without an end is not held until it ends.
func TestLongLinesComeInPieces(t *testing.T) {
	c, out := shell(`printf 'short\n\n'; head -c 70000 /dev/zero | tr '\0' x; printf '\nlast'`, false)
	if _, err := c.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", longestLine)
	want := "worker | short\nworker | \nworker | " + long + "\nworker | " + long[:70000-longestLine] + "\nworker | last\n"
	if out.String() != want {
		t.Errorf("got %d bytes, want %d: %.100q", len(out.String()), len(want), out.String())
	}
}

// A worker's own children, as those of Python's multiprocessing, may outlive it and hold its output.
func TestTheEndOfAChildDoesNotWaitForItsOwnChildren(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "kill -9 $$": 137} {
		c, out := shell("sleep 600 & echo $!; "+script, false)
		c.patience = time.Second
		code, err := c.Run(t.Context(), nil)
		if err != nil || code != want {
			t.Errorf("%s: exit code %d, %v, want %d", script, code, err, want)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(out.String(), "worker | ")))
		if err != nil || pid <= 1 {
			t.Fatalf("%s: the output is %q", script, out)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Errorf("%s: its own child is gone: %v", script, err)
		}
	}
}

func TestLinesOfAChildCarryItsLabel(t *testing.T) {
	c, out := shell("echo one; echo two >&2; printf three", false)
	if _, err := c.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"worker | one\n", "worker | two\n", "worker | three\n"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("output lacks %q:\n%s", line, out)
		}
	}
}

func TestAKilledChildIsStartedAgainAndARefusedOneIsNot(t *testing.T) {
	marks := filepath.Join(t.TempDir(), "lives")
	c, _ := shell(fmt.Sprintf("echo x >> %s; [ $(wc -l < %s) -lt 3 ] && kill -9 $$; exit 2", marks, marks), true)
	code, err := c.Run(t.Context(), nil)
	if err != nil || code != 2 {
		t.Errorf("exit code %d, %v, want 2", code, err)
	}
	if lives, _ := os.ReadFile(marks); string(lives) != "x\nx\nx\n" {
		t.Errorf("lives: %q, want 3", lives)
	}
}

func TestAChildMayEndByItselfAfterTheDrain(t *testing.T) {
	drained := make(chan struct{})
	close(drained)
	c, _ := shell("exit 0", false)
	if code, err := c.Run(t.Context(), drained); err != nil || code != 0 {
		t.Errorf("exit code %d, %v, want 0", code, err)
	}
}

func TestAChildThatStaysGetsTheSignalAfterTheDrain(t *testing.T) {
	drained := make(chan struct{})
	close(drained)
	c, _ := shell("trap 'exit 5' INT; while :; do sleep 0.05; done", false)
	c.patience = time.Second
	c.ending(syscall.SIGINT)
	// The signal may come before the trap: then it ends the shell itself.
	if code, err := c.Run(t.Context(), drained); err != nil || (code != 5 && code != 130) {
		t.Errorf("exit code %d, %v, want 5 or 130", code, err)
	}
}

// ready is a child that runs a script and has said its first line; done gives its exit code.
func ready(t *testing.T, script string) (c *child, done <-chan int) {
	c, _ = shell(script, false)
	watch := &readiness{ready: make(chan struct{})}
	c.out = watch
	code := make(chan int, 1)
	go func() {
		n, _ := c.Run(t.Context(), nil)
		code <- n
	}()
	<-watch.ready
	return c, code
}

func TestSignalsReachTheChild(t *testing.T) {
	c, done := ready(t, "trap 'exit 9' USR1; echo ready; while :; do sleep 0.05; done")
	c.signal(syscall.SIGUSR1)
	if code := <-done; code != 9 {
		t.Errorf("exit code %d, want 9", code)
	}
}

// Who is dismissed gets the signal that ended us, or SIGTERM, at once.
func TestADismissedChildGetsItsSignalAtOnce(t *testing.T) {
	for _, ended := range []syscall.Signal{0, syscall.SIGINT} {
		c, done := ready(t, "trap 'exit 5' INT; trap 'exit 6' TERM; echo ready; while :; do sleep 0.05; done")
		want := 6
		if ended != 0 {
			c.ending(ended)
			want = 5
		}
		c.dismiss()
		if code := <-done; code != want {
			t.Errorf("exit code %d, want %d", code, want)
		}
	}
}

// readiness tells when the first line has come.
type readiness struct {
	once  sync.Once
	ready chan struct{}
}

func (r *readiness) Write(p []byte) (int, error) {
	r.once.Do(func() { close(r.ready) })
	return len(p), nil
}

func TestACommandThatDoesNotExistIsSaidInWords(t *testing.T) {
	code, _, errOut := pillion(nil, "run", "--bootstrap-servers", "127.0.0.1:1", "--", "/no/such/program")
	if code != exitUsage || !strings.Contains(errOut, "pillion: cannot start the worker: fork/exec /no/such/program: no such file or directory") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}

func TestTheWorkersExitCodeIsThePairs(t *testing.T) {
	code, out, _ := pillion(nil, "run", "--bootstrap-servers", "127.0.0.1:1", "--",
		"/bin/sh", "-c", `echo "$PILLION_URL"; test -s "$PILLION_TOKEN_FILE" && exit 4`)
	if code != 4 || !strings.HasPrefix(out, "worker | unix:") {
		t.Errorf("exit code %d, output %q", code, out)
	}
}
