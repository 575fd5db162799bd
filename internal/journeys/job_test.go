//go:build kafka

package journeys

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
)

// job is the reference job on topics and with a group of its own.
type job struct {
	t          *testing.T
	addrs      []string
	group      string
	in, out    string
	partitions int32
	keys       int           // of each partition
	pad        int           // bytes of a row of the table, at least
	pause      time.Duration // between the few inputs that feed produces at a time
	window     int           // credit of the worker; little, so that a worker that is behind gets larger batches
	place      place
	state      string   // the worker's directory
	program    string   // the worker, in testdata
	declares   []string // more of its environment
	guarantee  string   // processing_guarantee; empty: the default, exactly_once
}

// flags are those of every sidecar of the job.
func (j *job) flags(more []string) []string {
	flags := []string{"--group-id", j.group}
	if j.guarantee != "" {
		flags = append(flags, "--processing-guarantee", j.guarantee)
	}
	return append(flags, more...)
}

// mayRepeat says whether a sidecar that dies may leave something to be done twice.
func (j *job) mayRepeat() bool { return j.guarantee == atLeastOnce }

const (
	atLeastOnce = "at_least_once"
	exactlyOnce = "exactly_once"
)

// changelog is the topic behind the job's table.
func (j *job) changelog() string { return j.changelogOf("counts") }

func (j *job) changelogOf(table string) string { return j.group + "-" + table + "-changelog" }

// newJob creates the topics. Every key belongs to one partition.
func newJob(t *testing.T, addrs []string, partitions int32) *job {
	t.Helper()
	name := strings.NewReplacer("/", "-", " ", "-").Replace(t.Name()) + "-" + strconv.FormatUint(rand.Uint64(), 36)[:5]
	j := &job{
		t: t, addrs: addrs, group: name, in: name + "-in", out: name + "-out",
		partitions: partitions, keys: 20, pause: 10 * time.Millisecond, window: 16 << 10, place: newPlace(t), state: t.TempDir(), program: "counts.py",
	}
	kafkatest.CreateTopic(t, addrs, j.in, partitions, nil)
	kafkatest.CreateTopic(t, addrs, j.out, partitions, nil)
	return j
}

// sidecar starts a sidecar without a worker.
func (j *job) sidecar(flags ...string) *sidecar {
	j.t.Helper()
	return j.place.run(j.t, j.addrs, nil, j.flags(flags)...)
}

// pair starts a sidecar with the job's worker as its child.
func (j *job) pair(flags ...string) *sidecar {
	j.t.Helper()
	return j.place.run(j.t, j.addrs, j.env(), append(j.flags(flags), "--", python(j.t), script(j.program))...)
}

// worker starts the job's worker beside a sidecar.
func (j *job) worker(s *sidecar, env ...string) *process {
	j.t.Helper()
	env = append(j.env(), append([]string{"PILLION_URL=" + s.url, "PILLION_TOKEN_FILE=" + s.token}, env...)...)
	return start(j.t, "worker", env, python(j.t), script(j.program))
}

func (j *job) env() []string {
	return append([]string{
		"JOB_IN=" + j.in, "JOB_OUT=" + j.out, "JOB_STATE=" + j.state,
		"JOB_PAD=" + strconv.Itoa(j.pad), "JOB_WINDOW=" + strconv.Itoa(j.window),
	}, j.declares...)
}

func script(name string) string {
	return filepath.Join(checkout(), "internal", "journeys", "testdata", name)
}

// loseDisk removes the worker's tables. It is not running.
func (j *job) loseDisk() {
	j.t.Helper()
	if err := os.RemoveAll(filepath.Join(j.state, "tables")); err != nil {
		j.t.Fatal(err)
	}
}

// ask makes the worker do something (stop, or block N) the next time it comes to a point; see counts.py.
func (j *job) ask(point, action string) {
	j.t.Helper()
	if err := os.WriteFile(filepath.Join(j.state, "at-"+point+".new"), []byte(action), 0o644); err != nil {
		j.t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(j.state, "at-"+point+".new"), filepath.Join(j.state, "at-"+point)); err != nil {
		j.t.Fatal(err)
	}
}

// killChild is SIGKILL to the latest worker of a pair; it waits until that one is gone.
func killChild(s *sidecar) {
	s.t.Helper()
	pid := s.workerPID()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		s.t.Fatalf("kill the worker: %v", err)
	}
	until(s.t, "the worker is gone", func() bool { return syscall.Kill(pid, 0) != nil })
}

// finish waits until everything that is in the input now is committed.
func (j *job) finish() {
	j.t.Helper()
	ends := kafkatest.EndOffsets(j.t, j.addrs, j.in)
	until(j.t, "every input is committed", func() bool {
		at := kafkatest.CommittedOffsets(j.t, j.addrs, j.group)
		for p, end := range ends {
			if end.Stable > 0 && at[kafkatest.TopicPartition{Topic: j.in, Partition: p}].Offset != end.Stable {
				return false
			}
		}
		return true
	})
}

// committed is how many inputs are committed.
func (j *job) committed() int64 {
	j.t.Helper()
	n := int64(0)
	for _, c := range kafkatest.CommittedOffsets(j.t, j.addrs, j.group) {
		n += c.Offset
	}
	return n
}

// check waits until every input is committed, and compares everything with the inputs: every output
// once, every count exact, no changelog record twice.
func (j *job) check() {
	j.t.Helper()
	if again := j.checkButFor(func(kafkatest.Record) bool { return false }); len(again) > 0 {
		j.t.Errorf("%d outputs came twice", len(again))
	}
	latest := map[string]int{}
	for _, r := range kafkatest.ReadAll(j.t, j.addrs, j.changelog(), true) {
		if n := number(j.t, r); n > latest[string(r.Key)] {
			latest[string(r.Key)] = n
			continue
		}
		j.t.Errorf("changelog: %q at offset %d of partition %d is %q, and was %d before: written twice",
			r.Key, r.Offset, r.Partition, r.Value, latest[string(r.Key)])
	}
}

// checkButFor is check where some inputs may have been processed once more, if that is all that is promised. It
// gives those whose output came twice. Changelog and output of a commit are written to different partitions: a sidecar that is
// killed may leave one without the other, so that a count may have grown where no output was repeated.
func (j *job) checkButFor(mayRepeat func(input kafkatest.Record) bool) (repeated []kafkatest.Record) {
	j.t.Helper()
	j.finish()
	outputs := map[string]int{}
	for _, r := range kafkatest.ReadAll(j.t, j.addrs, j.out, true) {
		outputs[string(r.Value)]++
	}
	counts := j.latest()
	want, counted, most := map[string]int{}, map[string]int{}, map[string]int{}
	for _, r := range kafkatest.ReadAll(j.t, j.addrs, j.in, true) {
		want[string(r.Value)] = 1
		counted[string(r.Key)]++
		most[string(r.Key)]++
		if !j.mayRepeat() || !mayRepeat(r) {
			continue
		}
		most[string(r.Key)]++
		if outputs[string(r.Value)] == 2 {
			want[string(r.Value)] = 2
			repeated = append(repeated, r)
		}
	}
	for key, n := range counts {
		if counted[key] <= n && n <= most[key] {
			counted[key] = n
		}
	}
	compare(j.t, "outputs", outputs, want)
	compare(j.t, "changelog", counts, counted)
	return repeated
}

// latest is the changelog's last count of each key.
func (j *job) latest() map[string]int {
	j.t.Helper()
	out := map[string]int{}
	for _, r := range kafkatest.ReadAll(j.t, j.addrs, j.changelog(), true) {
		out[string(r.Key)] = number(j.t, r)
	}
	return out
}

func number(t *testing.T, r kafkatest.Record) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(string(r.Value)))
	if err != nil {
		t.Fatalf("the changelog holds %q for %q", r.Value, r.Key)
	}
	return n
}

// files compares the worker's SQLite files with the changelog's latest values. The worker has ended.
func (j *job) files() {
	j.t.Helper()
	g := &gang{job: j, dirs: map[string]string{"the workers": j.state}}
	if whole := g.copies(); whole < int(j.partitions) {
		j.t.Errorf("only %d stores hold all of their partition, of %d", whole, j.partitions)
	}
}

// compare shows where two maps differ.
func compare(t *testing.T, what string, got, want map[string]int) {
	t.Helper()
	if maps.Equal(got, want) {
		return
	}
	var wrong []string
	for k, n := range want {
		if got[k] != n {
			wrong = append(wrong, fmt.Sprintf("%s: %d, want %d", k, got[k], n))
		}
	}
	for k, n := range got {
		if _, ok := want[k]; !ok {
			wrong = append(wrong, fmt.Sprintf("%s: %d, want none", k, n))
		}
	}
	text, _ := json.Marshal(wrong[:min(len(wrong), 12)])
	t.Errorf("%s: %d of %d differ: %s", what, len(wrong), len(want), text)
}
