//go:build kafka

package journeys

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/internal/kafkatest/kafkaproc"
)

// right is a row of the table in docs/security.md.
type right struct{ resource, name, operation, without string }

// rights are those of a sidecar.
func rights(t *testing.T) []right { t.Helper(); return tableOfRights(t, "acls", 9) }

// tableOfRights reads the page, so that it and the tests cannot differ.
func tableOfRights(t *testing.T, name string, count int) (all []right) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(checkout(), "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)<!-- " + name + " -->(.*)<!-- /" + name + " -->").FindSubmatch(page)
	if found == nil {
		t.Fatal("docs/security.md has no such table of ACLs: " + name)
	}
	for line := range strings.Lines(string(found[1])) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 || strings.HasPrefix(cells[0], " ---") || strings.TrimSpace(cells[0]) == "resource" {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		all = append(all, right{cells[0], cells[1], cells[2], cells[4]})
	}
	if len(all) != count {
		t.Fatalf("docs/security.md has a table of %d ACLs, this test knows %d", len(all), count)
	}
	return all
}

// acl is a right for a job's names.
func (r right) acl(t *testing.T, j *job, principal string) kafkaproc.ACL {
	t.Helper()
	a := kafkaproc.ACL{Principal: principal, Resource: r.resource, Operation: r.operation}
	switch r.name {
	case "each source":
		a.Name = j.in
	case "each changelog":
		a.Name = j.changelog()
	case "each output":
		a.Name = j.out
	case "the group":
		a.Name = j.group
	case "the group's name and a dash, prefixed":
		a.Name, a.Prefixed = j.group+"-", true // what is said has more behind it
	default:
		t.Fatalf("docs/security.md names %q, which this test does not know", r.name)
	}
	return a
}

// secured is a Kafka with the users of its tests, and a sidecar's flags for it.
type secured struct {
	*kafkaproc.Kafka
	password string // file
}

const carol = "User:carol"

func newSecured(t *testing.T, s kafkaproc.Secure, options ...kafkatest.Option) *secured {
	t.Helper()
	s.Scram = map[string]string{"carol": "pw-of-carol"}
	k := kafkatest.Cluster(t, 1, append(options, kafkatest.Secured(s), kafkatest.Heap("512m"))...)
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte("pw-of-carol\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &secured{Kafka: k.Process(), password: path}
}

// flags let a sidecar in as carol. Those of the journeys' own come before and are overruled.
func (s *secured) flags(more ...string) []string {
	return append([]string{
		"--bootstrap-servers", strings.Join(s.SecureAddrs(), ","), "--security-protocol", "SASL_SSL", "--ssl-ca-file", s.Files.CA,
		"--sasl-mechanism", "SCRAM-SHA-256", "--sasl-username", "carol", "--sasl-password-file", s.password,
	}, more...)
}

func (s *secured) allow(t *testing.T, acls ...kafkaproc.ACL) {
	t.Helper()
	if err := s.Allow(context.Background(), acls...); err != nil {
		t.Fatal(err)
	}
}

// The table of docs/security.md is enough: workers with tables and copies, one that is killed, and drains.
func TestTheLeastRights(t *testing.T) {
	k := newSecured(t, kafkaproc.Secure{})
	for _, guarantee := range []string{"exactly_once", "at_least_once"} {
		t.Run(guarantee, func(t *testing.T) {
			t.Parallel()
			g := newGang(t, k.Addrs(), 3, k.flags("--processing-guarantee", guarantee)...)
			for _, r := range rights(t) {
				k.allow(t, r.acl(t, g.job, carol))
			}
			g.join("a", "b")
			feeding := g.feed(0)
			g.settled("a", "b")
			g.pairs["a"].kill()
			g.settled("b")
			g.join("c")
			g.settled("b", "c")
			g.pairs["b"].drain()
			g.settled("c")
			feeding.end()
			g.finish()
			g.end("c")
			if guarantee == "exactly_once" {
				g.check()
			}
			for name, s := range g.pairs {
				if refused := s.since(0, func(e entry) bool {
					return strings.Contains(e.text, "Kafka refuses") || strings.Contains(e.text, "AUTHORIZATION")
				}); len(refused) > 0 {
					t.Errorf("%s was refused something:\n%s", name, refused[0].text)
				}
			}
		})
	}
}

// Each right of the table is needed: without it the sentence of the page is said.
func TestEachMissingRightIsNamed(t *testing.T) {
	k := newSecured(t, kafkaproc.Secure{})
	all := rights(t)
	for i, missing := range all {
		t.Run(strings.NewReplacer(" ", "-", "'", "", ",", "").Replace(missing.operation+" "+missing.name), func(t *testing.T) {
			t.Parallel()
			j := newJob(t, k.Addrs(), 1)
			if missing.operation != "Create" {
				kafkatest.CreateTopic(t, j.addrs, j.changelog(), j.partitions, map[string]string{"cleanup.policy": "compact"})
			}
			gone := missing.acl(t, j, carol)
			for other, r := range all {
				if other != i || missing.late() {
					k.allow(t, r.acl(t, j, carol))
				}
			}
			kafkatest.Produce(t, j.addrs, j.in, []kafkatest.Record{kafkatest.KV("k", "1")})
			if missing.late() { // it shows only when there is something to be read
				s := j.pair(k.flags()...)
				j.finish()
				s.drain()
				j.loseDisk()
				if err := k.Disallow(context.Background(), gone); err != nil {
					t.Fatal(err)
				}
			}
			s := j.pair(k.flags()...)
			want := missing.sentence(gone)
			until(t, want, func() bool {
				return len(s.since(0, func(e entry) bool { return strings.Contains(e.text, want) })) > 0
			})
			missing.outcome(t, j, s)
		})
	}
}

// late: the right is not asked for in a task that has never been anywhere.
func (r right) late() bool { return r.name == "each changelog" && r.operation == "Read" }

// sentence is what is said without the right.
func (r right) sentence(acl kafkaproc.ACL) string {
	on := acl.Resource + " " + acl.Name
	if acl.Prefixed { // the rest of the id is random
		return "Kafka refuses " + carol + " the operation " + r.operation + " on " + on
	}
	return "Kafka refuses " + carol + " the operation " + r.operation + " on " + on + ": grant " + r.operation + " to " + carol + " on " + on + " with an ACL"
}

// outcome checks what the page says that happens beside the sentence.
func (r right) outcome(t *testing.T, j *job, s *sidecar) {
	t.Helper()
	coded := func(code string) {
		t.Helper()
		if len(s.since(0, func(e entry) bool { return e.str("code") == code })) == 0 {
			t.Errorf("nothing has the code %s:\n%s", code, s.tail(20))
		}
	}
	ends := func(codes ...int) {
		t.Helper()
		select {
		case <-s.ended:
		case <-time.After(patience):
			t.Fatalf("it has not ended:\n%s", s.tail(20))
		}
		if !slices.Contains(codes, s.code) {
			t.Errorf("exit code %d, want one of %v\n%s", s.code, codes, s.tail(20))
		}
	}
	switch r.without {
	case "refused": // the Python worker ends, and takes the sidecar along that started it
		ends(2)
		coded("kafka_refused")
	case "ended":
		ends(1, 2) // or the worker's own, which hears of it at the same time
		coded("kafka_refused")
	case "commit refused":
		coded("kafka_refused")
		if j.committed() > 0 {
			t.Error("the commit is in Kafka")
		}
	case "warned": // everything works
		j.finish()
		s.stop()
	default:
		t.Fatalf("docs/security.md says %q, which this test does not know", r.without)
	}
}

// Who only asks needs less, and is told what is missing.
func TestRightsToAsk(t *testing.T) {
	t.Parallel()
	k := newSecured(t, kafkaproc.Secure{Plain: map[string]string{"paul": "pw-of-paul"}})
	j := newJob(t, k.Addrs(), 1)
	for _, r := range rights(t) {
		k.allow(t, r.acl(t, j, carol))
	}
	s := j.pair(k.flags()...)
	s.running(1)
	const paul = "User:paul"
	ask := func() (int, string) {
		t.Helper()
		return runToEnd(t, []string{"PILLION_SASL_PASSWORD=pw-of-paul"}, "group", "--bootstrap-servers", k.SecureAddrs()[0], "--group-id", j.group,
			"--security-protocol", "SASL_SSL", "--ssl-ca-file", k.Files.CA, "--sasl-mechanism", "PLAIN", "--sasl-username", "paul")
	}
	for _, r := range tableOfRights(t, "group acls", 2) {
		acl := r.acl(t, j, paul)
		want := "Kafka refuses " + paul + " the operation " + r.operation + " on " + acl.Resource + " " + acl.Name + ": grant "
		if code, said := ask(); code != 1 || !strings.Contains(said, want) {
			t.Errorf("exit code %d, want 1 with %s\n%s", code, want, said)
		}
		k.allow(t, acl)
		until(t, "the right is known", func() bool { _, said := ask(); return !strings.Contains(said, want) })
	}
	if code, said := ask(); code != 0 || !strings.Contains(said, j.in) {
		t.Errorf("with all rights: exit code %d\n%s", code, said)
	}
	s.drain()
}

// The examples of docs/security.md are let in as they are; only hosts and files are those of the test.
func TestTheExamplesOfTheSecurityPage(t *testing.T) {
	t.Parallel()
	s := kafkaproc.Secure{}
	for _, p := range []string{carol, "User:CN=client"} {
		s.ACLs = append(s.ACLs, kafkaproc.ACL{Principal: p, Resource: "group", Name: "nobody", Operation: "Describe"})
	}
	k := newSecured(t, s)
	token := unsecuredToken("carol")
	endpoint := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		if id != "carol" || secret != "secret-of-carol" || r.FormValue("scope") != "kafka" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":600}`, token)
	}))
	defer endpoint.Close()
	authorities, err := os.ReadFile(k.Files.CA)
	if err != nil {
		t.Fatal(err)
	}
	authorities = append(authorities, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: endpoint.Certificate().Raw})...)
	real := strings.NewReplacer(
		"kafka.example.com:9093", k.SecureAddrs()[0], "kafka.example.com:9094", k.Nodes[0].CertAddr,
		"https://login.example.com/oauth2/token", endpoint.URL,
		"/etc/pillion/ca.pem", k.file(t, "ca.pem", string(authorities)), "/etc/pillion/password", k.password,
		"/etc/pillion/client.pem", k.Files.ClientCert, "/etc/pillion/client-key.pem", k.Files.ClientKey,
		"/etc/pillion/client-secret", k.file(t, "client-secret", "secret-of-carol\n"), "/etc/pillion/token", k.file(t, "token", token),
	)
	page, err := os.ReadFile(filepath.Join(checkout(), "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(examples) != 4 {
		t.Errorf("docs/security.md has %d examples", len(examples))
	}
	for _, example := range examples {
		config := k.file(t, "pillion.yaml", real.Replace(example[1]))
		code, said := runToEnd(t, nil, "group", "--config", config, "--group-id", "nobody")
		if code != 1 || !strings.Contains(said, `there is no group "nobody" in this Kafka`) {
			t.Errorf("exit code %d: %s\n%s", code, said, example[1])
		}
	}
}

// unsecuredToken is what the broker of a test takes.
func unsecuredToken(subject string) string {
	part := base64.RawURLEncoding.EncodeToString
	now := time.Now()
	return part([]byte(`{"alg":"none"}`)) + "." + part(fmt.Appendf(nil, `{"sub":%q,"iat":%d,"exp":%d}`, subject, now.Unix(), now.Add(time.Hour).Unix())) + "."
}

// A right that is taken away from a pair that works is named, and what then is what the page says.
func TestARightIsTakenAway(t *testing.T) {
	k := newSecured(t, kafkaproc.Secure{})
	for _, r := range rights(t) {
		if r.operation == "Create" || r.operation == "DescribeConfigs" || r.late() {
			continue // asked for at the start only
		}
		t.Run(strings.NewReplacer(" ", "-", "'", "", ",", "").Replace(r.operation+" "+r.name), func(t *testing.T) {
			t.Parallel()
			j := newJob(t, k.Addrs(), 1)
			for _, each := range rights(t) {
				k.allow(t, each.acl(t, j, carol))
			}
			s := j.pair(k.flags()...)
			feeding := j.feed(0)
			defer feeding.end()
			s.running(1)
			gone := r.acl(t, j, carol)
			if err := k.Disallow(t.Context(), gone); err != nil {
				t.Fatal(err)
			}
			want := r.sentence(gone)
			s.waitFor(0, want, func(e entry) bool { return strings.Contains(e.text, want) })
			if r.without == "ended" {
				r.outcome(t, j, s)
			} else {
				s.waitFor(0, "kafka_refused", func(e entry) bool { return e.str("code") == "kafka_refused" && strings.Contains(e.text, want) })
			}
		})
	}
}
