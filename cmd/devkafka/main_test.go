package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/pillion/pillion/internal/kafkatest"
)

// The test binary is the command when it is told so.
const beCommand = "DEVKAFKA_TEST_IS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(beCommand) != "" {
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

type running struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	addr  string
}

func command(t *testing.T, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel) // kills what has not ended
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), beCommand+"=1")
	return cmd
}

func begin(t *testing.T, args ...string) *running {
	t.Helper()
	cmd := command(t, append([]string{"--listen", "127.0.0.1:0"}, args...)...)
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
	addr, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "devkafka listening on ")
	if err != nil || !ok {
		t.Fatalf("first line %q, %v", line, err)
	}
	return &running{t: t, cmd: cmd, stdin: stdin, addr: addr}
}

func (r *running) ended() {
	r.t.Helper()
	if err := r.cmd.Wait(); err != nil {
		r.t.Fatalf("ended with %v", err)
	}
}

func TestServesUntilSignalled(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		r := begin(t, "--topic", "in:2", "--topic", "table:1:compact")
		addrs := []string{r.addr}
		kafkatest.Produce(t, addrs, "in", []kafkatest.Record{kafkatest.KV("a", "1").On(1)})
		if got := kafkatest.ReadAll(t, addrs, "in", true); len(got) != 1 || got[0].Partition != 1 {
			t.Fatalf("read %+v", got)
		}
		r.stdin.Close() // without --parent that means nothing
		kafkatest.CommitOffsets(t, addrs, "g", map[kafkatest.TopicPartition]kafkatest.CommittedOffset{
			{Topic: "in", Partition: 1}: {Offset: 1},
		})
		if err := r.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		r.ended()
	}
}

func TestEndsWithItsParent(t *testing.T) {
	r := begin(t, "--parent")
	r.stdin.Close()
	r.ended()
}

func TestAutoCreate(t *testing.T) {
	r := begin(t, "--auto-create", "5")
	kafkatest.Produce(t, []string{r.addr}, "new", []kafkatest.Record{kafkatest.KV("a", "1")},
		kafkatest.WithClientOptions(kgo.AllowAutoTopicCreation()))
	if ends := kafkatest.EndOffsets(t, []string{r.addr}, "new"); len(ends) != 5 {
		t.Fatalf("%d partitions", len(ends))
	}
}

func TestDataIsKept(t *testing.T) {
	dir := t.TempDir()
	first := begin(t, "--data", dir, "--topic", "in:1", "--parent")
	kafkatest.Produce(t, []string{first.addr}, "in", []kafkatest.Record{kafkatest.KV("a", "1")})
	first.stdin.Close()
	first.ended()
	second := begin(t, "--data", dir, "--topic", "in:1")
	if got := kafkatest.ReadAll(t, []string{second.addr}, "in", true); len(got) != 1 {
		t.Fatalf("read %+v", got)
	}
}

func TestRefusals(t *testing.T) {
	running := begin(t)
	for _, c := range []struct {
		args []string
		code int
		word string
	}{
		{[]string{"--nothing"}, 2, "unknown flag"},
		{[]string{"extra"}, 2, "not a flag"},
		{[]string{"--topic", "in"}, 2, "name:partitions"},
		{[]string{"--auto-create", "-1"}, 2, "number of partitions"},
		{[]string{"--listen", "9092"}, 1, "host:port"},
		{[]string{"--listen", "127.0.0.1:http"}, 1, "not a port"},
		{[]string{"--listen", running.addr}, 1, "something listens on " + running.addr + " already: stop it, or choose another port with --listen"},
		{[]string{"--listen", ":9092"}, 1, "name one address"},
		{[]string{"--listen", "0.0.0.0:9092"}, 1, "name one address"},
		{[]string{"--topic", "in valid:1"}, 2, "name of a topic"},
	} {
		out, err := command(t, c.args...).CombinedOutput()
		if err == nil {
			t.Errorf("%v: taken: %s", c.args, out)
			continue
		}
		if code := err.(*exec.ExitError).ExitCode(); code != c.code || !strings.Contains(string(out), c.word) {
			t.Errorf("%v: exit %d, %s", c.args, code, out)
		}
	}
	if out, err := command(t, "--help").CombinedOutput(); err != nil || !strings.Contains(string(out), "--topic") || !strings.HasPrefix(string(out), "devkafka - a Kafka") {
		t.Errorf("--help: %v, %s", err, out)
	}
}
