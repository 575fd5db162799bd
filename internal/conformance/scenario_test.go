package conformance

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// A stranger writes a player from the README alone: it has to know every step.
func TestTheReadmeHasEveryStep(t *testing.T) {
	text, err := os.ReadFile("../../spec/scenarios/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for verb := range verbs {
		if !strings.Contains(string(text), `{"`+verb+`": `) {
			t.Errorf("spec/scenarios/README.md has no step %q", verb)
		}
	}
}

func TestEveryLevelHasCases(t *testing.T) {
	count := map[string]int{}
	for _, s := range scenarios(t) {
		count[s.Level]++
	}
	for _, level := range Levels {
		if count[level] < 5 {
			t.Errorf("level %s has %d cases", level, count[level])
		}
	}
}

// A player that does not know something must refuse the file, so that no step is passed over.
func TestLoadRefusesWhatItDoesNotKnow(t *testing.T) {
	const head = `{"case": "x", "level": "tables", "job": "tables", "about": "a", "hint": "h"}` + "\n"
	for _, c := range []struct{ text, says string }{
		{head + `{"connect": true}` + "\n\n" + `{"note": "n"}`, ""},
		{"", "has no line with the case"},
		{`{"case": "x", "level": "tables", "job": "tables", "about": "a", "hint": "h", "more": 1}`, `line 1: json: unknown field "more"`},
		{`{"case": "x", "level": "all", "job": "tables", "about": "a", "hint": "h"}`, `level "all" is none of`},
		{`{"case": "x", "level": "tables", "job": "other", "about": "a", "hint": "h"}`, `job "other" is none of`},
		{`{"case": "x", "level": "stateless", "job": "tables", "about": "a", "hint": "h"}`, "a stateless worker cannot run"},
		{`{"case": "x", "level": "tables", "job": "tables"}`, "needs case, about and hint"},
		{`{"case": "y", "level": "tables", "job": "tables", "about": "a", "hint": "h"}`, `the case is called "y", the file "x"`},
		{head + `{"conect": true}`, `line 2: unknown step "conect"`},
		{head + `{"connect": true, "soon": true}`, `line 2: json: unknown field "soon"`},
		{head + `[1]`, "line 2: is no JSON object"},
		{head + `{}`, "line 2: is an empty object"},
		{head + `{"feed": "words/0", "records": [["a"]]}`, "a record is [key, value] or [offset, key, value]"},
		{head + `{"feed": "words/0", "records": [["a", 1]]}`, "is no key or value"},
		{head + `{"feed": "words/0", "records": [{"key": "a", "val": "b"}]}`, "unknown field"},
	} {
		_, err := Load(fstest.MapFS{"x.jsonl": {Data: []byte(c.text)}})
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s\n: %v, want %q", c.text, err, c.says)
		}
	}
}

// A fault of a scenario is told apart from one of the worker.
func TestFaultsOfAScenario(t *testing.T) {
	const head = `{"case": "x", "level": "stateless", "job": "stateless", "about": "a", "hint": "h"}` + "\n" + `{"connect": true}` + "\n"
	for _, c := range []struct{ step, says string }{
		{`{"feed": "words/0", "records": []}`, "names task words/0, which is not assigned"},
		{`{"assign": "words"}`, "is no task"},
		{`{"answer": "words/0", "with": "committed"}`, "none is held"},
		{`{"signal": "HUP"}`, `no signal "HUP"`},
		{`{"bytes": "0g"}`, "invalid byte"},
		{`{"released": "words/1"}`, "which is not assigned"},
		{`{"committed": "words/1", "position": "end"}`, "has no source"},
	} {
		all, err := Load(fstest.MapFS{"x.jsonl": {Data: []byte(head + c.step)}})
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Command: []string{os.Args[0], "mini", "none"}, Level: "stateless", Parallel: 1, Patience: DefaultPatience}
		if err := Run(t.Context(), all, o, func(r Result) {
			if r.Pass || r.Expected != "the case to be played" || !strings.Contains(r.Came, c.says) {
				t.Errorf("%s: %+v, want %q", c.step, r, c.says)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
}
