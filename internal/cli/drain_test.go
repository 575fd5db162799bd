package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/pillion/pillion/bridge"
)

// A sidecar that has nothing and no Kafka drains at once, whoever asks and however often.
func TestDrainCommand(t *testing.T) {
	for name, listen := range map[string]string{"tcp": "127.0.0.1:0", "unix": "unix:" + filepath.Join(t.TempDir(), "worker.sock")} {
		t.Run(name, func(t *testing.T) {
			var s Settings
			for _, row := range settings {
				if err := row.set(&s, row.deflt); err != nil {
					t.Fatal(err)
				}
			}
			s.BootstrapServers, s.Listen, s.OpsListen = []string{"127.0.0.1:1"}, listen, ""
			c, err := newSidecar(s, testToken, hclog.NewNullLogger())
			if err != nil {
				t.Fatal(err)
			}
			over := make(chan error, 1)
			go func() { over <- c.Run(t.Context()) }()
			token := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(token, []byte(" "+testToken+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			at := strings.TrimPrefix(c.bridge.URL(), "ws://")
			if code, _, stderr := pillion(nil, "drain", "--listen", at); code != exitFail || !strings.Contains(stderr, "has not drained: the token is missing or wrong") {
				t.Errorf("without a token: %d %q", code, stderr)
			}
			if code, stdout, stderr := pillion([]string{"PILLION_URL=" + c.bridge.URL(), "PILLION_TOKEN_FILE=" + token}, "drain"); code != exitOK ||
				!strings.HasPrefix(stdout, "drained in ") || !strings.HasSuffix(stdout, ": there was no task to hand over\n") || stderr != "" {
				t.Errorf("got %d %q %q", code, stdout, stderr)
			}
			if err := <-over; err != nil {
				t.Error(err)
			}
			if code, _, stderr := pillion(nil, "drain", "--listen", at, "--token-file", token); code != exitFail || !strings.Contains(stderr, "no sidecar listens at "+at) {
				t.Errorf("after the end: %d %q", code, stderr)
			}
		})
	}
}

func TestDrainCommandMistakes(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--token-file", filepath.Join(t.TempDir(), "none")}, "cannot read token_file"},
		{[]string{"now"}, `takes no arguments, got "now"`},
		{[]string{"--group-id", "g"}, "lists the flags"},
		{[]string{"--listen", "a b"}, `listen "a b" is no address`},
		{[]string{"--listen", ""}, `listen "" is no address`},
		{[]string{"--listen", "unix:"}, `listen "unix:" is no address`},
		{[]string{"--token-file", tokenFile(t, "two\nlines")}, "does not hold a token: one line"},
		{[]string{"--token-file", tokenFile(t, strings.Repeat("x", 1<<20))}, "does not hold a token, it is 1048576 bytes long"},
	} {
		code, _, stderr := pillion(nil, append([]string{"drain"}, c.args...)...)
		if code != exitUsage || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: %d %q, want %q", c.args, code, stderr, c.want)
		}
	}
	if code, stdout, _ := pillion(nil, "drain", "--help"); code != exitOK || !strings.Contains(stdout, "--token-file") || strings.Contains(stdout, "--group-id") {
		t.Errorf("--help: %d %q", code, stdout)
	}
}

func tokenFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What is no sidecar's answer is not taken for one.
func TestStrangeAnswersToADrain(t *testing.T) {
	for answer, want := range map[string]string{
		"200 hello": "is no sidecar that can drain (200 OK)",
		"200 {}":    "is no sidecar that can drain (200 OK)",
		`404 {"code":"not_found","message":"nothing"}`:  "is too old to be drained this way",
		`504 {"code":"drain_timeout","message":"late"}`: "has not drained: late",
		`200 {"drained":true,"tasks":1,"took_ms":1234}`: "drained in 1.23s: 1 task handed over",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			var status int
			var rest string
			_, _ = fmt.Sscanf(answer, "%d", &status)
			_, rest, _ = strings.Cut(answer, " ")
			w.WriteHeader(status)
			fmt.Fprint(w, rest)
		}))
		got, err := askDrain(t.Context(), strings.TrimPrefix(server.URL, "http://"), "")
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", answer, got, want)
		}
		server.Close()
	}
	closing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer closing.Close()
	go func() {
		if c, err := closing.Accept(); err == nil {
			c.Close()
		}
	}()
	if _, err := askDrain(t.Context(), closing.Addr().String(), ""); err == nil || !strings.Contains(err.Error(), "ended without an answer") {
		t.Error(err)
	}
}

// Who asks for a drain hears how the session ended.
func TestHowADrainEnds(t *testing.T) {
	for name, c := range map[string]struct {
		failure error
		gaveUp  bool
		want    string
	}{
		"well":     {nil, false, ""},
		"refused":  {errors.New("Kafka refuses"), false, "Kafka refuses"},
		"a signal": {context.Canceled, false, "a signal ended this sidecar before it had drained"},
		"too late": {nil, true, bridge.ErrDrainTimeout.Error() + ": what the worker had not committed"},
	} {
		t.Run(name, func(t *testing.T) {
			tasks, begun := 3, 0
			d := &drains{tasks: func() int { return tasks }, ended: make(chan struct{})}
			d.begin = func() { begun++; tasks = 1 }
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := d.wait(ctx); err == nil || !strings.Contains(err.Error(), "was ended before it had drained") {
				t.Fatal(err)
			}
			d.over(c.failure, c.gaveUp)
			done, err := d.wait(ctx)
			if done.Tasks != 3 || begun != 2 {
				t.Errorf("%d tasks, begun %d times", done.Tasks, begun)
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if c.gaveUp != errors.Is(err, bridge.ErrDrainTimeout) {
				t.Errorf("%v is no timeout", err)
			}
		})
	}
}
