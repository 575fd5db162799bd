package groupclient

import (
	"fmt"
	"slices"
	"strings"
)

// role is what a topic is for in one declaration.
type role struct {
	what string // "a source", "a changelog", ...
	of   string // `set "orders"`, or empty
}

func (r role) String() string {
	if r.of == "" {
		return r.what
	}
	return r.what + " of " + r.of
}

const (
	asSource      = "a source"
	asChangelog   = "a changelog"
	asSourceTable = "a source table"
	asGlobal      = "a global table"
	asOutput      = "an output"
)

func badDeclaration(format string, args ...any) error {
	return &RefusedError{codeBadDeclaration, fmt.Sprintf(format, args...)}
}

// roles checks a declaration by itself, without Kafka, and tells what each topic is for. A set or
// global table gives its tasks their names, so that no two may have the same.
func (d Declaration) roles(group string) (map[string][]role, error) {
	roles := map[string][]role{}
	names := map[string]string{}
	name := func(what, n string) error {
		if n == "" {
			return badDeclaration("%s has no name; give it one", what)
		}
		if was, ok := names[n]; ok {
			return badDeclaration("%s and %s are both named %q; rename one", was, what, n)
		}
		names[n] = what
		return nil
	}
	for i, set := range d.Sets {
		if err := name(fmt.Sprintf("set %d", i+1), set.Name); err != nil {
			return nil, err
		}
		if err := set.roles(group, roles); err != nil {
			return nil, err
		}
	}
	if err := d.flatRoles(group, roles); err != nil {
		return nil, err
	}
	for i, global := range d.Globals {
		if err := name(fmt.Sprintf("global table %d", i+1), global.Name); err != nil {
			return nil, err
		}
		roles[global.Topic] = append(roles[global.Topic], role{asGlobal, fmt.Sprintf("%q", global.Name)})
	}
	for _, output := range d.Outputs {
		roles[output] = append(roles[output], role{what: asOutput})
	}
	for topic, list := range roles {
		if topic == "" {
			return nil, badDeclaration("a topic without a name is %s; name it", list[0])
		}
	}
	return roles, contradiction(roles)
}

func (set DeclaredSet) roles(group string, roles map[string][]role) error {
	of := fmt.Sprintf("set %q", set.Name)
	if len(set.Sources) == 0 {
		return badDeclaration("%s has no sources; name at least one topic", of)
	}
	for _, source := range set.Sources {
		roles[source] = append(roles[source], role{asSource, of})
	}
	for _, table := range set.Tables {
		if len(table.Sources) > 0 {
			return badDeclaration("table %q of %s names sources; those of its set are meant, so leave them out", table.Name, of)
		}
	}
	return tableRoles(of, set.Tables, group, roles)
}

func tableRoles(of string, list []DeclaredTable, group string, roles map[string][]role) error {
	tables := map[string]bool{}
	for _, table := range list {
		switch {
		case table.Name == "":
			return badDeclaration("a table of %s has no name; give it one", of)
		case tables[table.Name]:
			return badDeclaration("two tables of %s are named %q; rename one", of, table.Name)
		case table.Changelog != "" && table.SourceTopic != "":
			return badDeclaration("table %q of %s has both the changelog %q and the source topic %q; a table is written by its task or by others, so name one",
				table.Name, of, table.Changelog, table.SourceTopic)
		}
		tables[table.Name] = true
		what := asChangelog
		if table.SourceTopic != "" {
			what = asSourceTable
		}
		topic := table.topic(group)
		roles[topic] = append(roles[topic], role{what, fmt.Sprintf("table %q of %s", table.Name, of)})
	}
	return nil
}

// topic is where the table's truth is.
func (t DeclaredTable) topic(group string) string {
	switch {
	case t.SourceTopic != "":
		return t.SourceTopic
	case t.Changelog != "":
		return t.Changelog
	default:
		return fmt.Sprintf("%s-%s-changelog", group, t.Name)
	}
}

// contradiction finds a topic whose roles cannot go together: a source is read by one set, once; a
// changelog is written by one table alone, and nothing else is done with it.
func contradiction(roles map[string][]role) error {
	var found []string
	for topic, list := range roles {
		count := map[string]int{}
		for _, r := range list {
			count[r.what]++
		}
		if count[asSource] > 1 || count[asChangelog] > 0 && len(list) > 1 {
			found = append(found, topic)
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	var words []string
	for _, r := range roles[found[0]] {
		words = append(words, r.String())
	}
	slices.Sort(words)
	if words[0] == words[1] {
		return badDeclaration("topic %q is named twice as %s; name it once", found[0], words[0])
	}
	if strings.HasPrefix(words[0], asSource+" of") && strings.HasPrefix(words[1], asSource+" of") {
		return badDeclaration("topic %q is %s and %s; put both sets into one, a record can only go to one of them", found[0], words[0], words[1])
	}
	return badDeclaration("topic %q is %s and also %s; a changelog is written by its own table alone, so use another topic for the other",
		found[0], words[0], words[1])
}

// allowed tells whether a list of exact names and "prefix*" has a topic. An empty list has all.
func allowed(list []string, topic string) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(pattern string) bool {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
			return strings.HasPrefix(topic, prefix)
		}
		return topic == pattern
	})
}
