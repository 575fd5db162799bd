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
	Draining   bool   // it is about to leave: it keeps what it has not released yet, and is given nothing
}

// United is a set of the group: the union of all declarations that share a source or a changelog.
type United struct {
	Key        string // sorted sources, joined by ","
	Sources    []string
	Partitions int32 // 0: no such topic yet; the set has no tasks
}

// Options are the group's settings for a plan.
type Options struct {
	Replicas int   // standbys of each task; at most members-1 are given
	Capacity int32 // most actives of one set on one member; 0: as many as an equal share takes
	// MaxWarmups is how many copies Transition lets be made at once only to be warm before their task
	// moves; 0: tasks move to cold members. AcceptableLag is how many records a warm copy may be behind.
	MaxWarmups    int
	AcceptableLag int64
}

// Claim is what the newest owner of a task has written beside its position in Kafka: what it kept the
// position and the state of.
type Claim struct {
	Sources    []string
	Changelogs []string // of its tables
}

// Input is everything that a plan depends on.
type Input struct {
	Members []Member
	Counts  map[string]int32 // partition count of each source topic; missing or 0: skipped, with a warning
	// Claims are needed only where members declare a set differently. The key's Set is that of any of
	// the task's sources, or several joined as Key does. Of a task without an entry nothing is known.
	Claims  map[Task]Claim
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
	Warming  []Warmup // tasks that are not where they should end up, until they are warm there
	Warnings []string // one sentence each

	acceptable int64 // lag of a warm copy; for those who warm up
}

// Warmup is a task that is or goes to From, who has it warm, until To has made a copy. Later: as many
// copies are being made as may be at once, and this one waits for its turn.
type Warmup struct {
	Task  Task
	From  string
	To    string
	Later bool
}

// Wait is something of a task that waits, and for what.
//
//   - For and To: the task is given to To once For has let go of it. To is empty when nobody else can
//     have it.
//   - Source: the task runs, but nobody reads this source at its partition, because the task's active
//     does not declare it. The source's position stays.
//   - Table: the task is given to nobody, because its claim names several changelogs that living
//     members declare, this one among them, and no member declares them all.
//   - none of them: all members that declare the set are about to leave.
type Wait struct {
	Task   Task
	For    string
	To     string
	Source string
	Table  string
}

// Runs tells whether the task has an active in spite of the wait.
func (w Wait) Runs() bool { return w.Source != "" }

// CapacityError tells that the members that may have a set cannot hold all of its tasks.
type CapacityError struct {
	Set        string
	Partitions int32
	Members    int   // that may have them
	Capacity   int32 // of each
}

func (e *CapacityError) Error() string {
	return fmt.Sprintf("set %q has %d partitions, and the %d members that may have them take at most %d each: add members or raise the capacity",
		e.Set, e.Partitions, e.Members, e.Capacity)
}

// sort puts every list of the plan into its canonical order.
func (p *Plan) sort() {
	for id, s := range p.Members {
		slices.SortFunc(s.Active, compareTasks)
		slices.SortFunc(s.Standby, compareTasks)
		p.Members[id] = s
	}
	slices.SortFunc(p.Waiting, func(a, b Wait) int {
		return cmp.Or(compareTasks(a.Task, b.Task), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Table, b.Table), cmp.Compare(a.For, b.For))
	})
	slices.SortFunc(p.Warming, func(a, b Warmup) int { return compareTasks(a.Task, b.Task) })
	slices.Sort(p.Warnings)
	p.Warnings = slices.Compact(p.Warnings)
}
