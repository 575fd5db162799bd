//go:build kafka

package kafka

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/internal/kafkatest/kafkaproc"
)

const reauthEvery = 4 * time.Second

// secured is a broker that demands a new authentication every 4 s.
type secured struct {
	t     *testing.T
	kafka *kafkaproc.Kafka
	node  *kafkaproc.Node
	dir   string
}

func newSecured(t *testing.T) *secured {
	s := kafkaproc.Secure{
		Scram: map[string]string{"carol": "pw-carol", "rosa": "pw-rosa"}, Plain: map[string]string{"paul": "pw-paul"}, Reauth: reauthEvery,
	}
	for _, p := range []string{"User:carol", "User:paul", "User:olga", "User:CN=client"} {
		s.ACLs = append(s.ACLs, kafkaproc.ACL{Principal: p, Resource: "topic", Name: "open", Operation: "Read"})
	}
	k := kafkatest.Cluster(t, 1, kafkatest.Secured(s)).Process()
	kafkatest.CreateTopic(t, k.Addrs(), "open", 2, nil)
	kafkatest.CreateTopic(t, k.Addrs(), "closed", 2, nil)
	return &secured{t: t, kafka: k, node: k.Nodes[0], dir: t.TempDir()}
}

func (s *secured) file(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func (s *secured) scram(mechanism string) Security {
	return Security{Protocol: SASLSSL, CAFile: s.kafka.Files.CA, Mechanism: mechanism, Username: "carol", Password: Secret{Value: "pw-carol"}}
}

// client is one with few connections and its warnings.
func (s *secured) client(address string, security Security) (*Client, *bytes.Buffer) {
	s.t.Helper()
	var said bytes.Buffer
	c := realClient(s.t, []string{address}, func(cfg *Config) {
		cfg.Security = security
		cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &said, Level: hclog.Warn})
	})
	return c, &said
}

func token(subject string, life time.Duration) string {
	part := base64.RawURLEncoding.EncodeToString
	now := time.Now()
	return part([]byte(`{"alg":"none"}`)) + "." + part(fmt.Appendf(nil, `{"sub":%q,"iat":%d,"exp":%d}`, subject, now.Unix(), now.Add(life).Unix())) + "."
}

func TestRealSecurity(t *testing.T) {
	s := newSecured(t)
	t.Run("ways in", s.testWaysIn)
	t.Run("beside each other", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T){
			"refusals": s.testRefusals, "reauthentication": s.testReauthentication, "rotation": s.testRotation,
		} {
			t.Run(name, func(t *testing.T) { t.Parallel(); test(t) })
		}
	})
}

// Every way in works, a right that is missing is named with the principal, and who it is is right.
func (s *secured) testWaysIn(t *testing.T) {
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		if id != "app" || secret != "hush" || r.FormValue("grant_type") != "client_credentials" || r.FormValue("scope") != "kafka" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":60}`, token("olga", time.Minute))
	}))
	defer endpoint.Close()
	bearer := Security{Protocol: SASLSSL, CAFile: s.kafka.Files.CA, Mechanism: MechanismOAuthBearer}
	fromFile, fromCommand, fromEndpoint := bearer, bearer, bearer
	fromFile.TokenFile = s.file("token", token("olga", time.Hour)+"\n")
	fromCommand.TokenCommand = "cat " + fromFile.TokenFile
	fromEndpoint.TokenEndpointURL, fromEndpoint.ClientID, fromEndpoint.ClientSecret, fromEndpoint.Scope = endpoint.URL, "app", Secret{Value: "hush"}, "kafka"
	plain := Security{Protocol: SASLSSL, CAFile: s.kafka.Files.CA, Mechanism: MechanismPlain, Username: "paul", Password: Secret{File: s.file("password", "pw-paul\n")}}
	open := plain
	open.Protocol, open.CAFile = SASLPlaintext, ""
	certificate := Security{Protocol: SSL, CAFile: s.kafka.Files.CA, CertificateFile: s.kafka.Files.ClientCert, KeyFile: s.kafka.Files.ClientKey}
	for _, way := range []struct {
		name, address, principal string
		security                 Security
	}{
		{"SCRAM-SHA-256", s.node.SecureAddr, "User:carol", s.scram(MechanismScram256)},
		{"SCRAM-SHA-512", s.node.SecureAddr, "User:carol", s.scram(MechanismScram512)},
		{"PLAIN", s.node.SecureAddr, "User:paul", plain},
		{"SASL_PLAINTEXT", s.node.SaslAddr, "User:paul", open},
		{"token file", s.node.SecureAddr, "User:olga", fromFile},
		{"token command", s.node.SecureAddr, "User:olga", fromCommand},
		{"token endpoint", s.node.SecureAddr, "User:olga", fromEndpoint},
		{"certificate", s.node.CertAddr, "User:CN=client", certificate},
	} {
		t.Run(way.name, func(t *testing.T) {
			c, said := s.client(way.address, way.security)
			if err := c.Admitted(soon(t)); err != nil {
				t.Fatal(err)
			}
			topics, err := c.Topics(soon(t), "open", "closed", "nowhere")
			if err != nil || len(topics["open"].Partitions) != 2 {
				t.Fatalf("%+v, %v", topics, err)
			}
			for _, name := range []string{"closed", "nowhere"} {
				want := fmt.Sprintf("Kafka refuses %s the operation Describe on topic %s: ", way.principal, name)
				if got := topics[name].Err; got == nil || !strings.HasPrefix(got.Error(), want) {
					t.Errorf("%v\nwant %s", got, want)
				}
			}
			if said.Len() > 0 {
				t.Errorf("warnings:\n%s", said)
			}
		})
	}
}

// Each refusal is one sentence, comes at once, and has no secret in it.
func (s *secured) testRefusals(t *testing.T) {
	change := func(change func(*Security)) Security {
		security := s.scram(MechanismScram256)
		change(&security)
		return security
	}
	stranger, err := kafkaproc.NewCA("stranger")
	if err != nil {
		t.Fatal(err)
	}
	cert, key := filepath.Join(s.dir, "stranger.pem"), filepath.Join(s.dir, "stranger-key.pem")
	if err := stranger.IssueTo(kafkaproc.Leaf{Name: "client"}, cert, key); err != nil {
		t.Fatal(err)
	}
	certificate := Security{Protocol: SSL, CAFile: s.kafka.Files.CA, CertificateFile: cert, KeyFile: key}
	none := certificate
	none.CertificateFile, none.KeyFile = "", ""
	secure, certs, sasl, plain := s.node.SecureAddr, s.node.CertAddr, s.node.SaslAddr, s.node.Addr
	for _, r := range []struct {
		name, address string
		security      Security
		want          string
	}{
		{"password", secure, change(func(s *Security) { s.Password.Value = "hush-hush" }),
			"the broker at " + secure + " refuses User:carol with SCRAM-SHA-256: check sasl_username and the password in PILLION_SASL_PASSWORD, and that the broker knows this user for that mechanism (SASL_AUTHENTICATION_FAILED, Kafka error 58)"},
		{"PLAIN password", secure, change(func(s *Security) { s.Mechanism, s.Password.Value = MechanismPlain, "hush-hush" }),
			"the broker at " + secure + " refuses User:carol with PLAIN: check sasl_username and "},
		{"token", secure, change(func(s *Security) {
			*s = Security{Protocol: SASLSSL, CAFile: s.CAFile, Mechanism: MechanismOAuthBearer, TokenCommand: "echo " + token("olga", -time.Hour)}
		}),
			"the broker at " + secure + " refuses the token of User:olga from sasl_oauthbearer_token_command: check that it has not expired and that the broker trusts its issuer and audience (SASL_AUTHENTICATION_FAILED, Kafka error 58)"},
		{"unknown authority", secure, change(func(s *Security) { s.CAFile = cert }),
			"the certificate of the broker at " + secure + " is of an authority that is not trusted here: put that authority into ssl_ca_file (" + cert + ")"},
		{"system's authorities", secure, change(func(s *Security) { s.CAFile = "" }),
			"the certificate of the broker at " + secure + " is of an authority that is not trusted here: put that authority into a file and set ssl_ca_file to it"},
		{"host name", secure, change(func(s *Security) { s.ServerName = "kafka.example.com" }),
			"the certificate of the broker at " + secure + " is for localhost, 127.0.0.1, ::1 and not for kafka.example.com: take a name of the certificate in bootstrap_servers"},
		{"plain to TLS", secure, Security{}, "the broker at " + secure + " speaks TLS at this port: set security_protocol to SSL, or to SASL_SSL if it asks for SASL as well"},
		{"SASL to TLS", secure, change(func(s *Security) { s.Protocol, s.CAFile = SASLPlaintext, "" }), "the broker at " + secure + " speaks TLS at this port: set security_protocol to SASL_SSL"},
		{"TLS to plain", plain, none, "the broker at " + plain + " ends the connection in the TLS handshake, as one does that speaks no TLS at this port"},
		{"TLS to SASL", sasl, change(func(*Security) {}), "the broker at " + sasl + " ends the connection in the TLS handshake, as one does that speaks no TLS at this port"},
		{"plain to SASL", sasl, Security{}, "the broker at " + sasl + " asks for SASL at this port: set security_protocol to SASL_PLAINTEXT and sasl_mechanism to one that it offers (PLAIN, "},
		{"TLS without SASL", secure, none, "the broker at " + secure + " asks for SASL at this port: set security_protocol to SASL_SSL and sasl_mechanism to one that it offers (PLAIN, "},
		{"SASL to plain", plain, change(func(s *Security) { s.Protocol, s.CAFile = SASLPlaintext, "" }), "the broker at " + plain + " does not ask for SASL at this port: set security_protocol to PLAINTEXT"},
		{"strange certificate", certs, certificate, "the broker at " + certs + " refuses the client certificate of CN=client in ssl_certificate_file " + cert},
		{"no certificate", certs, none, "the broker at " + certs + " wants a client certificate (it says "},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			c, _ := s.client(r.address, r.security)
			begin := time.Now()
			err := c.Admitted(soon(t))
			var refused *SecurityError
			if !errors.As(err, &refused) || err.Error() != refused.Message || !strings.HasPrefix(refused.Message, r.want) {
				t.Errorf("got  %v\nwant %s", err, r.want)
			}
			if took := time.Since(begin); took > 15*time.Second {
				t.Errorf("it took %v", took)
			}
			if _, coded := CodeOf(err); coded || !Retriable(err) {
				t.Errorf("%v must be worth another try", err)
			}
			if strings.Contains(fmt.Sprintf("%v %+v", err, r.security), "hush") {
				t.Errorf("a secret shows: %v", err)
			}
			// A call says the same, in place of that no broker answers.
			call, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			if err := c.Reach(call); !errors.Is(err, ErrUnreachable) || !strings.HasPrefix(err.Error(), r.want) {
				t.Errorf("a call says %v", err)
			}
		})
	}
}

// INVARIANT: no request is written when the broker's time for our authentication is nearly over.
func (s *secured) testReauthentication(t *testing.T) {
	for name, security := range map[string]Security{
		"SCRAM": s.scram(MechanismScram512),
		"token": {Protocol: SASLSSL, CAFile: s.kafka.Files.CA, Mechanism: MechanismOAuthBearer, TokenCommand: "cat " + s.file("steady", token("olga", time.Hour))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dialled := new(counting)
			var said bytes.Buffer
			c := realClient(t, []string{s.node.SecureAddr}, func(cfg *Config) {
				cfg.Security, cfg.Dial = security, dialled.dial
				cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &said, Level: hclog.Debug})
			})
			ctx := deadline(t, 2*time.Minute)
			over := time.Now().Add(6 * reauthEvery)
			var requests, failed atomic.Int64
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					for time.Now().Before(over) {
						_, err := c.ListOffsets(ctx, Latest, true, TopicPartition{"open", int32(i % 2)})
						if requests.Add(1); err != nil {
							failed.Add(1)
							t.Errorf("request %d: %v", requests.Load(), err)
							return
						}
						time.Sleep(time.Duration(i) * 10 * time.Millisecond) // connections of every age, some idle for a while
					}
				})
			}
			all.Wait()
			if c.renewed.Load() == 0 {
				t.Error("no connection was ever authenticated again")
			}
			if strings.Contains(said.String(), "dropped") || failed.Load() > 0 { // a lost connection drops all, and is repeated
				t.Errorf("%d of %d requests failed; it said:\n%s", failed.Load(), requests.Load(), &said)
			}
			t.Logf("%d requests over %d connections, authenticated again %d times", requests.Load(), dialled.dials.Load(), c.renewed.Load())
		})
	}
}

// What the files hold at the next handshake counts.
func (s *secured) testRotation(t *testing.T) {
	file := s.file("changing", "pw-rosa")
	security := s.scram(MechanismScram256)
	security.Username, security.Password = "rosa", Secret{File: file}
	c, said := s.client(s.node.SecureAddr, security)
	if err := c.Admitted(soon(t)); err != nil {
		t.Fatal(err)
	}
	if err := s.kafka.SetPassword(soon(t), "rosa", "pw-new"); err != nil {
		t.Fatal(err)
	}
	// The broker demands the new password within 4 s. Nothing but the file is changed.
	refused := false
	for ctx := soon(t); !refused; {
		try, cancel := context.WithTimeout(ctx, time.Second)
		err := c.Reach(try)
		cancel()
		refused = refusal(err) != nil
		if ctx.Err() != nil {
			t.Fatal("the old password is still good")
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.file("changing", "pw-new\n")
	if err := c.Reach(soon(t)); err != nil {
		t.Errorf("the new password is not used: %v\n%s", err, said)
	}
}
