//go:build kafka

package journeys

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sidecar is a running `pillion run`, alone or with a worker as its child.
type sidecar struct {
	*process
	url, token string // for a worker that is started beside it
}

// place is where a sidecar listens; a restarted one listens there again.
type place struct {
	dir   string
	timed bool // time is measured: without the race detector
}

func newPlace(t *testing.T) place {
	t.Helper()
	dir, err := os.MkdirTemp("", "pj-") // short: the path of a socket has a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("a secret of the test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return place{dir: dir}
}

// run starts `pillion run` with these flags; after "--" comes a worker's command, which gets env.
func (at place) run(t *testing.T, addrs, env []string, flags ...string) *sidecar {
	t.Helper()
	s := &sidecar{url: "unix:" + filepath.Join(at.dir, "s"), token: filepath.Join(at.dir, "token")}
	if !slices.Contains(flags, "--workers") { // each pair listens somewhere else
		flags = append([]string{"--listen", s.url}, flags...)
	}
	pillion := binary
	if at.timed {
		pillion = timedBinary
	}
	s.process = start(t, "sidecar", env, append([]string{
		pillion(t), "run", "--bootstrap-servers", strings.Join(addrs, ","), "--log-format", "json", "--log-level", "debug",
		"--ops-listen", "127.0.0.1:0", "--token-file", s.token,
	}, flags...)...)
	t.Cleanup(func() {
		if raced := s.since(0, func(e entry) bool { return strings.Contains(e.text, "DATA RACE") }); len(raced) > 0 {
			t.Errorf("the race detector complains:\n%s", s.tail(200))
		}
	})
	s.wait("probes and metrics")
	return s
}

// get asks the sidecar's probes.
func (s *sidecar) get(path string) (status int, body string) {
	s.t.Helper()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + s.wait("probes and metrics").str("address") + path)
	if err != nil {
		s.t.Fatalf("ask the sidecar: %v", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatalf("ask the sidecar: %v", err)
	}
	return res.StatusCode, string(text)
}

// metric is the sum of a metric's series whose labels contain all of these, such as kind="commit".
func (s *sidecar) metric(name string, labels ...string) float64 {
	s.t.Helper()
	_, text := s.get("/metrics")
	sum := 0.0
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		series, value, _ := strings.Cut(lines.Text(), " ")
		if base, _, _ := strings.Cut(series, "{"); base != name {
			continue
		}
		fits := true
		for _, l := range labels {
			fits = fits && strings.Contains(series, l)
		}
		if v, err := strconv.ParseFloat(value, 64); fits && err == nil {
			sum += v
		}
	}
	return sum
}

func (s *sidecar) generation() int { s.t.Helper(); return int(s.metric("pillion_group_generation")) }

// running waits until n tasks have their records flowing.
func (s *sidecar) running(n int) {
	s.t.Helper()
	until(s.t, strconv.Itoa(n)+" tasks run", func() bool { return s.metric("pillion_tasks", `state="running"`) == float64(n) })
}

// drain is SIGTERM where nothing stands in the way: exit code 0, and no timeout had to help.
func (s *sidecar) drain() {
	s.t.Helper()
	began := time.Now()
	if code := s.stop(); code != 0 {
		s.t.Errorf("exit code %d", code)
	}
	if took := time.Since(began); took > 15*time.Second {
		s.t.Errorf("the drain took %v", took)
	}
}

// workerPID is the process of the latest worker that is our child.
func (s *sidecar) workerPID() int {
	s.t.Helper()
	s.wait("start")
	starts := s.since(0, func(e entry) bool { return e.is("start") })
	return int(starts[len(starts)-1].num("pid"))
}
