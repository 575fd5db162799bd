package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConformanceListsItsCases(t *testing.T) {
	code, out, errOut := pillion(nil, "conformance", "--list", "--level", "standby")
	if code != 0 || !strings.Contains(out, "stateless  handshake ") || !strings.Contains(out, "standby    demote ") {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
	_, tables, _ := pillion(nil, "conformance", "--list")
	if strings.Contains(tables, "standby    ") || !strings.Contains(tables, "tables     restore ") {
		t.Errorf("without --level:\n%s", tables)
	}
	if code, out, _ = pillion(nil, "conformance", "--help"); code != 0 || !strings.Contains(out, "--patience") {
		t.Errorf("--help: exit code %d\n%s", code, out)
	}
}

func TestConformanceRefusesBadUsage(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"", "there is no worker's command: put it behind --"},
		{"--level all -- true", `level "all": use stateless, tables, standby`},
		{"--case nonsense -- true", `there is no case "nonsense" up to level tables; --list names them`},
		{"--case demote -- true", `there is no case "demote" up to level tables`},
		{"--parallel 0 -- true", "0 cases at the same time: use at least 1"},
		{"--patience 0s -- true", "a patience of 0s"},
		{"true -- x", `"true" is no flag: put the worker's command behind --`},
		{"--nonsense", "unknown flag: --nonsense"},
	} {
		code, out, errOut := pillion(nil, append([]string{"conformance"}, strings.Fields(c.args)...)...)
		if code != 2 || out != "" || !strings.Contains(errOut, c.says) {
			t.Errorf("%s: exit code %d, %s%s, want %s", c.args, code, out, errOut, c.says)
		}
	}
}

func TestConformanceSaysWhatFailed(t *testing.T) {
	code, out, errOut := pillion(nil, "conformance", "--case", "handshake", "--", "sh", "-c", "echo I am no worker; exit 3")
	for _, want := range []string{"FAIL  stateless  handshake", "expected  a connection", "came      the worker's process ended with exit code 3", "hint      ", "I am no worker", "1 of 1 cases failed (level tables)"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if code != 1 || errOut != "" || t.Failed() {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
	code, out, _ = pillion(nil, "conformance", "--json", "--case", "handshake", "--", "false")
	var result struct {
		Case, Came string
		Pass       bool
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != 1 || result.Case != "handshake" || result.Pass || result.Came == "" {
		t.Errorf("--json: exit code %d, %v\n%s", code, err, out)
	}
	if code, _, errOut = pillion(nil, "conformance", "--case", "handshake", "--", "/no/such/worker"); code != 1 {
		t.Errorf("a command that is not there: exit code %d, %s", code, errOut)
	}
}

func TestConformancePasses(t *testing.T) {
	python, _ := filepath.Abs("../../.venv/bin/python")
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("there is no %s: run `make setup`, which installs the Python client there", python)
	}
	code, out, errOut := pillion(nil, "conformance", "--patience", "1m", "--case", "handshake", "--case", "drained", "--", python, "../../clients/python/conformance/worker.py")
	if code != 0 || errOut != "" || !strings.HasSuffix(out, "all 2 cases passed (level tables)\n") {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
}

// A worker is no place for what logs on to Kafka.
func TestConformanceKeepsSecretsFromTheWorker(t *testing.T) {
	environ := []string{"PATH=" + os.Getenv("PATH"), "PILLION_SASL_PASSWORD=hush", "COLOUR=red"}
	_, out, _ := pillion(environ, "conformance", "--case", "handshake", "--", "sh", "-c", "env; exit 3")
	if strings.Contains(out, "hush") || !strings.Contains(out, "COLOUR=red") || !strings.Contains(out, "PILLION_URL=") {
		t.Errorf("the worker's environment:\n%s", out)
	}
}
