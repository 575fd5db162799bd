package plan

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files of testdata anew")

func read(t testing.TB, text string) Request {
	t.Helper()
	q, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func planned(t testing.TB, q Request, next bool) Result {
	t.Helper()
	r, err := q.Plan(next)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Each group of testdata, as people see its target and the next generation, and as JSON.
func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.json")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs: %v", err)
	}
	for _, input := range inputs {
		text, err := os.ReadFile(input)
		if err != nil {
			t.Fatal(err)
		}
		q := read(t, string(text))
		var got bytes.Buffer
		for _, next := range []bool{false, true} {
			r := planned(t, q, next)
			if err := r.Table(&got); err != nil {
				t.Fatal(err)
			}
			got.WriteString("\n")
			if err := r.JSON(&got); err != nil {
				t.Fatal(err)
			}
			got.WriteString("\n")
		}
		golden := strings.TrimSuffix(input, ".json") + ".golden"
		if *update {
			if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil || got.String() != string(want) {
			t.Errorf("%s (run with -update to accept):\n%s\nwant\n%s%v", input, got.String(), want, err)
		}
	}
}

// INVARIANT: an output's members, put in again, are the same plan, with nothing to move.
func TestAPlanThatIsCarriedOutIsAFixedPoint(t *testing.T) {
	inputs, _ := filepath.Glob("testdata/*.json")
	for _, input := range inputs {
		text, err := os.ReadFile(input)
		if err != nil {
			t.Fatal(err)
		}
		q := read(t, string(text))
		first := planned(t, q, false)
		for i := range q.Members {
			m := &q.Members[i]
			m.Generation, m.Active, m.Standby = new(int32(9)), first.Members[m.ID].Active, first.Members[m.ID].Standby
		}
		again := planned(t, q, false)
		if !reflect.DeepEqual(again.Members, first.Members) || again.Moves != (Moves{}) {
			t.Errorf("%s: %v\nwas %v", input, again.Members, first.Members)
		}
	}
}

func TestJSONIsWhatTheResultSays(t *testing.T) {
	text, err := os.ReadFile("testdata/example.json")
	if err != nil {
		t.Fatal(err)
	}
	r := planned(t, read(t, string(text)), false)
	var b bytes.Buffer
	if err := r.JSON(&b); err != nil {
		t.Fatal(err)
	}
	var back map[string]any
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || len(back) != 3 {
		t.Fatalf("%v: %s", err, b.String())
	}
	if !reflect.DeepEqual(back["moves"], map[string]any{"active": 0.0, "cold": 0.0}) || !reflect.DeepEqual(back["warnings"], []any{}) {
		t.Errorf("got %s", b.String())
	}
}

// Standbys may be given by source or by changelog.
func TestStandbysByEitherTopic(t *testing.T) {
	text, err := os.ReadFile("testdata/died.json")
	if err != nil {
		t.Fatal(err)
	}
	a := planned(t, read(t, string(text)), false)
	b := planned(t, read(t, strings.ReplaceAll(string(text), `"standby": {"orders-log"`, `"standby": {"orders"`)), false)
	if !reflect.DeepEqual(a.Members, b.Members) || a.Moves != b.Moves || a.Moves.Cold != 0 {
		t.Errorf("%+v\n%+v", a, b)
	}
}

func TestNoMembers(t *testing.T) {
	r := planned(t, read(t, `{"topics": {"orders": 4}, "members": []}`), true)
	var b bytes.Buffer
	if err := r.JSON(&b); err != nil || !json.Valid(b.Bytes()) || len(r.Members) != 0 {
		t.Errorf("%v: %s", err, b.String())
	}
}

// What the README shows is what is printed.
func TestREADME(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "pillion plan <<'EOF'\n")
	group, rest, ok2 := strings.Cut(rest, "EOF\n```\n\n```\n")
	if !ok || !ok2 {
		t.Fatal("the README has no example of pillion plan")
	}
	var b bytes.Buffer
	if err := planned(t, read(t, group), false).Table(&b); err != nil {
		t.Fatal(err)
	}
	if want, _, _ := strings.Cut(rest, "```"); b.String() != want {
		t.Errorf("the README shows\n%s\nand it is\n%s", want, b.String())
	}
}
