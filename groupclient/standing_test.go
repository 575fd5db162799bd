package groupclient

import (
	"maps"
	"slices"
	"testing"
)

func claimed(incarnation string, sources, tables []string) claim {
	c := claim{Incarnation: incarnation, Guarantee: AtLeastOnce, Sources: map[string]string{}, Tables: map[string]string{}}
	for _, s := range sources {
		c.Sources[s] = "id"
	}
	for _, t := range tables {
		c.Tables[t] = "id"
	}
	return c
}

// A claim at a source that the newest owner does not declare is of an earlier time, and does not count.
func TestStandingClaims(t *testing.T) {
	wide := claimed("wide", []string{"a", "b"}, []string{"log-a", "log-b"})
	narrow := claimed("narrow", []string{"a"}, []string{"log-a"})
	released := wide
	released.Released = true
	narrowed := claimed("wide", []string{"a"}, []string{"log-a"})
	for name, c := range map[string]struct {
		claims map[string]claim
		want   []string // sources whose claims stand
	}{
		"none":                       {map[string]claim{}, nil},
		"one owner":                  {map[string]claim{"a": wide, "b": wide}, []string{"a", "b"}},
		"one source is new":          {map[string]claim{"a": narrow}, []string{"a"}},
		"replaced at one source":     {map[string]claim{"a": narrow, "b": wide}, []string{"a"}},
		"the owner declares less":    {map[string]claim{"a": narrowed, "b": wide}, []string{"a"}},
		"released in parts":          {map[string]claim{"a": released, "b": wide}, []string{"a", "b"}},
		"two sets that were apart":   {map[string]claim{"a": narrow, "b": claimed("other", []string{"b"}, nil)}, []string{"a", "b"}},
		"a commit came in parts":     {map[string]claim{"a": wide, "b": claimed("next", []string{"a", "b"}, nil)}, []string{"a", "b"}},
		"a source that is not asked": {map[string]claim{"a": claimed("x", []string{"a", "gone"}, nil)}, []string{"a"}},
	} {
		if got := slices.Sorted(maps.Keys(standing(c.claims))); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v stand, not %v", name, got, c.want)
		}
	}
	hashedSources := claim{Incarnation: "h", Sources: map[string]string{hashed("a"): "id", hashed("b"): "id"}}
	if got := standing(map[string]claim{"a": narrow, "b": hashedSources}); len(got) != 1 {
		t.Errorf("with hashes: %v", got)
	}
}

// A table that the last owner of a task did not keep has a hole, though an older claim names it.
func TestAnOldClaimDoesNotVouchForATable(t *testing.T) {
	set := PreparedSet{Name: "s", Sources: []string{"a", "b"}, Tables: []PreparedTable{{Name: "t", Topic: "log-b"}}}
	f := found{
		claims: map[string]claim{"a": claimed("narrow", []string{"a"}, nil), "b": claimed("wide", []string{"a", "b"}, []string{"log-b"})},
		ids:    map[string][16]byte{}, first: map[string]int64{"log-b": 0}, last: map[string]int64{"log-b": 5},
	}
	if err := (Config{Group: "g"}).checkState(Task{"s", 0}, set, f); err == nil {
		t.Error("a table with a hole was accepted")
	}
	f.claims["a"] = f.claims["b"]
	if err := (Config{Group: "g"}).checkState(Task{"s", 0}, set, f); err != nil {
		t.Error(err)
	}
}
