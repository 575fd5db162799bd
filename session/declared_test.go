package session

import (
	"strings"
	"testing"

	"github.com/pillion/pillion/protocol"
)

// Everything that contradicts itself is refused before Kafka is asked, in one sentence.
func TestMisdeclared(t *testing.T) {
	set := func(name, source string, tables ...protocol.Table) protocol.Set {
		return protocol.Set{Name: name, Sources: []string{source}, Tables: tables}
	}
	for name, c := range map[string]struct {
		hello protocol.Hello
		want  string // empty: it is fine
	}{
		"fine": {protocol.Hello{
			Sets: []protocol.Set{
				set("a", "in", protocol.Table{Name: "t"}, protocol.Table{Name: "u", Changelog: "ulog"}, protocol.Table{Name: "v", SourceTopic: "up"}),
				set("b", "more", protocol.Table{Name: "w"}, protocol.Table{Name: "v", SourceTopic: "up"}),
			},
			Globals: []protocol.Global{{Name: "g", Topic: "up"}, {Name: "t", Topic: "up"}},
		}, ""},
		"two sets of a name":       {protocol.Hello{Sets: []protocol.Set{set("a", "in"), set("a", "more")}}, `the name "a" is used twice`},
		"set and global of a name": {protocol.Hello{Sets: []protocol.Set{set("a", "in")}, Globals: []protocol.Global{{Name: "a", Topic: "up"}}}, `the name "a" is used twice`},
		"source of two sets":       {protocol.Hello{Sets: []protocol.Set{set("a", "in"), set("b", "in")}}, `topic "in" is a source of the sets "a" and "b"`},
		"source twice": {protocol.Hello{Sets: []protocol.Set{{Name: "a", Sources: []string{"in", "in"}}}},
			`topic "in" is named twice as a source of set "a"`},
		"two tables of a name": {protocol.Hello{Sets: []protocol.Set{set("a", "in", protocol.Table{Name: "t"}, protocol.Table{Name: "t", Changelog: "x"})}},
			`set "a" has two tables "t"`},
		"changelog and source": {protocol.Hello{Sets: []protocol.Set{set("a", "in", protocol.Table{Name: "t", Changelog: "x", SourceTopic: "y"})}},
			`table "t" of set "a" has both changelog and source_topic`},
		"one changelog for two tables": {protocol.Hello{Sets: []protocol.Set{set("a", "in", protocol.Table{Name: "t", Changelog: "x"}, protocol.Table{Name: "u", Changelog: "x"})}},
			`topic "x" is the changelog of table "t" of set "a" and of table "u" of set "a"`},
		"one table name, one changelog": {protocol.Hello{Sets: []protocol.Set{set("a", "in", protocol.Table{Name: "t"}), set("b", "more", protocol.Table{Name: "t"})}},
			`topic "me-t-changelog" is the changelog of table "t" of set "a" and of table "t" of set "b"`},
		"a changelog named like another's": {protocol.Hello{Sets: []protocol.Set{set("a", "in", protocol.Table{Name: "t"}, protocol.Table{Name: "u", Changelog: "me-t-changelog"})}},
			`topic "me-t-changelog" is the changelog of`},
		"stateless":           {protocol.Hello{Level: protocol.LevelStateless, Sets: []protocol.Set{set("a", "in")}}, ""},
		"stateless and table": {protocol.Hello{Level: protocol.LevelStateless, Sets: []protocol.Set{set("a", "in", protocol.Table{Name: "t"})}}, `hello says level "stateless" and declares tables`},
		"stateless and global": {protocol.Hello{Level: protocol.LevelStateless, Globals: []protocol.Global{{Name: "g", Topic: "up"}}},
			`hello says level "stateless" and declares tables`},
		"stateless and flat table": {protocol.Hello{Level: protocol.LevelStateless, Sources: []string{"in"}, Tables: []protocol.FlatTable{{Name: "t"}}},
			`hello says level "stateless" and declares tables`},
		"flat": {protocol.Hello{Sources: []string{"in", "more"}, Tables: []protocol.FlatTable{{Name: "t", Sources: []string{"in"}}, {Name: "u", SourceTopic: "up"}}}, ""},
		"sets and flat": {protocol.Hello{Sets: []protocol.Set{set("a", "in")}, Sources: []string{"more"}},
			`hello has sets and also flat sources or tables`},
		"sets and flat tables":    {protocol.Hello{Sets: []protocol.Set{set("a", "in")}, Tables: []protocol.FlatTable{{Name: "t"}}}, `hello has sets and also flat`},
		"flat tables alone":       {protocol.Hello{Tables: []protocol.FlatTable{{Name: "t"}}}, `tables are declared, but no sources`},
		"flat source twice":       {protocol.Hello{Sources: []string{"in", "in"}}, `topic "in" is named twice in sources`},
		"flat table twice":        {protocol.Hello{Sources: []string{"in"}, Tables: []protocol.FlatTable{{Name: "t"}, {Name: "t", Changelog: "x"}}}, `two tables are named "t"`},
		"flat table of no source": {protocol.Hello{Sources: []string{"in"}, Tables: []protocol.FlatTable{{Name: "t", Sources: []string{"ni"}}}}, `table "t" is kept with topic "ni"`},
		"flat changelog of two": {protocol.Hello{Sources: []string{"in"}, Tables: []protocol.FlatTable{{Name: "t"}, {Name: "u", Changelog: "me-t-changelog"}}},
			`topic "me-t-changelog" is the changelog of table "t" and of table "u"`},
		"flat changelog and source": {protocol.Hello{Sources: []string{"in"}, Tables: []protocol.FlatTable{{Name: "t", Changelog: "x", SourceTopic: "y"}}},
			`table "t" has both changelog and source_topic`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Group: "me"}
			got := ""
			if no := cfg.refusal("", false, c.hello); no != nil {
				got = no.Message
			}
			if !strings.HasPrefix(got, c.want) || (c.want == "") != (got == "") {
				t.Fatalf("got %q, want %q", got, c.want)
			}
		})
	}
}
