package assignor

import (
	"cmp"
	"maps"
	"slices"
)

func compareTables(a, b Table) int {
	return cmp.Or(cmp.Compare(a.Changelog, b.Changelog), cmp.Compare(a.Name, b.Name), boolInt(a.Source)-boolInt(b.Source))
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Unite joins the declarations of all members: sets that share a source, or a changelog that is not
// a source table's, are one set of the group. Sorted by key; the order of the input does not matter.
func Unite(members []Member) []United {
	u := union{parent: map[string]string{}}
	for i, m := range members {
		if i > 0 && sameSets(m.Sets, members[i-1].Sets) {
			continue // as most are
		}
		for _, s := range m.Sets {
			if len(s.Sources) == 0 {
				continue
			}
			first := "s" + s.Sources[0]
			for _, source := range s.Sources {
				u.join(first, "s"+source)
			}
			for _, t := range s.Tables {
				if !t.Source {
					u.join(first, "c"+t.Changelog)
				}
			}
		}
	}
	groups := map[string][]string{}
	for node := range u.parent {
		if node[0] == 's' {
			root := u.find(node)
			groups[root] = append(groups[root], node[1:])
		}
	}
	var sets []United
	for _, root := range slices.Sorted(maps.Keys(groups)) {
		sources := groups[root]
		slices.Sort(sources)
		sets = append(sets, United{Key: Key(sources), Sources: sources})
	}
	slices.SortFunc(sets, func(a, b United) int { return cmp.Compare(a.Key, b.Key) })
	return sets
}

func sameSets(a, b []Set) bool {
	return slices.EqualFunc(a, b, func(a, b Set) bool {
		return slices.Equal(a.Sources, b.Sources) && slices.Equal(a.Tables, b.Tables)
	})
}

// union is the usual forest of disjoint sets.
type union struct{ parent map[string]string }

func (u union) find(node string) string {
	parent, ok := u.parent[node]
	if !ok {
		u.parent[node] = node
		return node
	}
	if parent == node {
		return node
	}
	root := u.find(parent)
	u.parent[node] = root
	return root
}

func (u union) join(a, b string) {
	ra, rb := u.find(a), u.find(b)
	if ra != rb {
		u.parent[max(ra, rb)] = min(ra, rb)
	}
}
