//go:build kafka

package journeys

import (
	"fmt"
	"strings"
	"testing"
)

// appMistakes are what a new user gets wrong: in one sentence, with exit code 2.
var appMistakes = map[string]func(j *job) string{
	"two sets": func(j *job) string {
		return fmt.Sprintf("table 'counts' is used with the topics '%s' and 'second', which are two sets; read them together with app.join(), or keep a table for each (bad_declaration)", j.in)
	},
	"two handlers": func(j *job) string {
		return fmt.Sprintf("topic '%s' has two handlers, on_record and another; let one call the other (bad_declaration)", j.in)
	},
	"no handler": func(*job) string {
		return "topic 'second' has no handler; decorate a function with @app.process or @app.each, or leave it out (bad_declaration)"
	},
	"table of nobody": func(*job) string {
		return "table 'unused' is used by no handler; name it in tables=[...] of one (bad_declaration)"
	},
	"undeclared output": func(*job) string {
		return "on_record writes to 'elsewhere', which is no output of this app; make it with app.output() and give what that returns (undeclared_output)"
	},
	"undeclared table": func(*job) string {
		return "on_record uses table 'unused' without declaring it; add it to tables=[...] (undeclared_table)"
	},
	"topic of another app": func(*job) string {
		return "another handles the Topic 'second', which app.topic() did not make (bad_declaration)"
	},
	"table of another app": func(*job) string {
		return "another uses the Table 't', which is no table of this app; make it with app.table() (bad_declaration)"
	},
	"dead letters": func(*job) string {
		return "the dead letters of another go to the Output 'letters', which app.output() did not make (bad_declaration)"
	},
	"no time": func(*job) string { return "@app.every of late needs a time of more than 0 (bad_declaration)" },
	"time of two sets": func(*job) string {
		return "@app.every of late runs once per task of a set, and there are 2 sets; name the topic or tables of one (bad_declaration)"
	},
}

func TestAppMistakes(t *testing.T) {
	for name, sentence := range appMistakes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newApp(t, oneBroker(t), 1, "", "MISTAKE="+name)
			j.program = "app_mistakes.py"
			j.load(0, 1)
			s := j.pair()
			if code := s.exit(); code != 2 {
				t.Errorf("exit code %d, want 2", code)
			}
			want := "pillion: " + sentence(j)
			if said := s.since(0, func(e entry) bool { return strings.HasSuffix(e.text, want) }); len(said) != 1 {
				t.Errorf("the worker said %d times: %s", len(said), want)
			}
			if trace := s.since(0, func(e entry) bool { return strings.Contains(e.text, "Traceback") }); len(trace) > 0 {
				t.Error("it is not one sentence: there is a traceback")
			}
			if at := j.committed(); at != 0 {
				t.Errorf("%d inputs are committed", at)
			}
		})
	}
}

// What is wrong in a single declaration is raised there: the traceback ends with the line and the sentence.
func TestAppDeclaresWrongly(t *testing.T) {
	for name, sentence := range map[string]string{
		"declared twice":     "is declared twice; declare it once and use what comes back",
		"key of no one form": "Point is JSON, and keys need one form of it: write key=json(Point, canonical=True)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newApp(t, oneBroker(t), 1, "", "MISTAKE="+name)
			j.program = "app_mistakes.py"
			s := j.pair()
			if code := s.exit(); code == 0 {
				t.Error("exit code 0")
			}
			if said := s.since(0, func(e entry) bool { return strings.Contains(e.text, sentence) }); len(said) == 0 {
				t.Errorf("the worker did not say: %s", sentence)
			}
		})
	}
}
