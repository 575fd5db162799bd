//go:build kafka

package journeys

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/internal/kafkatest/kafkaproc"
)

// lookup is a pair of examples/lookup, with a directory of its own.
type lookup struct {
	*sidecar
	address string
}

func newLookup(t *testing.T, addrs []string, group string, service ...string) *lookup {
	t.Helper()
	port, release, err := kafkaproc.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	flags := append([]string{"--group-id", group, "--num-standby-replicas", "1", "--", "sh", "-c", `cd "$0" && exec "$@"`, t.TempDir()}, service...)
	return &lookup{newPlace(t).run(t, addrs, []string{"ADDRESS=" + address}, flags...), address}
}

// count asks for a key, until there is an answer that is none of "ask again".
func (l *lookup) count(key string) (count int) {
	l.t.Helper()
	until(l.t, fmt.Sprintf("%s answers for %s", l.address, key), func() bool {
		status, body := l.ask("/counts/" + key)
		if status == http.StatusOK {
			var answer struct{ Count int }
			if err := json.Unmarshal(body, &answer); err != nil {
				l.t.Fatalf("%s: %v", body, err)
			}
			count = answer.Count
		} else if status != 0 && status != http.StatusServiceUnavailable {
			l.t.Fatalf("%s answers %d: %s", l.address, status, body)
		}
		return status == http.StatusOK
	})
	return count
}

var serves = regexp.MustCompile(`Started server process \[(\d+)\]|lookup: process (\d+) serves`)

// server is the service's process.
func (l *lookup) server() (pid int) {
	l.t.Helper()
	said := l.waitFor(0, "the server", func(e entry) bool { return serves.MatchString(e.text) })
	for _, n := range serves.FindStringSubmatch(said.text)[1:] {
		_, _ = fmt.Sscan(n, &pid)
	}
	return pid
}

// ask is one request; status 0 when nobody listens yet.
func (l *lookup) ask(path string) (status int, body []byte) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + l.address + path)
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	body, _ = io.ReadAll(res.Body)
	return res.StatusCode, body
}

// Two pairs of the look-up service, one in Python and one in Node. Each answers for every key, whoever owns it;
// when the worker of one dies the other one answers alone, with the same counts: each has read the other's table.
func TestAppLookup(t *testing.T) {
	t.Parallel()
	addrs, group := oneBroker(t), topicName(t)
	kafkatest.CreateTopic(t, addrs, "visits", 4, nil)
	t.Cleanup(func() { kafkatest.DeleteTopic(t, addrs, "visits") })
	visit := func(from, to int) {
		records := []kafkatest.Record{}
		for n := from; n < to; n++ {
			records = append(records, kafkatest.KV(fmt.Sprint("user-", n%20), "").On(kafkatest.ByKey))
		}
		kafkatest.Produce(t, addrs, "visits", records)
	}
	visit(0, 100)
	services := [][]string{{python(t), filepath.Join(checkout(), "examples/lookup/service.py")}, {"node", nodeExample(t, "lookup/service.js")}}
	one, two := newLookup(t, addrs, group, services[0]...), newLookup(t, addrs, group, services[1]...)
	for _, l := range []*lookup{one, two} {
		until(t, "half of the tasks are at "+l.address, func() bool {
			return l.metric("pillion_tasks", `state="running"`) == 2 && l.metric("pillion_tasks", `state="shadowing"`) == 2
		})
		until(t, "it is ready", func() bool { status, _ := l.ask("/ready"); return status == http.StatusOK })
	}
	counted := func(want int, who ...*lookup) {
		t.Helper()
		for n := range 20 {
			for _, l := range who {
				key := fmt.Sprint("user-", n)
				until(t, fmt.Sprintf("%s counts %d of %s", l.address, want, key), func() bool { return l.count(key) == want })
			}
		}
	}
	counted(5, one, two)
	if n := two.count("nobody"); n != 0 {
		t.Errorf("nobody was counted %d times", n)
	}

	if err := syscall.Kill(one.server(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	visit(100, 200)
	counted(10, two)
	if code := one.exit(); code != 128+int(syscall.SIGKILL) {
		t.Errorf("exit code %d, the worker was killed", code)
	}
	two.drain()
}
