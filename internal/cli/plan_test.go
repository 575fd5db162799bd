package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const smallGroup = `{"replicas": 1, "topics": {"orders": 2, "orders-log": 2},
 "members": [{"id": "a", "sources": ["orders"], "tables": [{"name": "t", "changelog": "orders-log"}]},
             {"id": "b", "sources": ["orders"], "tables": [{"name": "t", "changelog": "orders-log"}]}]}`

// pillionWith runs a command that reads stdin.
func pillionWith(stdin string, args ...string) (code int, out, errOut string) {
	var stdout, stderr bytes.Buffer
	code = (&process{stdin: strings.NewReader(stdin), stdout: &stdout, stderr: &stderr}).main(args)
	return code, stdout.String(), stderr.String()
}

func TestPlan(t *testing.T) {
	code, out, errOut := pillionWith(smallGroup, "plan", "--json")
	var got struct {
		Members map[string]struct{ Active, Standby map[string][]int32 }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || errOut != "" {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errOut)
	}
	if a := got.Members["a"]; len(a.Active["orders"]) != 1 || len(a.Standby["orders-log"]) != 1 {
		t.Errorf("got %s", out)
	}
	file := filepath.Join(t.TempDir(), "group.json")
	if err := os.WriteFile(file, []byte(smallGroup), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, next := range []string{"--next", "--next=false"} {
		code, out, errOut = pillionWith("", "plan", "--input", file, next)
		if code != 0 || errOut != "" || !strings.HasPrefix(out, "MEMBER   ACTIVE     STANDBY        NEW ACTIVES\na        orders ") {
			t.Errorf("exit code %d: %s%s", code, out, errOut)
		}
	}
}

// Bad input is one sentence on stderr, nothing on stdout, and exit code 2.
func TestPlanRefuses(t *testing.T) {
	for _, c := range []struct {
		stdin string
		args  []string
		want  string
	}{
		{`{"members": [], "replica": 1}`, nil, "pillion: unknown field \"replica\"\n"},
		{smallGroup + " more", nil, "pillion: there is something behind the JSON object, at byte "},
		{strings.Replace(smallGroup, `"replicas"`, `"capacity": 1, "topics2"`, 1), nil, `pillion: unknown field "topics2"`},
		{`{"topics": {"orders": 9}, "capacity": 4, "members": [{"id": "a", "sources": ["orders"]}]}`, nil, `pillion: set "orders" has 9 partitions`},
		{"", []string{"--input", "no-such-file.json"}, "pillion: --input cannot be read: open no-such-file.json: "},
		{"", []string{"group.json"}, `pillion: "group.json" is no flag: name a file with --input, or give the group on stdin`},
		{"", []string{"--members"}, "pillion: unknown flag: --members; `pillion plan --help` lists the flags"},
		{"", nil, "pillion: the input is empty: one JSON object is wanted\n"},
	} {
		code, out, errOut := pillionWith(c.stdin, append([]string{"plan"}, c.args...)...)
		if code != 2 || out != "" || !strings.HasPrefix(errOut, c.want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%v: exit code %d, stdout %q\ngot  %swant %s", c.args, code, out, errOut, c.want)
		}
	}
	if code, out, _ := pillionWith("", "plan", "--help"); code != 0 || !strings.Contains(out, "--next") {
		t.Errorf("--help: exit code %d: %s", code, out)
	}
}
