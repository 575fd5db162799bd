//go:build kafka

package journeys

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/internal/kafkatest/kafkaproc"
)

// hush is what nobody may see.
const hush = "hush-4711-hush"

// run runs pillion to its end and gives all that it printed.
func runToEnd(t *testing.T, env []string, args ...string) (code int, said string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary(t), args...)
	cmd.Env = append(without(os.Environ(), "PILLION_"), env...)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Errorf("it did not end\n%s", out)
	}
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func (s *secured) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What is refused at the start ends the process with one sentence, and no secret is in it.
func TestARefusalAtTheStartEndsTheProcess(t *testing.T) {
	k := newSecured(t, kafkaproc.Secure{Plain: map[string]string{"paul": "pw-of-paul"}})
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, secret, _ := r.BasicAuth()
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, "%s %s", secret, r.FormValue("client_secret")) // an endpoint that echoes
	}))
	t.Cleanup(endpoint.Close) // the cases run when this function has returned
	broker := k.SecureAddrs()[0]
	tls := []string{"--security-protocol", "SASL_SSL", "--ssl-ca-file", k.Files.CA}
	user := []string{"--sasl-mechanism", "SCRAM-SHA-256", "--sasl-username", "carol"}
	secret := k.file(t, "secret", hush+"\n")
	env := []string{"PILLION_SASL_PASSWORD=" + hush}
	join := func(parts ...[]string) (all []string) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	bearer := join(tls, []string{"--sasl-mechanism", "OAUTHBEARER"})
	token := k.file(t, "token", hush)
	for _, c := range []struct {
		name string
		env  []string
		args []string
		code int
		want string
	}{
		{"password of the environment", env, join(tls, user), 1, "refuses User:carol with SCRAM-SHA-256: check sasl_username and the password in PILLION_SASL_PASSWORD, "},
		{"password of a file", nil, join(tls, user, []string{"--sasl-password-file", secret}), 1, "refuses User:carol with SCRAM-SHA-256: check sasl_username and the password in sasl_password_file (" + secret + "), "},
		{"PLAIN", env, join(tls, []string{"--sasl-mechanism", "PLAIN", "--sasl-username", "paul"}), 1, "refuses User:paul with PLAIN: "},
		{"no TLS", env, join([]string{"--security-protocol", "SASL_PLAINTEXT"}, user), 1, "speaks TLS at this port: set security_protocol to SASL_SSL"},
		{"plain", nil, nil, 1, "speaks TLS at this port: set security_protocol to SSL"},
		{"unknown authority", env, join([]string{"--security-protocol", "SASL_SSL"}, user), 1, "is of an authority that is not trusted here: "},
		{"another host", env, join(tls, user, []string{"--ssl-server-name", "kafka.example.com"}), 1, "and not for kafka.example.com: "},
		{"token", nil, join(bearer, []string{"--sasl-oauthbearer-token-file", token}), 1, "refuses the token of User:"},
		{"token command", nil, join(bearer, []string{"--sasl-oauthbearer-token-command", "cat " + token + "; cat " + token + " >&2; exit 1"}), 1, "sasl_oauthbearer_token_command failed (exit status 1)"},
		{"token endpoint", nil, join(bearer, []string{"--sasl-oauthbearer-token-endpoint-url", endpoint.URL, "--sasl-oauthbearer-client-id", "app", "--sasl-oauthbearer-client-secret-file", secret}), 1, "gives client app no token (HTTP 401)"},
		{"no password", nil, join(tls, user), 2, "needs a secret: set sasl_password_file "},
		{"two passwords", env, join(tls, user, []string{"--sasl-password-file", secret}), 2, "are both set: leave one out"},
		{"a password as a flag", nil, join(tls, user, []string{"--sasl-password=" + hush}), 2, "unknown flag: --sasl-password; "},
		{"a password in the file", nil, []string{"--config", k.file(t, "config", "sasl_password: "+hush+"\n")}, 2, `unknown key "sasl_password"`},
		{"a URL with a password", nil, join(bearer, []string{"--sasl-oauthbearer-token-endpoint-url", "https://app:" + hush + "@example.com"}), 2, "sasl_oauthbearer_token_endpoint_url (--sasl-oauthbearer-token-endpoint-url) holds a user or password"},
		{"no mechanism", env, tls, 2, "sasl_mechanism is missing"},
		{"print", env, join(tls, user, []string{"--sasl-oauthbearer-client-secret-file", secret, "--print-config"}), 0, "sasl_username: carol "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"run", "--bootstrap-servers", broker, "--listen", "unix:" + filepath.Join(newPlace(t).dir, "s"), "--ops-listen", "", "--log-level", "debug"}, c.args...)
			code, said := runToEnd(t, c.env, args...)
			if code != c.code || !strings.Contains(said, c.want) {
				t.Errorf("exit code %d, want %d with %q:\n%s", code, c.code, c.want, said)
			}
			if strings.Contains(said, hush) {
				t.Errorf("the secret shows:\n%s", said)
			}
			if last := said[strings.LastIndex(strings.TrimSpace(said), "\n")+1:]; c.code != 0 && !strings.HasPrefix(last, "pillion: ") {
				t.Errorf("it ends with %q", last)
			}
			if c.code != 1 {
				return
			}
			// Who only looks is told the same.
			code, said = runToEnd(t, c.env, append([]string{"group", "--bootstrap-servers", broker, "--group-id", "any"}, c.args...)...)
			if code != 1 || !strings.Contains(said, c.want) || strings.Contains(said, hush) {
				t.Errorf("group: exit code %d, want 1 with %q:\n%s", code, c.want, said)
			}
		})
	}
}

// A password that is changed while the sidecar runs: it waits, says why, and goes on when the file is right.
// Meanwhile nothing shows the secret, and the worker has not inherited it.
func TestAPasswordIsChanged(t *testing.T) {
	const reauth = 4 * time.Second
	k := newSecured(t, kafkaproc.Secure{Reauth: reauth})
	j := newJob(t, k.Addrs(), 2)
	for _, r := range rights(t) {
		k.allow(t, r.acl(t, j, carol))
	}
	feeding := j.feed(0)
	clean := k.file(t, "clean", "pw-of-carol")
	flags := k.flags("--group-id", j.group, "--sasl-password-file", clean)
	env := append(j.env(), "PILLION_SASL_OAUTHBEARER_CLIENT_SECRET=") // known, though empty
	s := j.place.run(t, j.addrs, env, append(flags, "--", python(t), script(j.program))...)
	s.running(2)
	begun := s.mark()
	if err := k.SetPassword(t.Context(), "carol", hush); err != nil {
		t.Fatal(err)
	}
	// The broker asks again within 4 s; the old password is over.
	s.waitFor(begun, "the refusal", func(e entry) bool {
		return e.is("waiting") && strings.Contains(e.str("error"), "refuses User:carol with SCRAM-SHA-256: check sasl_username and the password in sasl_password_file ("+clean+")")
	})
	begun = s.mark()
	if err := os.WriteFile(clean, []byte(hush+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.waitSince(begun, "no longer waiting")
	feeding.end()
	j.finish()

	pid := s.workerPID()
	for _, path := range []string{
		"/proc/" + strconv.Itoa(s.pid()) + "/cmdline", "/proc/" + strconv.Itoa(pid) + "/cmdline", "/proc/" + strconv.Itoa(pid) + "/environ",
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), hush) || strings.Contains(string(text), "SECRET") {
			t.Errorf("%s: a secret shows: %q", path, text)
		}
	}
	for _, page := range []string{"/metrics", "/status", "/readyz"} {
		if _, text := s.get(page); strings.Contains(text, hush) {
			t.Errorf("%s: a secret shows", page)
		}
	}
	s.drain()
	j.check()
	if shown := s.since(0, func(e entry) bool { return strings.Contains(e.text, hush) }); len(shown) > 0 {
		t.Errorf("a secret shows: %s", shown[0].text)
	}
}

// INVARIANT: a worker inherits no secret, and at a broker that demands a new authentication every 4 s nothing
// is ever refused, waited for or lost: neither to a pair that works nor in its log.
func TestASteadyPairIsNeverInterrupted(t *testing.T) {
	k := newSecured(t, kafkaproc.Secure{Reauth: 4 * time.Second})
	j := newJob(t, k.Addrs(), 2)
	for _, r := range rights(t) {
		k.allow(t, r.acl(t, j, carol))
	}
	feeding := j.feed(0)
	var flags []string
	for _, f := range k.flags("--group-id", j.group) {
		if f != "--sasl-password-file" && f != k.password {
			flags = append(flags, f)
		}
	}
	env := append(j.env(), "PILLION_SASL_PASSWORD=pw-of-carol")
	s := j.place.run(t, j.addrs, env, append(flags, "--", python(t), script(j.program))...)
	s.running(2)
	begun := time.Now()
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(s.workerPID()) + "/environ")
	if err != nil || strings.Contains(string(environ), "pw-of-carol") || strings.Contains(string(environ), "PILLION_SASL") {
		t.Errorf("the worker has %q, %v", environ, err)
	}
	// Six authentications of each connection.
	until(t, "24 s have passed", func() bool { return time.Since(begun) > 24*time.Second })
	feeding.end()
	j.finish()
	s.drain()
	j.check()
	for _, e := range s.since(0, func(e entry) bool { // a broker that is only slow may be waited for
		for _, word := range []string{"EOF", "reset by peer", "broken pipe", "authenticating again", "refuses", "SASL"} {
			if strings.Contains(e.text, word) {
				return true
			}
		}
		return false
	}) {
		t.Errorf("it complains: %s", e.text)
	}
	if n := kafkatest.EndOffsets(t, j.addrs, j.in)[0].Stable; n < 50 {
		t.Errorf("only %d inputs were processed", n)
	}
}
