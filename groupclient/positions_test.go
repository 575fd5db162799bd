package groupclient

import (
	"errors"
	"strings"
	"testing"
)

// state is a task of two sources and one table as a take-over finds it.
func state(change func(*found)) found {
	ids := map[string][16]byte{"a": {1}, "b": {2}, "log": {3}}
	c := claim{Incarnation: "other", Guarantee: AtLeastOnce,
		Sources: map[string]string{"a": shortID(ids["a"]), "b": shortID(ids["b"])}, Tables: map[string]string{"log": shortID(ids["log"])}}
	f := found{
		claims:    map[string]claim{"a": c, "b": c},
		committed: map[string]committed{"a": {offset: 10}, "b": {offset: 20}},
		ids:       ids, missing: map[string]bool{},
		first: map[string]int64{"a": 5, "b": 5, "log": 0}, last: map[string]int64{"a": 100, "b": 100, "log": 50},
	}
	if change != nil {
		change(&f)
	}
	return f
}

func fresh(f *found) {
	f.claims = map[string]claim{}
	f.committed = map[string]committed{"a": {offset: -1}, "b": {offset: -1}}
	f.last["log"] = 0
}

func TestPositions(t *testing.T) {
	set := PreparedSet{Name: "s", Sources: []string{"a", "b"}, Partitions: 1, Tables: []PreparedTable{{Name: "t", Topic: "log"}, {Name: "x", Topic: "src", Source: true}}}
	for _, c := range []struct {
		name       string
		found      found
		config     Config
		a, b       int64
		code, text string
	}{
		{name: "all committed", found: state(nil), a: 10, b: 20},
		{name: "nothing yet, earliest", found: state(fresh), a: 5, b: 5},
		{name: "nothing yet, latest", found: state(fresh), config: Config{AutoOffsetReset: ResetLatest}, a: 100, b: 100},
		{name: "nothing yet, none", found: state(fresh), config: Config{AutoOffsetReset: ResetNone}, code: codeLostPosition, text: "auto_offset_reset is none"},
		{name: "nothing committed beside a filled changelog", found: state(func(f *found) { fresh(f); f.last["log"] = 9 }), code: codeLostPosition, text: `changelog "log" is not empty`},
		{name: "the same, on_lost_position latest", found: state(func(f *found) { fresh(f); f.last["log"] = 9 }), config: Config{OnLostPosition: ResetLatest}, a: 100, b: 100},
		{name: "a changelog emptied by retention is empty", found: state(func(f *found) { fresh(f); f.first["log"], f.last["log"] = 9, 9 }), a: 5, b: 5},
		{name: "a new source", found: state(func(f *found) {
			for _, c := range f.claims {
				delete(c.Sources, "b")
			}
			delete(f.claims, "b")
			f.committed["b"] = committed{offset: -1}
		}), a: 10, b: 5},
		{name: "a committed position is gone", found: state(func(f *found) { f.committed["b"] = committed{offset: -1} }), code: codeLostPosition, text: "is gone"},
		{name: "the same, on_lost_position earliest", found: state(func(f *found) { f.committed["b"] = committed{offset: -1} }), config: Config{OnLostPosition: ResetEarliest}, a: 10, b: 5},
		{name: "positions of another consumer", found: state(func(f *found) { f.claims = map[string]claim{} }), a: 10, b: 20},
		{name: "one of another consumer, one new", found: state(func(f *found) { f.claims = map[string]claim{}; f.committed["b"] = committed{offset: -1} }), a: 10, b: 5},
		{name: "source created anew", found: state(func(f *found) { f.ids["a"] = [16]byte{9} }), code: codeLostPosition, text: `topic "a" was deleted or created anew`},
		{name: "below the log", found: state(func(f *found) { f.first["a"] = 11 }), code: codeLostPosition, text: "below the start of the log, 11"},
		{name: "at the start", found: state(func(f *found) { f.first["a"] = 10 }), a: 10, b: 20},
		{name: "past the log", found: state(func(f *found) { f.last["a"] = 9 }), code: codeLostPosition, text: "past the end of the log, 9"},
		{name: "at the end", found: state(func(f *found) { f.last["a"] = 10 }), a: 10, b: 20},
		{name: "source gone", found: state(func(f *found) { f.missing["a"] = true }), code: codeUnknownTopic, text: `source topic "a"`},
		{name: "changelog gone", found: state(func(f *found) { f.missing["log"] = true }), code: codeLostState, text: `changelog "log"`},
		{name: "changelog created anew", found: state(func(f *found) { f.ids["log"] = [16]byte{9} }), code: codeLostState, text: "--accept-state-loss"},
		{name: "the same, accepted", found: state(func(f *found) { f.ids["log"] = [16]byte{9} }), config: Config{AcceptStateLoss: true}, a: 10, b: 20},
		{name: "a filled changelog that no claim names", found: state(func(f *found) {
			for _, c := range f.claims {
				delete(c.Tables, "log")
			}
		}), code: codeLostState, text: "without this table"},
		{name: "an empty one", found: state(func(f *found) {
			for _, c := range f.claims {
				delete(c.Tables, "log")
			}
			f.last["log"] = 0
		}), a: 10, b: 20},
		{name: "a broker without topic ids", found: state(func(f *found) { f.ids = map[string][16]byte{} }), a: 10, b: 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.config.Group = "g"
			got, err := c.config.withDefaults().positions(Task{"s", 0}, set, c.found)
			var refused *RefusedError
			switch {
			case c.code == "" && (err != nil || got["a"] != c.a || got["b"] != c.b):
				t.Errorf("got %v, %v", got, err)
			case c.code != "" && (!errors.As(err, &refused) || refused.Code != c.code || !strings.Contains(refused.Message, c.text)):
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}
