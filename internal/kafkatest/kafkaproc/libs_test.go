package kafkaproc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// writeTool makes a program that prints a text to standard error.
func writeTool(t *testing.T, dir, name, prints string) {
	t.Helper()
	script := "#!/bin/sh\ncat >&2 <<'END'\n" + prints + "\nEND\n"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestMissingToolsAreNamed(t *testing.T) {
	ctx := context.Background()
	t.Setenv("JAVA_HOME", "")
	empty := t.TempDir()
	t.Setenv("PATH", empty)
	if _, err := Prepare(ctx, Latest); err == nil || !strings.Contains(err.Error(), "install Java 17") {
		t.Errorf("without java: %v", err)
	}
	old := t.TempDir()
	writeTool(t, old, "java", `openjdk version "11.0.2" 2019-01-15`)
	t.Setenv("PATH", old+":/usr/bin:/bin")
	if _, err := Prepare(ctx, Latest); err == nil || !strings.Contains(err.Error(), "is Java 11: install Java 17") {
		t.Errorf("with java 11: %v", err)
	}
	l := Libs{version: Latest, dir: t.TempDir(), java: "java"}
	t.Setenv("PATH", empty)
	if err := l.resolve(ctx); err == nil || !strings.Contains(err.Error(), "install Maven 3.8") {
		t.Errorf("without maven: %v", err)
	}
}

func TestMavenFailureIsShown(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mvn"), []byte("#!/bin/sh\necho no such artifact; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	l := Libs{version: "0.0.0", dir: t.TempDir()}
	if err := l.resolve(context.Background()); err == nil || !strings.Contains(err.Error(), "no such artifact") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(l.dir, "ready")); err == nil {
		t.Error("a failed download counts as ready")
	}
}

func TestCacheIsInTheCheckout(t *testing.T) {
	root, err := cacheRoot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "..", "..", "go.mod")); err != nil || !strings.HasSuffix(root, filepath.Join(".cache", "kafka")) {
		t.Errorf("%s, %v", root, err)
	}
	t.Chdir(t.TempDir())
	t.Setenv("XDG_CACHE_HOME", "/somewhere")
	t.Setenv("HOME", "/somewhere")
	if root, err := cacheRoot(); err != nil || !strings.HasPrefix(root, "/somewhere") {
		t.Errorf("outside: %s, %v", root, err)
	}
}

func TestLockHoldsOthersOff(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(file, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockFile(file, false); !errors.Is(err, errLocked) {
		t.Fatalf("taken twice: %v", err)
	}
	waited := make(chan error)
	go func() {
		release, err := lockFile(file, true)
		if err == nil {
			release()
		}
		waited <- err
	}()
	unlock()
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
}

// INVARIANT: two test binaries never hand out one port.
func TestPortsAreKept(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		port, release, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		if seen[port] || port < firstPort || port >= lastPort {
			t.Fatalf("port %d", port)
		}
		seen[port] = true
		root, err := cacheRoot()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lockFile(filepath.Join(root, "ports", address(port)[len("127.0.0.1:"):]), false); !errors.Is(err, errLocked) {
			t.Fatalf("port %d is not kept: %v", port, err)
		}
	}
}

func TestProperties(t *testing.T) {
	text := properties(nodeConfig{id: 2, brokerPort: 21000, controllerPort: 21001, voters: "2@127.0.0.1:21001", brokers: 3, dir: "/d"},
		map[string]string{"min.insync.replicas": "1", "x.y": "z"})
	for _, line := range []string{
		"node.id=2\n", "default.replication.factor=3\n", "min.insync.replicas=1\n", "x.y=z\n", "log.dirs=/d\n",
		"listeners=PLAINTEXT://127.0.0.1:21000,CONTROLLER://127.0.0.1:21001\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
}

func TestANodeThatDoesNotRun(t *testing.T) {
	n := Node{ID: 1, libs: &Libs{java: "/does/not/exist"}, logFile: filepath.Join(t.TempDir(), "log")}
	for what, f := range map[string]func() error{"kill": n.Kill, "pause": n.Pause, "continue": n.Continue} {
		if err := f(); !errors.Is(err, errNotRunning) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := n.Start(context.Background()); err == nil || n.Running() {
		t.Errorf("started: %v", err)
	}
	<-n.Done()
}

func TestANodeThatEndsWhileStarting(t *testing.T) {
	dir := t.TempDir()
	writeTool(t, dir, "java", "cannot read the storage")
	n := Node{ID: 1, Addr: "127.0.0.1:1", libs: &Libs{java: filepath.Join(dir, "java")}, logFile: filepath.Join(dir, "log")}
	err := n.Start(context.Background())
	if err == nil || !strings.Contains(err.Error(), "ended while starting") || !strings.Contains(err.Error(), "cannot read the storage") {
		t.Errorf("got %v", err)
	}
}

func TestTrouble(t *testing.T) {
	n := Node{logFile: filepath.Join(t.TempDir(), "log")}
	log := "1 [a] INFO x - up\n2 [a] ERROR x - no\njava.io.IOException: gone\n\tat x.Y\n3 [a] INFO x - down\n"
	if err := os.WriteFile(n.logFile, []byte(log), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := n.Trouble(5); got != "2 [a] ERROR x - no\njava.io.IOException: gone" {
		t.Errorf("trouble %q", got)
	}
	if got := n.Trouble(1); got != "java.io.IOException: gone" {
		t.Errorf("one line: %q", got)
	}
	if got := n.Log(1); got != "3 [a] INFO x - down" {
		t.Errorf("log %q", got)
	}
}
