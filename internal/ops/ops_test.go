package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/pillion/pillion/bridge"
	"github.com/pillion/pillion/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a Server whose session is status; alive is what the loop answers.
func server(t *testing.T, status *session.Status, alive error) *Server {
	t.Helper()
	s, err := New(Config{
		Listen: "127.0.0.1:0", Metrics: NewMetrics(), Logger: hclog.NewNullLogger(),
		Session: func() session.Status { return *status },
		Alive:   func(context.Context) error { return alive },
		Bridge:  func() bridge.Stats { return bridge.Stats{LastActivity: time.UnixMilli(1500)} },
		Copies: func() []session.Copy {
			if status.Standbys == 0 {
				return nil
			}
			return []session.Copy{{Task: session.TaskID{Set: "s"}, Lag: 7}, {Task: session.TaskID{Set: "t"}, Lag: 5}, {Lag: -1}, {Lag: 99, Kept: true}}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func get(s *Server, method, path string) (int, string) {
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Code, w.Body.String()
}

func TestProbes(t *testing.T) {
	ready := session.Status{Worker: true, Member: "m", Generation: 3}
	with := func(change func(*session.Status)) session.Status {
		s := ready
		change(&s)
		return s
	}
	stuck := errors.New("stuck")
	for _, c := range []struct {
		name, path string
		status     session.Status
		alive      error
		code       int
		body       string
	}{
		{"started at once", "/startupz", session.Status{}, stuck, 200, "ok"},
		{"alive without worker and Kafka", "/livez", session.Status{}, nil, 200, "ok"},
		{"alive while draining", "/livez", session.Status{Draining: true}, nil, 200, "ok"},
		{"a stuck loop", "/livez", ready, stuck, 503, "does not turn"},
		{"ready", "/readyz", ready, nil, 200, "ok"},
		{"no worker", "/readyz", with(func(s *session.Status) { s.Worker = false }), nil, 503, "no worker"},
		{"no member", "/readyz", with(func(s *session.Status) { s.Member = "" }), nil, 503, "no member"},
		{"draining", "/readyz", with(func(s *session.Status) { s.Draining = true }), nil, 503, "draining"},
		{"hung", "/readyz", with(func(s *session.Status) { s.Hung = true }), nil, 503, "hung"},
		{"Kafka is away", "/readyz", session.Status{WaitingFor: "no Kafka broker answers"}, nil, 503, "not checked yet: no Kafka broker answers"},
		{"verbose", "/readyz?verbose", ready, nil, 200, "generation: 3"},
		{"verbose", "/readyz?verbose", session.Status{}, nil, 503, "member: none\ngeneration: 0\ndraining: false\ntasks: none\nstandbys: none\ncommits outstanding: 0\nwaiting for: nothing\nno worker"},
		{"verbose", "/readyz?verbose", with(func(s *session.Status) { s.Tasks = map[string]int{"running": 3, "parked": 1} }), nil, 200, "tasks: parked 1, running 3\n"},
		{"verbose", "/readyz?verbose", with(func(s *session.Status) { s.Standbys = 3 }), nil, 200, "standbys: 3, at most 7 behind, 1 of them not known\n"},
		{"index", "/", ready, nil, 200, "/readyz"},
		{"worker alive", "/worker-livez", ready, nil, 200, "ok"},
		{"worker hung", "/worker-livez", with(func(s *session.Status) { s.Hung = true }), nil, 503, "hung"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, body := get(server(t, &c.status, c.alive), "GET", c.path)
			if code != c.code || !strings.Contains(body, c.body) {
				t.Errorf("%s: %d %q, want %d with %q", c.path, code, body, c.code, c.body)
			}
		})
	}
}

func TestOnlyGetIsServed(t *testing.T) {
	s := server(t, &session.Status{}, nil)
	for _, path := range []string{"/startupz", "/livez", "/readyz", "/worker-livez"} {
		if code, _ := get(s, "POST", path); code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d, want 405", path, code)
		}
	}
}

// docs/metrics.md and the code list the same metrics.
func TestEveryMetricIsDocumented(t *testing.T) {
	status := session.Status{Tasks: map[string]int{"running": 2}, Standbys: 3}
	s := server(t, &status, nil)
	hooks := s.cfg.Metrics.Bridge()
	hooks.Refused(401)
	hooks.Closed(4409)
	hooks.Received("control", 1)
	hooks.Dropped("stale", 1)
	s.cfg.Metrics.Step("produce", time.Now(), nil)
	_, body := get(s, "GET", "/metrics")
	doc, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	served := names(regexp.MustCompile(`(?m)^# TYPE (pillion_\w+)`), body)
	documented := names(regexp.MustCompile("(?m)^\\| `(pillion_\\w+)"), string(doc))
	if !slices.Equal(served, documented) {
		t.Errorf("served:     %v\ndocumented: %v", served, documented)
	}
}

func names(pattern *regexp.Regexp, text string) []string {
	var list []string
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	slices.Sort(list)
	return list
}

func TestRunServesUntilItIsTold(t *testing.T) {
	s := server(t, &session.Status{}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(fmt.Sprintf("http://%s/startupz", s.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if string(body) != "ok\n" {
		t.Errorf("startupz says %q", body)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAnAddressInUseIsSaidInWords(t *testing.T) {
	first := server(t, &session.Status{}, nil)
	_, err := New(Config{Listen: first.Addr().String(), Metrics: NewMetrics()})
	if err == nil || !strings.Contains(err.Error(), "choose another address with --ops-listen") {
		t.Errorf("got %v", err)
	}
}
