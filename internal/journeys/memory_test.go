//go:build kafka

package journeys

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
)

// What lies in the changelog: as much as 1 GiB, half of which does not compress, in many partitions,
// so that the sidecar could hold hundreds of megabytes if nothing bounded it.
const (
	restoreBytes      = 1 << 30
	restorePartitions = 64
	restoreRow        = 10_000
	restoreKeys       = 20 // of each partition: what the worker holds is small
)

// A worker that reads nothing during a restore of 1 GiB costs the sidecar no more than it said at
// its start; then the worker reads on, and the restore ends.
func TestMemoryDuringALongRestore(t *testing.T) {
	j := newJob(t, oneBroker(t), restorePartitions)
	t.Cleanup(func() { kafkatest.DeleteTopic(t, j.addrs, j.changelog()) })
	began := time.Now()
	rows := j.fillChangelog()
	filled := time.Since(began)

	s := &sidecar{url: "unix:" + filepath.Join(j.place.dir, "s"), token: filepath.Join(j.place.dir, "token")}
	s.process = start(t, "sidecar", []string{"GOMEMLIMIT="}, plainBinary(t), "run", "--listen", s.url, "--token-file", s.token,
		"--bootstrap-servers", strings.Join(j.addrs, ","), "--group-id", j.group, "--on-lost-position", "earliest",
		"--log-format", "json", "--ops-listen", "127.0.0.1:0")
	bound := s.wait("memory that this sidecar takes at most").num("bound_bytes")
	if bound < 100<<20 || bound > 1<<30 {
		t.Fatalf("the bound is %d bytes", bound)
	}
	s.wait("probes and metrics")

	env := []string{"JOB_IN=" + j.in, "PILLION_URL=" + s.url, "PILLION_TOKEN_FILE=" + s.token}
	w := start(t, "worker", env, python(t), script("lazy.py"))
	w.wait("stops")
	until(t, "the worker's window is full", func() bool { return s.metric("pillion_unacknowledged_bytes") >= 1<<20 })
	began = time.Now()
	stalled := s.settled()
	stalledFor, goes := time.Since(began), time.Now()
	s.within(bound, "while the worker reads nothing")
	if sent := s.metric("pillion_message_bytes_total", `direction="to_worker"`, `kind="data"`); sent > 16<<20 {
		t.Errorf("%v bytes were sent to a worker that reads nothing", sent)
	}

	w.signal(sigcont)
	done := w.wait("restored", "tasks", restorePartitions)
	if done.num("records") != int64(rows) || done.num("bytes") < restoreBytes {
		t.Errorf("restored %d rows, %d bytes; want %d and %d", done.num("records"), done.num("bytes"), rows, restoreBytes)
	}
	s.within(bound, "while the restore went on")
	t.Logf("filled in %v, stalled for %v, restored in %v", filled, stalledFor, time.Since(goes))
	t.Logf("bound %d MiB, resident %d MiB while stalled, at most %d MiB", bound>>20, stalled>>20, s.status("VmHWM")>>20)
}

// fillChangelog writes the job's changelog, and gives the number of rows.
func (j *job) fillChangelog() int {
	j.t.Helper()
	kafkatest.CreateTopic(j.t, j.addrs, j.changelog(), j.partitions, map[string]string{"cleanup.policy": "compact"})
	noise := make([]byte, 1<<20)
	random := rand.NewChaCha8([32]byte{})
	random.Read(noise)
	rows := restoreBytes/restoreRow + 1
	const part = 10_000
	for from := 0; from < rows; from += part {
		records := make([]kafkatest.Record, min(part, rows-from))
		for i := range records {
			n := from + i
			value := make([]byte, restoreRow)
			copy(value[:restoreRow/2], noise[n*7919%(len(noise)-restoreRow):])
			p := n % int(j.partitions)
			key := fmt.Sprintf("key-%d-%d", p, n/int(j.partitions)%restoreKeys)
			records[i] = kafkatest.Record{Partition: int32(p), Key: []byte(key), Value: value}
		}
		codec := "none" // mostly: compressing takes long under the race detector
		if from/part%4 == 0 {
			codec = "lz4"
		}
		kafkatest.Produce(j.t, j.addrs, j.changelog(), records, kafkatest.Compressed(codec))
	}
	return rows
}

// plainBinary is pillion as users have it: the race detector needs several times the memory.
func plainBinary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pillion")
	if out, err := exec.Command("go", "build", "-o", path, checkout()+"/cmd/sidecar").CombinedOutput(); err != nil {
		t.Fatalf("build ./cmd/sidecar: %v\n%s", err, out)
	}
	return path
}

// status is a size of the process that the kernel counts, in bytes.
func (p *process) status(name string) int64 {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid()))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if _, err := fmt.Sscanf(line, name+": %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	p.t.Fatalf("the kernel does not tell %s", name)
	return 0
}

// settled waits until the process has hardly grown for a while, for a minute at most, and gives its size.
func (p *process) settled() int64 {
	p.t.Helper()
	const minute, flat, step = time.Minute, 5 * time.Second, 100 * time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	peak, since := int64(0), time.Now()
	for began := time.Now(); time.Since(began) < minute && time.Since(since) < flat; <-tick.C {
		if now := p.status("VmHWM"); now > peak+1<<20 {
			peak, since = now, time.Now()
		}
	}
	return p.status("VmRSS")
}

// within complains when the process has been larger than the bound.
func (p *process) within(bound int64, when string) {
	p.t.Helper()
	if peak := p.status("VmHWM"); peak > bound {
		p.t.Errorf("%s the sidecar took %d MiB, more than the %d MiB that it named", when, peak>>20, bound>>20)
	}
}
