package plan

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each mistake is one sentence that says where it is.
func TestBadInput(t *testing.T) {
	member := func(rest string) string {
		return `{"topics": {"orders": 4, "orders-log": 4, "five": 5}, "members": [{"id": "a"` + rest + `}]}`
	}
	const flat = `, "sources": ["orders"], "tables": [{"name": "t", "changelog": "orders-log"}]`
	for _, c := range []struct{ input, want string }{
		{"", "the input is empty: one JSON object is wanted"},
		{" \n", "the input is empty: one JSON object is wanted"},
		{"hello", "the input is not JSON: invalid character 'h' looking for beginning of value (byte 1)"},
		{`{"members": [`, "the input is not JSON: it ends too early"},
		{`[]`, "the input is of kind array: one JSON object is wanted"},
		{`{}`, "members is missing: a list is wanted, be it empty"},
		{`null`, "members is missing: a list is wanted, be it empty"},
		{`{"members": []} {}`, "there is something behind the JSON object, at byte 17"},
		{`{"members": []} x`, "there is something behind the JSON object, at byte 16"},
		{`{"member": []}`, `unknown field "member"`},
		{`{"members": [{"id": "a", "source": []}]}`, `unknown field "source"`},
		{`{"members": [], "members": []}`, `the key "members" stands twice in one object (byte 25)`},
		{`{"members": [], "topics": {"a": 1, "a": 2}}`, `the key "a" stands twice in one object (byte 38)`},
		{`{"members": [], "replicas": -1}`, "replicas is -1: 0 or more are possible"},
		{`{"members": [], "replicas": "1"}`, "replicas cannot be a string (byte 31)"},
		{`{"members": [], "replicas": 1.5}`, "replicas cannot be a number 1.5 (byte 31)"},
		{`{"members": [], "capacity": -1}`, "capacity is -1: leave it out, or give a number above 0"},
		{`{"members": [], "topics": {"a": null}}`, `topics: "a" has no number of partitions`},
		{`{"members": [], "topics": {"a": -4}}`, `topics: "a" has -4 partitions: 0 to 262144 are possible`},
		{`{"members": [], "topics": {"a": 1000000}}`, `topics: "a" has 1000000 partitions: 0 to 262144 are possible`},
		{`{"members": [], "topics": {"": 4}}`, `topics has a topic without a name`},
		{`{"members": [{}]}`, "member 1 has no id"},
		{`{"members": [{"id": "a"}, {"id": "a"}]}`, `two members have the id "a"`},
		{member(`, "generation": -2`), `member "a": generation is -2: -1 (never synced) or more are possible`},
		{member(flat + `, "active": {"orders": [4]}`), `member "a": active: "orders" has 4 partitions, and no partition 4`},
		{member(flat + `, "standby": {"orders-log": [-1]}`), `member "a": standby: "orders-log" has no partition -1`},
		{member(flat + `, "active": {"others": [1]}`), `member "a": active: topic "others" is neither among topics nor declared by the member`},
		{member(flat + `, "active": {"orders": 1}`), `members.active cannot be a number (byte 177)`},
		{member(flat + `, "sets": [{"sources": ["five"]}]`), `member "a": it gives sets, and sources or tables beside them: put everything into sets, or nothing`},
		{member(`, "sets": [{"sources": []}]`), `member "a": set 1: it has no sources`},
		{member(`, "sets": [{"sources": ["orders"]}, {"sources": ["orders"]}]`), `member "a": set 2: "orders" is named twice as a source`},
		{member(`, "sets": [{"sources": ["orders", "five"]}]`), `member "a": set 1: "orders" has 4 partitions and "five" has 5: topics that are read together need the same number`},
		{member(`, "sets": [{"sources": ["orders"], "tables": [{"name": "t", "changelog": "five"}]}]`), `member "a": set 1: "orders" has 4 partitions and "five" has 5: topics that are read together need the same number`},
		{member(`, "sets": [{"sources": ["orders"], "tables": [{"name": "t"}]}]`), `member "a": set 1: table 1 ("t") has no changelog`},
		{member(`, "sets": [{"sources": ["orders"], "tables": [{"name": "t", "changelog": "x", "source_topic": "y"}]}]`), `member "a": set 1: table "t" has both a changelog and a source topic: name one`},
		{member(`, "sources": ["orders", ""]`), `member "a": sources has a topic without a name`},
		{member(`, "globals": [{"name": "g"}]`), `member "a": global table 1 has no topic`},
		{member(`, "globals": [{"name": "g", "topics": "x"}]`), `unknown field "topics"`},
	} {
		if _, err := Read(strings.NewReader(c.input)); err == nil || err.Error() != c.want {
			t.Errorf("%s\ngot  %v\nwant %s", c.input, err, c.want)
		}
	}
}

// What only the assignor finds.
func TestGroupsThatCannotBePlanned(t *testing.T) {
	for _, c := range []struct{ input, want string }{
		{`{"topics": {"orders": 4}, "capacity": 1, "members": [{"id": "a", "sources": ["orders"]}, {"id": "b", "sources": ["orders"]}]}`, "capacity"},
		{`{"topics": {"orders": 4, "log": 3}, "members": [{"id": "a", "sources": ["orders"], "tables": [{"name": "t", "changelog": "log"}]}]}`, `table "t" of member "a"`},
	} {
		_, err := read(t, c.input).Plan(false)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.input, err)
		}
	}
}

// Whatever is read, it is refused in one sentence or planned, and what is printed is JSON.
func FuzzRead(f *testing.F) {
	inputs, _ := filepath.Glob("testdata/*.json")
	for _, input := range inputs {
		text, err := os.ReadFile(input)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(`{"replicas": 9223372036854775807, "capacity": 2147483647, "topics": {"a": 3}, "members": [{"id": "\u0000", "sources": ["a", "b"]}]}`)
	f.Add(`{"topics": {"a": 0}, "members": [{"id": "x", "sets": [{"sources": ["a"]}], "active": {"a": []}, "generation": -1}]}`)
	f.Fuzz(func(t *testing.T, input string) {
		q, err := Read(strings.NewReader(input))
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one sentence: %q", err)
			}
			return
		}
		tasks := 0
		for _, n := range q.Topics {
			tasks += int(*n)
		}
		if tasks > 2000 || len(q.Members) > 50 {
			return
		}
		for _, next := range []bool{false, true} {
			r, err := q.Plan(next)
			if err != nil {
				if strings.Contains(err.Error(), "mistake in pillion") || strings.Contains(err.Error(), "\n") {
					t.Errorf("%q: %v", input, err)
				}
				continue
			}
			var b bytes.Buffer
			if err := r.JSON(&b); err != nil || !json.Valid(b.Bytes()) {
				t.Errorf("%v: %s", err, b.String())
			}
			if err := r.Table(&b); err != nil {
				t.Error(err)
			}
		}
	})
}
