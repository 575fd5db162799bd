package groupclient

import (
	"errors"
	"testing"
	"time"

	"github.com/pillion/pillion/internal/kafka"
)

func TestBadDeclarations(t *testing.T) {
	set := func(name string, sources []string, tables ...DeclaredTable) DeclaredSet {
		return DeclaredSet{Name: name, Sources: sources, Tables: tables}
	}
	a := []string{"a"}
	for want, d := range map[string]Declaration{
		`set 1 has no name; give it one`:                          {Sets: []DeclaredSet{set("", a)}},
		`set 1 and set 2 are both named "s"; rename one`:          {Sets: []DeclaredSet{set("s", a), set("s", []string{"b"})}},
		`set 1 and global table 1 are both named "s"; rename one`: {Sets: []DeclaredSet{set("s", a)}, Globals: []DeclaredGlobal{{"s", "g"}}},
		`set "s" has no sources; name at least one topic`:         {Sets: []DeclaredSet{set("s", nil)}},
		`a topic without a name is a source of set "s"; name it`:  {Sets: []DeclaredSet{set("s", []string{""})}},
		`a table of set "s" has no name; give it one`:             {Sets: []DeclaredSet{set("s", a, DeclaredTable{})}},
		`two tables of set "s" are named "t"; rename one`:         {Sets: []DeclaredSet{set("s", a, DeclaredTable{Name: "t"}, DeclaredTable{Name: "t"})}},
		`table "t" of set "s" has both the changelog "c" and the source topic "x"; a table is written by its task or by others, so name one`: {
			Sets: []DeclaredSet{set("s", a, DeclaredTable{Name: "t", Changelog: "c", SourceTopic: "x"})}},
		`topic "a" is named twice as a source of set "s"; name it once`: {Sets: []DeclaredSet{set("s", []string{"a", "a"})}},
		`topic "a" is a source of set "s" and a source of set "z"; put both sets into one, a record can only go to one of them`: {
			Sets: []DeclaredSet{set("s", a), set("z", a)}},
		`topic "a" is a changelog of table "t" of set "s" and also a source of set "s"; a changelog is written by its own table alone, so use another topic for the other`: {
			Sets: []DeclaredSet{set("s", a, DeclaredTable{Name: "t", Changelog: "a"})}},
		`topic "c" is a changelog of table "t" of set "s" and also an output; a changelog is written by its own table alone, so use another topic for the other`: {
			Sets: []DeclaredSet{set("s", a, DeclaredTable{Name: "t", Changelog: "c"})}, Outputs: []string{"c"}},
		`topic "g-t-changelog" is a changelog of table "t" of set "s" and also a changelog of table "t" of set "z"; a changelog is written by its own table alone, so use another topic for the other`: {
			Sets: []DeclaredSet{set("s", a, DeclaredTable{Name: "t"}), set("z", []string{"b"}, DeclaredTable{Name: "t"})}},
	} {
		_, err := d.roles("g")
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Code != codeBadDeclaration || refused.Message != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestRolesThatGoTogether(t *testing.T) {
	d := Declaration{
		Sets: []DeclaredSet{{"s", []string{"a", "b"}, []DeclaredTable{{Name: "t"}, {Name: "u", SourceTopic: "users"}}},
			{"z", []string{"c"}, []DeclaredTable{{Name: "u", SourceTopic: "users"}}}},
		Globals: []DeclaredGlobal{{"g", "users"}},
		Outputs: []string{"a", "out", "out"},
	}
	if _, err := d.roles("g"); err != nil {
		t.Error(err)
	}
}

func TestAllowed(t *testing.T) {
	list := []string{"orders", "app-*"}
	for topic, want := range map[string]bool{"orders": true, "orders2": false, "app-": true, "app-x": true, "ap": false} {
		if got := allowed(list, topic); got != want {
			t.Errorf("%s: %v", topic, got)
		}
	}
	if !allowed(nil, "anything") || !allowed([]string{"*"}, "anything") {
		t.Error("an open list refuses")
	}
}

func TestConfig(t *testing.T) {
	good := Config{Group: "g", Client: &kafka.Client{}}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"no client": func(c *Config) { c.Client = nil }, "no group": func(c *Config) { c.Group = "" },
		"slow heartbeat": func(c *Config) { c.HeartbeatInterval = 4 * time.Second },
		"reset":          func(c *Config) { c.AutoOffsetReset = "newest" }, "lost": func(c *Config) { c.OnLostPosition = "none" },
		"guarantee": func(c *Config) { c.Guarantee = "exactly" }, "replicas": func(c *Config) { c.Replicas = new(-1) },
		"negative": func(c *Config) { c.SessionTimeout = -1 },
	} {
		bad := good
		change(&bad)
		if bad.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := New(bad, newRecorder()); err == nil {
			t.Errorf("%s: a group was made", name)
		}
	}
}
