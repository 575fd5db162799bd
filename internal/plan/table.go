package plan

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pillion/pillion/assignor"
)

// Table writes the plan for people: one block of lines for each member, then what moves, what waits
// and what is odd.
func (r Result) Table(w io.Writer) error {
	gains := r.gains()
	rows := [][]string{{"MEMBER", "ACTIVE", "STANDBY", "NEW ACTIVES"}}
	for _, m := range slices.SortedFunc(slices.Values(r.in.Members), func(a, b assignor.Member) int { return cmp.Compare(a.ID, b.ID) }) {
		active, standby := r.lines(m)
		name := m.ID
		if m.Draining {
			name += " (draining)"
		}
		news := gains[m.ID]
		for i := range max(1, len(active), len(standby), len(news)) {
			rows = append(rows, []string{name, at(active, i, "-"), at(standby, i, "-"), at(news, i, "")})
			name = ""
		}
	}
	text := columns(rows)
	text += "\n" + r.summary() + "\n"
	for _, line := range append(r.waits(), r.warms()...) {
		text += line + "\n"
	}
	for _, warning := range r.Warnings {
		text += "warning: " + warning + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// lines are a member's shares, a line for each of its sets: topics and partitions.
func (r Result) lines(m assignor.Member) (active, standby []string) {
	given := assignor.AssignmentOf(r.plan, m.ID)
	for _, set := range m.Sets {
		a, s := given.Own(set.Sources)
		if len(a) > 0 {
			active = append(active, set.Key()+" "+Ranges(a))
		}
		if topics := changelogs(set); len(s) > 0 && len(topics) > 0 {
			standby = append(standby, strings.Join(topics, ",")+" "+Ranges(s))
		} else if len(s) > 0 {
			standby = append(standby, set.Key()+" "+Ranges(s)+" (no tables)")
		}
	}
	return active, standby
}

func at(list []string, i int, none string) string {
	switch {
	case i < len(list):
		return list[i]
	case i == 0:
		return none
	default:
		return ""
	}
}

// columns sets a table; the last column is not padded.
func columns(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+3))
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return text.String()
}

// summary is the plan in a sentence.
func (r Result) summary() string {
	tasks, sets := int32(0), 0
	for _, u := range r.plan.Sets {
		tasks += u.Partitions
		sets += boolInt(u.Partitions > 0)
	}
	what := "target"
	if r.next {
		what = "next generation"
	}
	return fmt.Sprintf("%s: %s in %s on %s, %s each; %s, %s", what, Counted(int(tasks), "task"), Counted(sets, "set"),
		Counted(len(r.in.Members), "member"), Counted(r.in.Options.Replicas, "standby"), Counted(r.Moves.Active, "active move"), Counted(r.Moves.Cold, "cold start"))
}

// Counted is a number with its word: 1 task, 2 tasks.
func Counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// waits are the sentences of what waits; partitions that wait for the same are one.
func (r Result) waits() []string {
	partitions := map[Wait][]int32{}
	for _, w := range r.Waiting {
		key := w
		key.Partition = 0
		partitions[key] = append(partitions[key], w.Partition)
	}
	var lines []string
	for key, list := range partitions {
		where := key.Set + " " + Ranges(list)
		switch {
		case key.Source != "":
			lines = append(lines, fmt.Sprintf("waits: source %s %s is read by nobody, because the task's active does not declare it", key.Source, Ranges(list)))
		case key.Table != "":
			lines = append(lines, fmt.Sprintf("waits: %s for a member that declares %s and all other tables of the task", where, key.Table))
		case key.For == "":
			lines = append(lines, fmt.Sprintf("waits: %s for a member that stays", where))
		case key.To == "":
			lines = append(lines, fmt.Sprintf("waits: %s stays with %s until somebody else can have it", where, key.For))
		default:
			lines = append(lines, fmt.Sprintf("waits: %s goes to %s once %s has let go", where, key.To, key.For))
		}
	}
	slices.Sort(lines)
	return lines
}

// warms are the sentences of tasks that stay where they are warm.
func (r Result) warms() []string {
	partitions := map[Warmup][]int32{}
	for _, w := range r.Warming {
		key := w
		key.Partition = 0
		partitions[key] = append(partitions[key], w.Partition)
	}
	var lines []string
	for key, list := range partitions {
		where := key.Set + " " + Ranges(list)
		if key.Later {
			lines = append(lines, fmt.Sprintf("waits: %s warms up at %s later, when fewer copies are being made; until then with %s", where, key.To, key.From))
		} else {
			lines = append(lines, fmt.Sprintf("warms up: %s at %s, until then with %s", where, key.To, key.From))
		}
	}
	slices.Sort(lines)
	return lines
}

// gains are the tasks that a member is given and did not hold, while somebody held them or had a copy.
func (r Result) gains() map[string][]string {
	united := map[string]string{} // by source
	for _, u := range r.plan.Sets {
		for _, source := range u.Sources {
			united[source] = u.Key
		}
	}
	key := func(t assignor.Task) assignor.Task {
		source, _, _ := strings.Cut(t.Set, ",")
		return assignor.Task{Set: united[source], Partition: t.Partition}
	}
	owner := map[assignor.Task]assignor.Member{} // of the newest claim
	copies := map[assignor.Task][]string{}
	for _, m := range r.in.Members {
		for _, t := range m.Owned {
			if was, ok := owner[key(t)]; !ok || cmp.Or(cmp.Compare(was.Generation, m.Generation), cmp.Compare(m.ID, was.ID)) < 0 {
				owner[key(t)] = m
			}
		}
		for _, c := range m.Copies {
			copies[key(c.Task)] = append(copies[key(c.Task)], m.ID)
		}
	}
	type where struct {
		set  string
		cold bool
	}
	gains := map[string][]string{}
	for id, share := range r.plan.Members {
		lists := map[where][]int32{}
		for _, t := range share.Active {
			if was := owner[t].ID; was != id && (was != "" || len(copies[t]) > 0) {
				w := where{t.Set, !slices.Contains(copies[t], id)}
				lists[w] = append(lists[w], t.Partition)
			}
		}
		for _, w := range slices.SortedFunc(maps.Keys(lists), func(a, b where) int {
			return cmp.Or(cmp.Compare(a.set, b.set), boolInt(a.cold)-boolInt(b.cold))
		}) {
			line := w.set + " " + Ranges(lists[w])
			if w.cold {
				line += " (cold)"
			}
			gains[id] = append(gains[id], line)
		}
	}
	return gains
}

// Ranges writes partition numbers, sorted and each once, as 0-3,7.
func Ranges(partitions []int32) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(partitions)))
	var runs []string
	for i := 0; i < len(sorted); {
		j := i
		for j+1 < len(sorted) && sorted[j+1] == sorted[j]+1 {
			j++
		}
		run := strconv.Itoa(int(sorted[i]))
		if j > i {
			run += "-" + strconv.Itoa(int(sorted[j]))
		}
		runs = append(runs, run)
		i = j + 1
	}
	return strings.Join(runs, ",")
}
