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
	build sync.Once
	built error
	start sync.Once
	kafka *kafkaproc.Kafka
	err   error
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

// binary is pillion, built once, with the race detector.
func binary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(shared.dir, "pillion")
	shared.build.Do(func() {
		out, err := exec.Command("go", "build", "-race", "-o", path, checkout()+"/cmd/sidecar").CombinedOutput()
		if err != nil {
			shared.built = fmt.Errorf("build ./cmd/sidecar: %w\n%s", err, out)
		}
	})
	if shared.built != nil {
		t.Fatal(shared.built)
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
