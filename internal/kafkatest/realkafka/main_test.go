//go:build kafka && linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pillion/pillion/internal/kafkatest"
)

// The test binary is the command when it is told so.
const beCommand = "REALKAFKA_TEST_IS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(beCommand) != "" {
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func command(t *testing.T, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel) // kills what has not ended
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), beCommand+"=1")
	return cmd
}

// begin starts the command, gives its address and what ends its stdin.
func begin(t *testing.T, args ...string) (cmd *exec.Cmd, addr string, closeStdin func()) {
	t.Helper()
	cmd = command(t, args...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // in case the test does not end it
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "realkafka listening on ")
	if err != nil || !ok {
		t.Fatalf("first line %q, %v", line, err)
	}
	return cmd, addr, func() { stdin.Close() }
}

func TestDataIsKeptAndStdinEndsIt(t *testing.T) {
	dir := t.TempDir()
	cmd, addr, closeStdin := begin(t, "--data", dir, "--topic", "in:2:compact", "--property", "message.max.bytes=2000000")
	kafkatest.Produce(t, []string{addr}, "in", []kafkatest.Record{kafkatest.KV("a", "1").On(1)})
	closeStdin()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	cmd, addr, _ = begin(t, "--data", dir)
	if got := kafkatest.ReadAll(t, []string{addr}, "in", true); len(got) != 1 {
		t.Fatalf("read %+v", got)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// INVARIANT: a broker never outlives the process that started it.
func TestTheBrokerDiesWithUs(t *testing.T) {
	dir := t.TempDir()
	cmd, addr, _ := begin(t, "--data", dir)
	pid := brokerPid(t, filepath.Join(dir, "node-1"))
	if err := cmd.Process.Kill(); err != nil { // no time for it to end anything
		t.Fatal(err)
	}
	_ = cmd.Wait()
	deadline := time.Now().Add(20 * time.Second)
	for errors.Is(alive(pid), nil) {
		if time.Now().After(deadline) {
			t.Fatalf("the broker at %s, process %d, lives on", addr, pid)
		}
		conn, err := net.DialTimeout("tcp", addr, time.Second) // as long as that takes
		if err == nil {
			conn.Close()
		}
	}
}

// alive fails when the process has ended; one that nobody has waited for yet
// has ended too.
func alive(pid int) error {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return err
	}
	if strings.Contains(string(stat), ") Z ") {
		return errors.New("a zombie")
	}
	return nil
}

// brokerPid finds the process that was started with a node's properties.
func brokerPid(t *testing.T, dir string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err == nil && strings.Contains(string(text), dir) && strings.Contains(string(text), "kafka.Kafka") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatalf("no process was started with %s", dir)
	return 0
}

// Another Kafka on the port would answer in our place.
func TestAPortThatIsTakenIsRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out, err := command(t, fmt.Sprintf("--port=%d", l.Addr().(*net.TCPAddr).Port), "--topic=words:4").CombinedOutput()
	if want := "something listens on " + l.Addr().String() + " already: stop it, or choose another port with --port"; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("%v, %s", err, out)
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		arg, word string
	}{
		{"--nothing", "unknown flag"}, {"extra", "not a flag"},
		{"--topic=in", "name:partitions"}, {"--property=x", "key=value"},
	} {
		out, err := command(t, c.arg).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.word) {
			t.Errorf("%s: %v, %s", c.arg, err, out)
		}
	}
}
