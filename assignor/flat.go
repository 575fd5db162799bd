package assignor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// FlatMember is a member that declares sources and tables without saying which belong together.
type FlatMember struct {
	ID      string
	Sources []string
	Tables  []FlatTable
}

// FlatTable is a table of a FlatMember. Sources, when given, are some of the member's sources: the
// table belongs to their group.
type FlatTable struct {
	Table
	Sources []string
}

// GroupFlat finds the sets of members that declare none, as Faust does: sources with the same number
// of partitions and the same subscribers are read together. A table belongs to the group of the
// sources that it names, or else to the one group with as many partitions as its changelog; a
// changelog that does not exist takes the count of the member's only group. Sources that do not exist
// make groups of their own, which Target skips with a warning. The result has an entry for each member.
func GroupFlat(members []FlatMember, counts map[string]int32) (map[string][]Set, error) {
	subscribers := map[string][]string{}
	for _, m := range members {
		for _, source := range slices.Compact(slices.Sorted(slices.Values(m.Sources))) {
			subscribers[source] = append(subscribers[source], m.ID)
		}
	}
	group := map[string]string{} // by source; its name is never seen
	for source, ids := range subscribers {
		slices.Sort(ids)
		group[source] = fmt.Sprintf("%d %s", counts[source], strings.Join(ids, "\x00"))
	}
	sets := make(map[string][]Set, len(members))
	for _, m := range members {
		own, err := m.group(group, counts)
		if err != nil {
			return nil, err
		}
		sets[m.ID] = own
	}
	return sets, nil
}

func (m FlatMember) group(group map[string]string, counts map[string]int32) ([]Set, error) {
	of := map[string]*Set{}
	for _, source := range slices.Compact(slices.Sorted(slices.Values(m.Sources))) {
		g := group[source]
		if of[g] == nil {
			of[g] = &Set{}
		}
		of[g].Sources = append(of[g].Sources, source)
	}
	for _, t := range m.Tables {
		set, err := m.home(t, of, group, counts)
		if err != nil {
			return nil, err
		}
		set.Tables = append(set.Tables, t.Table)
	}
	sets := make([]Set, 0, len(of))
	for _, set := range of {
		slices.SortFunc(set.Tables, compareTables)
		sets = append(sets, *set)
	}
	slices.SortFunc(sets, func(a, b Set) int { return slices.Compare(a.Sources, b.Sources) })
	return sets, nil
}

// home is the set that a table belongs to.
func (m FlatMember) home(t FlatTable, of map[string]*Set, group map[string]string, counts map[string]int32) (*Set, error) {
	name := fmt.Sprintf("table %q of member %q", cmp.Or(t.Name, t.Changelog), m.ID)
	if len(t.Sources) > 0 {
		for _, source := range t.Sources {
			switch {
			case !slices.Contains(m.Sources, source):
				return nil, fmt.Errorf("%s names the source %q, which the member does not read", name, source)
			case group[source] != group[t.Sources[0]]:
				return nil, fmt.Errorf("%s names the sources %q and %q, which are not read together: they need the same number of partitions and the same subscribers",
					name, t.Sources[0], source)
			}
		}
		return of[group[t.Sources[0]]], nil
	}
	var homes []*Set
	n, known := counts[t.Changelog]
	for _, g := range slices.Sorted(maps.Keys(of)) {
		if size := counts[of[g].Sources[0]]; size == n || !known && size > 0 || len(of) == 1 && !known {
			homes = append(homes, of[g])
		}
	}
	switch len(homes) {
	case 1:
		return homes[0], nil
	case 0:
		return nil, fmt.Errorf("%s has a changelog %q of %d partitions, and no source of the member has as many: name its sources", name, t.Changelog, n)
	default:
		return nil, fmt.Errorf("%s may belong to %d groups of sources: name its sources", name, len(homes))
	}
}
