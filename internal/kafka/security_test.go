package kafka

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

func TestContradictionsAreOneSentence(t *testing.T) {
	pw := Secret{Value: "hush"}
	scram := Security{Protocol: SASLSSL, Mechanism: MechanismScram256, Username: "carol", Password: pw}
	bearer := Security{Protocol: SASLSSL, Mechanism: MechanismOAuthBearer, TokenFile: "token"}
	endpoint := Security{Protocol: SASLSSL, Mechanism: MechanismOAuthBearer, TokenEndpointURL: "https://login/token", ClientID: "app", ClientSecret: pw}
	with := func(s Security, change func(*Security)) Security { change(&s); return s }
	for _, c := range []struct {
		s    Security
		want string // "": taken
	}{
		{Security{}, ""},
		{Security{Protocol: Plaintext}, ""},
		{Security{Protocol: SSL}, ""},
		{Security{Protocol: SSL, CAFile: "ca", CertificateFile: "c", KeyFile: "k", ServerName: "kafka"}, ""},
		{scram, ""},
		{bearer, ""},
		{endpoint, ""},
		{with(endpoint, func(s *Security) { s.TokenEndpointURL = "http://127.0.0.1:1/token" }), ""},
		{Security{Protocol: "TLS"}, `security_protocol is "TLS", must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL`},
		{Security{CAFile: "ca"}, "ssl_ca_file is set, but security_protocol is PLAINTEXT: make it SSL or SASL_SSL, or leave ssl_ca_file out"},
		{Security{Protocol: SASLPlaintext, ServerName: "x"}, "ssl_server_name is set, but security_protocol is SASL_PLAINTEXT: "},
		{Security{Protocol: SSL, CertificateFile: "c"}, "ssl_certificate_file is set without ssl_key_file: give both or neither"},
		{Security{Protocol: SSL, KeyFile: "k"}, "ssl_key_file is set without ssl_certificate_file: give both or neither"},
		{Security{Mechanism: MechanismPlain}, "sasl_mechanism is set, but security_protocol is PLAINTEXT: make it SASL_SSL or SASL_PLAINTEXT, or leave sasl_mechanism out"},
		{Security{Protocol: SSL, Password: pw}, "PILLION_SASL_PASSWORD is set, but security_protocol is SSL: "},
		{Security{Protocol: SSL, ClientID: "app"}, "sasl_oauthbearer_client_id is set, but security_protocol is SSL: "},
		{Security{Protocol: SASLSSL}, "security_protocol is SASL_SSL, but sasl_mechanism is missing: say PLAIN, "},
		{Security{Protocol: SASLSSL, Mechanism: "GSSAPI"}, `sasl_mechanism is "GSSAPI", must be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER`},
		{with(scram, func(s *Security) { s.Username = "" }), "sasl_mechanism is SCRAM-SHA-256, but sasl_username is missing"},
		{with(scram, func(s *Security) { s.Password = Secret{} }), "sasl_mechanism SCRAM-SHA-256 needs a secret: set sasl_password_file to a file that holds it, or PILLION_SASL_PASSWORD in the environment"},
		{with(scram, func(s *Security) { s.Password.File = "f" }), "sasl_password_file and PILLION_SASL_PASSWORD are both set: leave one out"},
		{with(scram, func(s *Security) { s.TokenFile = "f" }), "sasl_oauthbearer_token_file is set, but sasl_mechanism is SCRAM-SHA-256: it is for OAUTHBEARER only"},
		{with(bearer, func(s *Security) { s.Username = "u" }), "sasl_username is set, but sasl_mechanism is OAUTHBEARER, which takes a token instead"},
		{with(bearer, func(s *Security) { s.TokenFile = "" }), "sasl_mechanism is OAUTHBEARER, but there is no token: set sasl_oauthbearer_token_file, "},
		{with(bearer, func(s *Security) { s.TokenCommand = "c" }), "tokens come from more than one place: set only one of "},
		{with(bearer, func(s *Security) { s.Scope = "c" }), "sasl_oauthbearer_scope is set without sasl_oauthbearer_token_endpoint_url: it is for that only"},
		{with(endpoint, func(s *Security) { s.ClientID = "" }), "sasl_oauthbearer_token_endpoint_url is set, but sasl_oauthbearer_client_id is missing"},
		{with(endpoint, func(s *Security) { s.ClientSecret = Secret{} }), "sasl_oauthbearer_token_endpoint_url needs a secret: set sasl_oauthbearer_client_secret_file "},
		{with(endpoint, func(s *Security) { s.TokenEndpointURL = "http://login/token" }), "sasl_oauthbearer_token_endpoint_url is http, so that "},
		{with(endpoint, func(s *Security) { s.TokenEndpointURL = "https://u:hush@login/token" }), "sasl_oauthbearer_token_endpoint_url holds a user or password: "},
		{with(endpoint, func(s *Security) { s.TokenEndpointURL = "hush" }), "sasl_oauthbearer_token_endpoint_url is no URL such as "},
	} {
		err := Config{Bootstrap: []string{"kafka:9092"}, Security: c.s}.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v\n got  %v\n want %s", c.s, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("a secret shows: %v", err)
		}
	}
}

// INVARIANT: no secret is in what fmt makes of a Config.
func TestSecretsDoNotShow(t *testing.T) {
	cfg := Config{Security: Security{Password: Secret{Value: "hush"}, ClientSecret: Secret{Value: "hush"}}}
	raw, err := json.Marshal(cfg.Security)
	if err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprintf("%v %+v %#v %s %q %x %s", cfg, cfg, cfg, cfg.Security, cfg.Security.Password, cfg.Security.Password, raw)
	if strings.Contains(all, "hush") || strings.Contains(all, "68757368") || !strings.Contains(all, "[secret]") {
		t.Errorf("shown: %s", all)
	}
}

func TestASecretIsReadAgainAndKeptWhenItCannotBe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	var said strings.Builder
	k := &kept{name: "sasl_password_file", read: Secret{File: path}.read, log: hclog.New(&hclog.LoggerOptions{Output: &said})}
	if _, err := k.get(); err == nil || !strings.HasPrefix(err.Error(), "cannot read sasl_password_file: ") {
		t.Errorf("without a file: %v", err)
	}
	for _, step := range []struct {
		write, want string
		warnings    int
	}{
		{"one\r\n", "one", 0}, {"", "one", 1}, {"\n", "one", 1}, {" two ", " two ", 1}, {"", " two ", 2},
	} {
		if err := os.WriteFile(path, []byte(step.write), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := k.get(); err != nil || got != step.want {
			t.Errorf("after %q: %q, %v", step.write, got, err)
		}
		if n := strings.Count(said.String(), "[WARN]"); n != step.warnings {
			t.Errorf("after %q: %d warnings\n%s", step.write, n, &said)
		}
	}
	if strings.Contains(said.String(), "one") && strings.Contains(said.String(), "two") {
		t.Errorf("a secret shows:\n%s", &said)
	}
}
