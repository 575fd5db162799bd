//go:build kafka

package journeys

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/pillion/pillion/internal/kafkatest/kafkaproc"
)

// atOnce is how many journeys run side by side: they mostly wait.
const atOnce = "4"

// shared is what journeys that disturb nobody have in common.
var shared struct {
	dir   string
	raced build
	plain build
	start sync.Once
	kafka *kafkaproc.Kafka
	err   error
}

// build is the binary, built once.
type build struct {
	once sync.Once
	err  error
}

type suite struct{ m *testing.M }

func (s suite) Run() int {
	dir, err := os.MkdirTemp("", "journeys-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	shared.dir = dir
	code := s.m.Run()
	if shared.kafka != nil {
		shared.kafka.Close()
	}
	return code
}

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", atOnce)
	goleak.VerifyTestMain(suite{m})
}

// checkout is the root of the repository.
func checkout() string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		panic(err)
	}
	return dir
}

// binary is pillion with the race detector.
func binary(t *testing.T) string {
	t.Helper()
	return shared.raced.get(t, "pillion", "-race")
}

// timedBinary is pillion as people run it: for the journeys that measure time.
func timedBinary(t *testing.T) string {
	t.Helper()
	return shared.plain.get(t, "pillion-plain")
}

func (b *build) get(t *testing.T, name string, flags ...string) string {
	t.Helper()
	path := filepath.Join(shared.dir, name)
	b.once.Do(func() {
		args := append([]string{"build", "-o", path}, flags...)
		if out, err := exec.Command("go", append(args, checkout()+"/cmd/sidecar")...).CombinedOutput(); err != nil {
			b.err = fmt.Errorf("build ./cmd/sidecar: %w\n%s", err, out)
		}
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return path
}

// python is the interpreter of `make setup`.
func python(t *testing.T) string {
	t.Helper()
	path := os.Getenv("PILLION_TEST_PYTHON")
	if path == "" {
		path = filepath.Join(checkout(), ".venv", "bin", "python")
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("journeys need a Python with the client: run `make setup`, or name one in PILLION_TEST_PYTHON (%v)", err)
	}
	return path
}

// oneBroker is a real Kafka that journeys share. They use topics and groups of their own and leave it alone.
func oneBroker(t *testing.T) []string {
	t.Helper()
	shared.start.Do(func() {
		shared.kafka, shared.err = kafkaproc.New(context.Background(), kafkaproc.Config{
			Dir: filepath.Join(shared.dir, "kafka"), Heap: "512m",
			Properties: map[string]string{"group.min.session.timeout.ms": "1000"},
		})
		if shared.err == nil {
			shared.err = shared.kafka.Start(context.Background())
		}
	})
	if shared.err != nil {
		t.Fatalf("start the shared kafka: %v", shared.err)
	}
	return shared.kafka.Addrs()
}
