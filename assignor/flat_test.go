package assignor

import (
	"fmt"
	"strings"
	"testing"
)

func flatTable(log string, sources ...string) FlatTable {
	return FlatTable{Table: Table{Name: log, Changelog: log}, Sources: sources}
}

func TestGroupFlat(t *testing.T) {
	counts := map[string]int32{"a": 4, "b": 4, "c": 8, "d": 4, "log4": 4, "log8": 8}
	for name, c := range map[string]struct {
		members []FlatMember
		want    string // of the first member
	}{
		"by count":          {[]FlatMember{{ID: "m", Sources: []string{"c", "b", "a", "a"}}}, "a,b: c:"},
		"by subscribers":    {[]FlatMember{{ID: "m", Sources: []string{"a", "b"}}, {ID: "n", Sources: []string{"b"}}}, "a: b:"},
		"missing topics":    {[]FlatMember{{ID: "m", Sources: []string{"a", "x", "y"}}}, "a: x,y:"},
		"tables by count":   {[]FlatMember{{ID: "m", Sources: []string{"a", "c"}, Tables: []FlatTable{flatTable("log8"), flatTable("log4")}}}, "a:log4 c:log8"},
		"tables by sources": {[]FlatMember{{ID: "m", Sources: []string{"a", "d"}, Tables: []FlatTable{flatTable("log4", "d")}}, {ID: "n", Sources: []string{"a"}}}, "a: d:log4"},
		"the only group":    {[]FlatMember{{ID: "m", Sources: []string{"a", "b"}, Tables: []FlatTable{flatTable("new")}}}, "a,b:new"},
		"nothing":           {[]FlatMember{{ID: "m"}}, ""},
	} {
		sets, err := GroupFlat(c.members, counts)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, s := range sets["m"] {
			word := s.Key() + ":"
			for _, table := range s.Tables {
				word += table.Changelog
			}
			got = append(got, word)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	for want, m := range map[string]FlatMember{
		"does not read":             {ID: "m", Sources: []string{"a"}, Tables: []FlatTable{flatTable("log4", "b")}},
		"not read together":         {ID: "m", Sources: []string{"a", "c"}, Tables: []FlatTable{flatTable("log4", "a", "c")}},
		"no source of the member":   {ID: "m", Sources: []string{"a"}, Tables: []FlatTable{flatTable("log8")}},
		"may belong to 2 groups":    {ID: "m", Sources: []string{"a", "c"}, Tables: []FlatTable{flatTable("new")}},
		`table "log8" of member "m`: {ID: "m", Tables: []FlatTable{flatTable("log8")}},
	} {
		if _, err := GroupFlat([]FlatMember{m}, counts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", want, err)
		}
	}
}

// A rolling deploy in which some members read one topic more: the sources that all read stay together.
func TestFlatMembersThatReadDifferently(t *testing.T) {
	counts := map[string]int32{"a": 4, "b": 4, "c": 4, "gone": 0}
	members := []FlatMember{{ID: "m0", Sources: []string{"a", "b", "c", "gone"}}, {ID: "m1", Sources: []string{"a", "b", "c"}}, {ID: "m2", Sources: []string{"a", "b"}}}
	sets, err := GroupFlat(members, counts)
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Counts: counts, Options: Options{Replicas: 1}}
	for _, m := range members {
		in.Members = append(in.Members, Member{ID: m.ID, Sets: sets[m.ID]})
	}
	p := target(in)
	if err := Validate(in, p); err != nil {
		t.Error(err)
	}
	if got := fmt.Sprint(p.Sets); got != "[{a,b [a b] 4} {c [c] 4} {gone [gone] 0}]" || len(p.Warnings) != 1 || len(p.Waiting) > 0 {
		t.Errorf("got %s, warnings %q, waiting %v", got, p.Warnings, p.Waiting)
	}
}
