package session

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pillion/pillion/protocol"
)

// Refusal is why a worker that has said hello is sent away again. Without a Code the close says it all.
type Refusal struct {
	Close         int
	Code, Message string
}

// refusal checks what needs no Kafka: whether a worker is wanted, and that what it declares does not
// contradict itself. joined is the group that we are a member of, or empty.
func (c *Config) refusal(joined string, draining bool, h protocol.Hello) *Refusal {
	if draining {
		return &Refusal{Close: protocol.CloseDrained, Message: "the sidecar is draining"}
	}
	group := c.groupOf(h)
	var why string
	switch {
	case group == "":
		why = "no group is named: set group_id (--group-id) at the sidecar or group in the worker"
	case joined != "" && joined != group:
		why = fmt.Sprintf("this sidecar is a member of group %q and cannot also join %q: use one sidecar for one group", joined, group)
	default:
		why = cmp.Or(twoForms(h), beyondLevel(h), sameNames(h), sharedSources(h), sharedChangelogs(group, h), flatTables(group, h))
	}
	if why == "" {
		return nil
	}
	return &Refusal{Close: protocol.CloseRefused, Code: protocol.CodeBadDeclaration, Message: why}
}

func (c *Config) groupOf(h protocol.Hello) string { return cmp.Or(c.Group, h.Group, c.DefaultGroup) }

// joinedGroup is the group that we are a member of, or on the way to; else empty.
func (m *Machine) joinedGroup() string {
	if !m.joined || m.prepared == nil {
		return ""
	}
	return m.prepared.Group
}

// twoForms: what is declared flat is grouped by the sidecar, what is declared in sets is not.
func twoForms(h protocol.Hello) string {
	if len(h.Sets) > 0 && len(h.Sources)+len(h.Tables) > 0 {
		return "hello has sets and also flat sources or tables: declare everything in sets, or everything flat"
	}
	return ""
}

// beyondLevel: a worker without tables has nowhere to put what is restored.
func beyondLevel(h protocol.Hello) string {
	if h.Level != protocol.LevelStateless {
		return ""
	}
	tables := len(h.Tables) + len(h.Globals)
	for _, s := range h.Sets {
		tables += len(s.Tables)
	}
	if tables > 0 {
		return `hello says level "stateless" and declares tables: say level "tables" when the worker can keep them, else declare none`
	}
	return ""
}

// sameNames: tasks are named after sets and globals.
func sameNames(h protocol.Hello) string {
	names := map[string]bool{}
	for _, s := range h.Sets {
		if names[s.Name] {
			return fmt.Sprintf("the name %q is used twice among sets and globals: give each its own", s.Name)
		}
		names[s.Name] = true
	}
	for _, g := range h.Globals {
		if names[g.Name] {
			return fmt.Sprintf("the name %q is used twice among sets and globals: give each its own", g.Name)
		}
		names[g.Name] = true
	}
	return ""
}

// sharedSources: a record goes to one task only.
func sharedSources(h protocol.Hello) string {
	reader := map[string]string{}
	for _, s := range h.Sets {
		for _, topic := range s.Sources {
			if other, ok := reader[topic]; ok && other != s.Name {
				return fmt.Sprintf("topic %q is a source of the sets %q and %q: put both sets into one, a record can only go to one of them",
					topic, other, s.Name)
			} else if ok {
				return fmt.Sprintf("topic %q is named twice as a source of set %q: name it once", topic, s.Name)
			}
			reader[topic] = s.Name
		}
	}
	for i, topic := range h.Sources {
		if slices.Contains(h.Sources[:i], topic) {
			return fmt.Sprintf("topic %q is named twice in sources: name it once", topic)
		}
	}
	return ""
}

// sharedChangelogs: a changelog is written by one table alone, a source table by others.
func sharedChangelogs(group string, h protocol.Hello) string {
	writers := writers{}
	for _, s := range h.Sets {
		names := map[string]bool{}
		for _, t := range s.Tables {
			if names[t.Name] {
				return fmt.Sprintf("set %q has two tables %q: give each its own name", s.Name, t.Name)
			}
			names[t.Name] = true
			if why := writers.add(group, fmt.Sprintf("table %q of set %q", t.Name, s.Name), t); why != "" {
				return why
			}
		}
	}
	return ""
}

// flatTables: the same for tables without sets. Which of them go together is seen in Kafka only, so
// that their names are all different.
func flatTables(group string, h protocol.Hello) string {
	if len(h.Tables) > 0 && len(h.Sources) == 0 {
		return "tables are declared, but no sources: name the topics that they are kept with"
	}
	writers, names := writers{}, map[string]bool{}
	for _, t := range h.Tables {
		if names[t.Name] {
			return fmt.Sprintf("two tables are named %q: give each its own name", t.Name)
		}
		names[t.Name] = true
		for _, source := range t.Sources {
			if !slices.Contains(h.Sources, source) {
				return fmt.Sprintf("table %q is kept with topic %q, which is not in sources: add it there", t.Name, source)
			}
		}
		table := protocol.Table{Name: t.Name, Changelog: t.Changelog, SourceTopic: t.SourceTopic}
		if why := writers.add(group, fmt.Sprintf("table %q", t.Name), table); why != "" {
			return why
		}
	}
	return ""
}

// writers holds, by changelog, the table that writes it.
type writers map[string]string

func (w writers) add(group, me string, t protocol.Table) string {
	if t.Changelog != "" && t.SourceTopic != "" {
		return fmt.Sprintf("%s has both changelog and source_topic: its task writes it or others do, so name one", me)
	}
	if t.SourceTopic != "" {
		return ""
	}
	topic := cmp.Or(t.Changelog, group+"-"+t.Name+"-changelog")
	if other, ok := w[topic]; ok {
		return fmt.Sprintf("topic %q is the changelog of %s and of %s: a changelog is written by its own table alone, give each its own", topic, other, me)
	}
	w[topic] = me
	return ""
}
