package groupclient

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pillion/pillion/assignor"
)

// A flat declaration has sources and tables without sets. Sources with the same number of partitions
// are one set, named by its key; a table belongs to the set of the sources that it names, else to the
// one whose number of partitions its topic has, else (its changelog is missing) to the only one.

func (d Declaration) flat() bool { return len(d.Sources) > 0 || len(d.Tables) > 0 }

// flatRoles checks a flat declaration by itself.
func (d Declaration) flatRoles(group string, roles map[string][]role) error {
	switch {
	case !d.flat():
		return nil
	case len(d.Sets) > 0:
		return badDeclaration("both sets and flat sources or tables are declared; put everything into sets, or nothing")
	case len(d.Sources) == 0:
		return badDeclaration("tables are declared and no sources; name the topics that the worker reads")
	}
	for _, source := range d.Sources {
		roles[source] = append(roles[source], role{what: asSource})
	}
	for _, table := range d.Tables {
		for _, source := range table.Sources {
			if !slices.Contains(d.Sources, source) {
				return badDeclaration("table %q names the source %q, which is not declared; declare it, or correct its name", table.Name, source)
			}
		}
	}
	return tableRoles("the declaration", d.Tables, group, roles)
}

// group makes sets of a flat declaration, now that the partition counts are known.
func (p *preparation) group(context.Context) error {
	if !p.declared.flat() {
		return nil
	}
	byCount := map[int32][]string{}
	for _, source := range p.declared.Sources {
		byCount[p.count(source)] = append(byCount[p.count(source)], source)
	}
	sets := map[int32]*DeclaredSet{}
	for n, sources := range byCount {
		slices.Sort(sources)
		sets[n] = &DeclaredSet{Name: assignor.Key(sources), Sources: sources}
	}
	for _, table := range p.declared.Tables {
		n, err := p.countOf(table, sets)
		if err != nil {
			return err
		}
		table.Sources = nil
		sets[n].Tables = append(sets[n].Tables, table)
	}
	p.declared.Sources, p.declared.Tables = nil, nil
	for _, n := range slices.Sorted(maps.Keys(sets)) {
		p.declared.Sets = append(p.declared.Sets, *sets[n])
	}
	roles, err := p.declared.roles(p.opts.Group)
	if err == nil {
		p.roles = roles
	}
	return err
}

// countOf finds the set that a flat table belongs to, by its number of partitions.
func (p *preparation) countOf(table DeclaredTable, sets map[int32]*DeclaredSet) (int32, error) {
	topic := table.topic(p.opts.Group)
	for _, source := range table.Sources {
		if first := table.Sources[0]; p.count(source) != p.count(first) {
			return 0, &RefusedError{codeCountMismatch, fmt.Sprintf("table %q is kept with %q, which has %d partitions, and with %q, which has %d; topics that are read together need the same number: create one of them anew",
				table.Name, first, p.count(first), source, p.count(source))}
		}
	}
	if len(table.Sources) > 0 {
		return p.count(table.Sources[0]), nil
	}
	counts := slices.Sorted(maps.Keys(sets))
	switch n := p.count(topic); {
	case sets[n] != nil:
		return n, nil
	case n == 0 && len(sets) == 1:
		return counts[0], nil
	case n == 0:
		return 0, badDeclaration("changelog %q of table %q does not exist, and the sources have different numbers of partitions (%s), so that its own is not known; let the table name its sources, or create the changelog",
			topic, table.Name, p.countWords(sets))
	default:
		return 0, &RefusedError{codeCountMismatch, fmt.Sprintf("topic %q (%s) has %d partitions, and no declared source has as many (%s); topics that are read together need the same number: create one of them anew",
			topic, p.roles[topic][0], n, p.countWords(sets))}
	}
}

func (p *preparation) countWords(sets map[int32]*DeclaredSet) string {
	var words []string
	for _, n := range slices.Sorted(maps.Keys(sets)) {
		words = append(words, fmt.Sprintf("%s: %d", strings.Join(sets[n].Sources, ", "), n))
	}
	return strings.Join(words, "; ")
}
