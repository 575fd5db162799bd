package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pillion runs a command and returns exit code, stdout and stderr.
func pillion(environ []string, args ...string) (code int, out, errOut string) {
	var stdout, stderr bytes.Buffer
	code = Main(args, environ, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestFlagsWinOverEnvironmentOverFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pillion.yaml")
	write(t, file, "bootstrap_servers: [file:1, file:2]\ngroup_id: file\nworker_grace: 3s\nmax_commit_bytes: 1MiB\n")
	env := []string{"PILLION_GROUP_ID=env", "PILLION_WORKER_GRACE=4s"}
	code, out, errOut := pillion(env, "run", "--config", file, "--worker-grace", "5s", "--print-config")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	for _, want := range []string{
		"bootstrap_servers: file:1,file:2             # in the --config file",
		"group_id: env                                # PILLION_GROUP_ID",
		"worker_grace: 5s                             # --worker-grace",
		"max_commit_bytes: 1MiB                       # in the --config file",
		"session_timeout: 10s                         # default",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("--print-config lacks %q:\n%s", want, out)
		}
	}
}

func TestPrintedSettingsMayBeReadAgain(t *testing.T) {
	args := []string{"run", "--bootstrap-servers", "a:1,b:2", "--group-id", "007", "--max-processing", "90m", "--max-commit-bytes", "1500", "--accept-state-loss", "--print-config"}
	code, first, errOut := pillion(nil, args...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	for _, want := range []string{`group_id: "007" `, "max_processing: 1h30m ", "max_commit_bytes: 1500 ", "accept_state_loss: true ", "create_topics: 0 "} {
		if !strings.Contains(first, "\n"+want) {
			t.Errorf("it lacks %q:\n%s", want, first)
		}
	}
	file := filepath.Join(t.TempDir(), "pillion.yaml")
	write(t, file, first)
	code, again, errOut := pillion(nil, "run", "--config", file, "--print-config")
	if code != 0 || values(again) != values(first) {
		t.Errorf("exit code %d: %s\n%s\nwas\n%s", code, errOut, again, first)
	}
	if code, _, errOut := pillion(nil, "run", "--config", file, "--", "true"); code != 0 {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}

// values are the lines of --print-config without where they came from.
func values(printed string) string {
	var out strings.Builder
	for line := range strings.Lines(printed) {
		value, _, _ := strings.Cut(line, " #")
		out.WriteString(strings.TrimSpace(value) + "\n")
	}
	return out.String()
}

func TestWhatAPairAndDevHaveOfTheirOwnIsPrinted(t *testing.T) {
	code, out, errOut := pillion([]string{"PILLION_OPS_LISTEN=:1"}, "run", "--bootstrap-servers", "a:1", "--print-config", "--", "true")
	if want := "# listen                                     # a Unix socket of the pair's own\nops_listen: :1                               # PILLION_OPS_LISTEN\n"; code != 0 || !strings.Contains(out, want) {
		t.Errorf("exit code %d: %s%s", code, errOut, out)
	}
	// There is no devkafka beside this test: none is started for that.
	code, out, errOut = pillion(nil, "dev", "--create-topics", "1", "--print-config", "--", "true")
	for _, want := range []string{
		"# bootstrap_servers                          # an in-process Kafka\n",
		"create_topics: 1                             # --create-topics\n",
		"max_processing: 0s                           # default of dev\n",
	} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d: %s\nit lacks %s%s", code, errOut, want, out)
		}
	}
	if _, help, _ := pillion(nil, "dev", "--help"); !strings.Contains(help, "which are created; 0: refuse (default 4)") || strings.Contains(help, "the only one required") {
		t.Errorf("dev --help:\n%s", help)
	}
}

func TestMistakesAreOneSentenceAndExitCode2(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pillion.yaml")
	write(t, file, "group: x\n")
	anchor, line := filepath.Join(t.TempDir(), "anchor.yaml"), filepath.Join(t.TempDir(), "line.yaml")
	write(t, anchor, "sasl_password: *secret\n")
	write(t, line, "secret\n")
	empty := filepath.Join(t.TempDir(), "token")
	write(t, empty, "\n")
	kafka := []string{"run", "--bootstrap-servers", "localhost:1"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"run"}, "pillion: bootstrap_servers is missing: say where Kafka is with --bootstrap-servers host:port or PILLION_BOOTSTRAP_SERVERS"},
		{[]string{"walk"}, `pillion: unknown command "walk": use run, dev, `},
		{[]string{"run", "--bootstrap-servers", "kafka"}, `pillion: bootstrap server "kafka" is not host:port, as in kafka:9092`},
		{[]string{"run", "--bootstrap-servers", "kafka:port"}, `pillion: bootstrap server "kafka:port" is not host:port, as in kafka:9092`},
		{[]string{"run", "--bootstrap-servers", "kafka:90920"}, `pillion: bootstrap server "kafka:90920" is not host:port, as in kafka:9092`},
		{append(kafka, "--grop-id", "x"), "pillion: unknown flag: --grop-id; `pillion run --help` lists the flags"},
		{append(kafka, "--worker-grace", "soon"), `pillion: worker_grace (--worker-grace) is "soon", must be a duration such as 500ms, 10s or 5m`},
		{append(kafka, "--max-commit-bytes", "-1"), `pillion: max_commit_bytes (--max-commit-bytes) is "-1", must be a size in bytes or with KiB, MiB or GiB, such as 16MiB`},
		{append(kafka, "--on-lost-position", "guess"), `pillion: on_lost_position (--on-lost-position) is "guess", must be fail, earliest or latest`},
		{append(kafka, "--config", file), `pillion: ` + file + ": unknown key \"group\"; `pillion run --help` lists the settings"},
		{append(kafka, "--config", file+"x"), "pillion: cannot read --config: open " + file + "x: no such file or directory"},
		{append(kafka, "--config", anchor), "pillion: " + anchor + " is not YAML of the form `name: value`: yaml: unknown anchor '...' referenced"},
		{append(kafka, "--config", line), "pillion: " + line + " is not YAML of the form `name: value`: yaml: unmarshal errors: line 1: cannot unmarshal !!str '...' into map[string]interface {}"},
		{append(kafka, "--max-warmup-replicas", "-1"), `pillion: max_warmup_replicas (--max-warmup-replicas) is "-1", must be a whole number, 0 or more`},
		{append(kafka, "--acceptable-recovery-lag", "10MiB"), `pillion: acceptable_recovery_lag (--acceptable-recovery-lag) is "10MiB", must be a whole number, 0 or more`},
		{append(kafka, "--transaction-timeout", "11s"), "pillion: transaction_timeout (11s) is more than revoke_timeout (10s): make it shorter"},
		{append(kafka, "--revoke-timeout", "3s", "--transaction-timeout", "4s"), "pillion: transaction_timeout (4s) is more than revoke_timeout (3s): make it shorter"},
		{append(kafka, "--revoke-timeout", "3s", "--heartbeat-interval", "5s"), "pillion: heartbeat_interval is 5s, "},
		{append(kafka, "--heartbeat-interval", "5s"), "pillion: heartbeat_interval is 5s, must be more than 0 and at most a third of session_timeout (10s)"},
		{append(kafka, "python", "app.py"), `pillion: "python app.py" is no flag: put the worker's command behind --`},
		{append(kafka, "--restart"), "pillion: --workers and --restart need a worker's command behind --"},
		{append(kafka, "--workers", "0", "--", "true"), "pillion: --workers is 0, must be at least 1"},
		{append(kafka, "--token-file", empty), "pillion: token_file " + empty + " is empty: write a token into it, or remove it and one is made"},
		{append(kafka, "--listen", "0.0.0.0:7420"), "pillion: "},
		{append(kafka, "--workers", "2", "--listen", "127.0.0.1:0", "--", "true"), "pillion: --listen names one address, but --workers is 2: leave --listen out"},
		{[]string{"dev"}, "pillion: dev needs a worker's command behind --"},
	} {
		code, _, errOut := pillion(nil, c.args...)
		last := strings.TrimSpace(errOut[strings.LastIndex("\n"+strings.TrimSpace(errOut), "\n"):])
		if code != exitUsage || !strings.HasPrefix(last, c.want) {
			t.Errorf("%v: exit code %d\n got  %s\n want %s", c.args, code, errOut, c.want)
		}
	}
}

func TestUnknownVariablesAreOneWarning(t *testing.T) {
	_, warnings := readEnv([]string{"PILLION_PORT=tcp://10.0.0.1:7420", "PILLION_SERVICE_HOST=x", "PILLION_URL=ws://x", "HOME=/"})
	want := "environment variables that are no setting are ignored: PILLION_PORT, PILLION_SERVICE_HOST"
	if len(warnings) != 1 || warnings[0] != want {
		t.Errorf("got %q, want %q", warnings, want)
	}
}

func TestATokenIsMadeOnceAndKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	first, err := readToken(path)
	if err != nil || len(first) != 32 {
		t.Fatalf("made %q, %v", first, err)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode().Perm())
	}
	if again, err := readToken(path); err != nil || again != first {
		t.Errorf("read %q, %v; made %q", again, err, first)
	}
}

// The README lists exactly the settings of the table, with their defaults.
func TestTheReadmeListsEverySetting(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range settings {
		deflt := row.deflt
		if deflt == "" {
			deflt = "none"
		}
		line := "| `" + row.name + "` | " + deflt + " | " + row.help + " |"
		if values := strings.Split(row.kind, "|"); len(values) > 1 {
			line = strings.TrimSuffix(line, " |") + ": `" + strings.Join(values, "`, `") + "` |"
		}
		if !strings.Contains(string(readme), line) {
			t.Errorf("README.md lacks this line:\n%s", line)
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
