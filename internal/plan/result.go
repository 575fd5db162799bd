package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/pillion/pillion/assignor"
)

// Result is a plan in the words of the request: actives by source topic, standbys by changelog.
type Result struct {
	Members  map[string]Share `json:"members"`
	Moves    Moves            `json:"moves"`
	Warnings []string         `json:"warnings"`
	Waiting  []Wait           `json:"waiting,omitempty"`
	Warming  []Warmup         `json:"warming,omitempty"`

	next bool
	in   assignor.Input
	plan assignor.Plan
}

// Share is what one member gets.
type Share struct {
	Active  map[string][]int32 `json:"active"`
	Standby map[string][]int32 `json:"standby"`
}

// inline is a value as JSON; the values here cannot fail.
func inline(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n")
}

// Moves counts tasks: those whose active was another, and those whose active has to begin without a
// copy though there is one.
type Moves struct {
	Active int `json:"active"`
	Cold   int `json:"cold"`
}

// Wait is something of a task that waits; see assignor.Wait.
type Wait struct {
	Set       string `json:"set"`
	Partition int32  `json:"partition"`
	For       string `json:"for,omitempty"`
	To        string `json:"to,omitempty"`
	Source    string `json:"source,omitempty"`
	Table     string `json:"table,omitempty"`
}

// Warmup is a task that stays where it is warm until its next owner has a copy; see assignor.Warmup.
type Warmup struct {
	Set       string `json:"set"`
	Partition int32  `json:"partition"`
	From      string `json:"from"`
	To        string `json:"to"`
	Later     bool   `json:"later,omitempty"`
}

func newResult(in assignor.Input, p assignor.Plan, next bool) Result {
	moves := assignor.MovesOf(in, p)
	r := Result{
		Members: map[string]Share{}, Moves: Moves{Active: moves.Active, Cold: moves.Cold},
		Warnings: append([]string{}, p.Warnings...), next: next, in: in, plan: p,
	}
	for _, m := range in.Members {
		given := assignor.AssignmentOf(p, m.ID)
		share := Share{Active: map[string][]int32{}, Standby: map[string][]int32{}}
		for _, set := range m.Sets {
			active, standby := given.Own(set.Sources)
			for _, source := range set.Sources {
				if in.Counts[source] > 0 {
					put(share.Active, source, active)
				}
			}
			for _, topic := range changelogs(set) {
				put(share.Standby, topic, standby)
			}
		}
		r.Members[m.ID] = share
	}
	for _, w := range p.Waiting {
		r.Waiting = append(r.Waiting, Wait{w.Task.Set, w.Task.Partition, w.For, w.To, w.Source, w.Table})
	}
	for _, w := range p.Warming {
		r.Warming = append(r.Warming, Warmup{w.Task.Set, w.Task.Partition, w.From, w.To, w.Later})
	}
	return r
}

// put adds partitions of a topic, each once.
func put(lists map[string][]int32, topic string, partitions []int32) {
	if len(partitions) == 0 {
		return
	}
	all := append(slices.Clone(lists[topic]), partitions...)
	slices.Sort(all)
	lists[topic] = slices.Compact(all)
}

// JSON writes one line for each member, so that plans can be compared line by line.
func (r Result) JSON(w io.Writer) error {
	var text bytes.Buffer
	text.WriteString("{\"members\": {")
	for i, id := range slices.Sorted(maps.Keys(r.Members)) {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, "\n  %s: %s", inline(id), inline(r.Members[id]))
	}
	fmt.Fprintf(&text, "\n },\n \"moves\": %s,\n \"warnings\": %s", inline(r.Moves), inline(r.Warnings))
	if len(r.Waiting) > 0 {
		fmt.Fprintf(&text, ",\n \"waiting\": %s", inline(r.Waiting))
	}
	if len(r.Warming) > 0 {
		fmt.Fprintf(&text, ",\n \"warming\": %s", inline(r.Warming))
	}
	text.WriteString("\n}\n")
	_, err := text.WriteTo(w)
	return err
}
