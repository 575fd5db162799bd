package cli

import (
	"path/filepath"
	"strings"
	"testing"
)

// Secrets are no settings: they are taken from the environment, without a warning, and printed nowhere.
func TestSecretsAreTakenFromTheEnvironment(t *testing.T) {
	env := []string{"PILLION_SASL_PASSWORD=hush", "PILLION_SASL_OAUTHBEARER_CLIENT_SECRET=hush2", "PILLION_SASL_USERNAME=carol"}
	s, _, warnings, err := load(newFlags("run"), env)
	if err != nil || len(warnings) > 0 || s.Security.Password.Value != "hush" || s.Security.ClientSecret.Value != "hush2" || s.Security.Username != "carol" {
		t.Errorf("%v, %v", warnings, err)
	}
	code, out, errOut := pillion(env, "run", "--bootstrap-servers", "a:1", "--print-config")
	if code != 0 || strings.Contains(out+errOut, "hush") || !strings.Contains(out, "sasl_username: carol ") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
	if kept := without(env, secretEnv...); len(kept) != 1 {
		t.Errorf("a worker inherits %q", kept)
	}
	for _, row := range settings { // a secret as a flag would be in every process list
		if strings.HasSuffix(row.name, "password") || strings.HasSuffix(row.name, "secret") || strings.HasSuffix(row.name, "token") {
			t.Errorf("%s is a setting", row.name)
		}
	}
}

func TestSecurityThatContradictsItselfIsRefused(t *testing.T) {
	for _, c := range []struct {
		env  []string
		args []string
		want string
	}{
		{nil, []string{"run", "--bootstrap-servers", "a:1", "--security-protocol", "TLS"}, `security_protocol (--security-protocol) is "TLS", must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL`},
		{nil, []string{"run", "--bootstrap-servers", "a:1", "--ssl-ca-file", "ca"}, "ssl_ca_file is set, but security_protocol is PLAINTEXT"},
		{nil, []string{"group", "--bootstrap-servers", "a:1", "--group-id", "x", "--ssl-ca-file", "ca"}, "ssl_ca_file is set, but security_protocol is PLAINTEXT"},
		{nil, []string{"run", "--bootstrap-servers", "a:1", "--security-protocol", "SSL", "--ssl-ca-file", "/no/such/file"}, "cannot read ssl_ca_file: "},
		{nil, []string{"dev", "--security-protocol", "SSL", "--", "true"}, "security_protocol (--security-protocol) is for a Kafka of yours, and the in-process one of dev is plain: "},
		{[]string{"PILLION_SASL_PASSWORD=hush"}, []string{"dev", "--", "true"}, "PILLION_SASL_PASSWORD or PILLION_SASL_OAUTHBEARER_CLIENT_SECRET is for a Kafka of yours, "},
		{nil, []string{"run", "--sasl-mechanism", "GSSAPI"}, `sasl_mechanism (--sasl-mechanism) is "GSSAPI", must be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER`},
	} {
		code, _, errOut := pillion(c.env, c.args...)
		if code != exitUsage || !strings.Contains(errOut, "pillion: "+c.want) || strings.Contains(errOut, "hush") {
			t.Errorf("%v: exit code %d\n got  %s\n want %s", c.args, code, errOut, c.want)
		}
	}
	// An empty setting is none.
	if code, _, errOut := pillion([]string{"PILLION_SASL_MECHANISM=", "PILLION_SECURITY_PROTOCOL=PLAINTEXT"}, "run", "--bootstrap-servers", "a:1", "--print-config"); code != 0 {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}

// Whoever gives a secret where it would be seen hears where it belongs.
func TestASecretInTheWrongPlaceIsShownTheRightOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pillion.yaml")
	write(t, file, "sasl_password: hush\n")
	const advice = "secrets are no flag and no key: write it to a file and name that as sasl_password_file, or set PILLION_SASL_PASSWORD"
	for _, args := range [][]string{{"--config", file}, {"--sasl-password", "hush"}, {"--sasl-password=hush"}} {
		code, out, errOut := pillion(nil, append([]string{"run", "--bootstrap-servers", "a:1"}, args...)...)
		if code != 2 || strings.Contains(out+errOut, "hush") || !strings.Contains(errOut, advice) {
			t.Errorf("%q: exit code %d: %s%s", args, code, out, errOut)
		}
	}
}

func TestPrintConfigWarns(t *testing.T) {
	code, out, errOut := pillion([]string{"PILLION_PROCESSING_GARANTEE=at_least_once"}, "run", "--bootstrap-servers", "a:1", "--print-config")
	if code != 0 || !strings.Contains(out, "processing_guarantee: exactly_once") || !strings.Contains(errOut, "are ignored: PILLION_PROCESSING_GARANTEE") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
}
