package assignor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Table is a table kept with a set. Changelog is its topic; Source marks a read-only table whose
// topic others write.
type Table struct {
	Name      string
	Changelog string
	Source    bool
}

// Set is a set as one member declares it: source topics that are read together, and their tables.
type Set struct {
	Sources []string
	Tables  []Table
}

// Key names a set by its sources: sorted, joined by ",".
func (s Set) Key() string { return Key(s.Sources) }

// Key is the canonical name of the set with these sources.
func Key(sources []string) string {
	sorted := slices.Clone(sources)
	slices.Sort(sorted)
	return strings.Join(slices.Compact(sorted), ",")
}

// Task is one partition number of a set. Set is a key: of a member's own set in what members say
// (Member.Owned, Member.Copies), of the united set in plans.
type Task struct {
	Set       string
	Partition int32
}

func (t Task) String() string { return fmt.Sprintf("%s/%d", t.Set, t.Partition) }

func compareTasks(a, b Task) int {
	return cmp.Or(cmp.Compare(a.Set, b.Set), cmp.Compare(a.Partition, b.Partition))
}

// Copy is a task whose tables a member keeps without being its active. Lag is coarse; see CoarseLag.
type Copy struct {
	Task Task
	Lag  int64 // upper bound in records; UnknownLag when the member cannot tell
}

// Member is one living member of the generation, as its subscription describes it.
type Member struct {
	ID         string
	Instance   string // group.instance.id or empty
	Generation int32  // of the sync that confirmed Owned; -1: never synced
	Sets       []Set
	Globals    []string // topics of global tables; in no plan
	Owned      []Task   // active and not released
	Copies     []Copy
	Rack       string
	Address    string // advertised to askers for a key
	NoStandby  bool   // its worker cannot hold standbys
}

// United is a set of the group: the union of all declarations that share a source or a changelog.
type United struct {
	Key        string // sorted sources, joined by ","
	Sources    []string
	Partitions int32 // 0: no such topic yet; the set has no tasks
}

// Options are the group's settings for a plan.
type Options struct {
	Replicas int // standbys of each task; at most members-1 are given
}

// Input is everything that a plan depends on.
type Input struct {
	Members []Member
	Counts  map[string]int32 // partition count of each source topic; missing or 0: skipped, with a warning
	Options Options
}

// Share is what one member gets.
type Share struct {
	Active  []Task
	Standby []Task
}

// Plan is the outcome for the whole group. Every member has an entry in Members. Tasks are sorted.
type Plan struct {
	Sets     []United
	Members  map[string]Share
	Waiting  []Wait   // tasks that no member gets in this generation, with the reason
	Warnings []string // one sentence each
}

// Wait is a task that is given to nobody yet.
type Wait struct {
	Task Task
	For  string // the member that has to let go
	To   string // the member that will get it
}

// sort puts every list of the plan into its canonical order.
func (p *Plan) sort() {
	for id, s := range p.Members {
		slices.SortFunc(s.Active, compareTasks)
		slices.SortFunc(s.Standby, compareTasks)
		p.Members[id] = s
	}
	slices.SortFunc(p.Waiting, func(a, b Wait) int { return compareTasks(a.Task, b.Task) })
	slices.Sort(p.Warnings)
}
