package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/pillion/pillion/assignor"
)

// Plan is where everything should end up; next: what the next generation hands out on the way there.
func (q Request) Plan(next bool) (Result, error) {
	in, err := q.input()
	if err != nil {
		return Result{}, err
	}
	out, err := assignor.Target(in)
	if err != nil {
		return Result{}, err
	}
	if err := assignor.Validate(in, out); err != nil {
		return Result{}, fmt.Errorf("the plan is not valid, which is a mistake in pillion: %w", err)
	}
	if next {
		out = assignor.Transition(in, out)
		if err := assignor.ValidateNext(in, out); err != nil {
			return Result{}, fmt.Errorf("the plan is not valid, which is a mistake in pillion: %w", err)
		}
	}
	return newResult(in, out, next), nil
}

// input is the request in the assignor's words.
func (q Request) input() (assignor.Input, error) {
	in := assignor.Input{Counts: map[string]int32{}, Options: assignor.Options{
		Replicas: q.Replicas, Capacity: q.Capacity, MaxWarmups: q.Warmups, AcceptableLag: q.AcceptableLag,
	}}
	for topic, n := range q.Topics {
		in.Counts[topic] = *n
	}
	flat, err := q.flatSets(in.Counts)
	if err != nil {
		return assignor.Input{}, err
	}
	for _, m := range q.Members {
		member := assignor.Member{
			ID: m.ID, Instance: m.Instance, Generation: m.generation(), Rack: m.Rack, Address: m.Address,
			Draining: m.Draining, NoStandby: m.NoStandby, Sets: flat[m.ID],
		}
		for _, g := range m.Globals {
			member.Globals = append(member.Globals, g.Topic)
		}
		for _, set := range m.Sets {
			own := assignor.Set{Sources: set.Sources}
			for _, t := range set.Tables {
				own.Tables = append(own.Tables, t.assignor())
			}
			member.Sets = append(member.Sets, own)
		}
		member.Owned = held(m.Active, member.Sets)
		for _, t := range held(m.Standby, member.Sets) {
			if !slices.Contains(member.Owned, t) {
				member.Copies = append(member.Copies, assignor.Copy{Task: t, Lag: m.lag(t, member.Sets)})
			}
		}
		in.Members = append(in.Members, member)
	}
	return in, nil
}

func (q Request) flatSets(counts map[string]int32) (map[string][]assignor.Set, error) {
	var flat []assignor.FlatMember
	for _, m := range q.Members {
		if len(m.Sets) > 0 {
			continue
		}
		member := assignor.FlatMember{ID: m.ID, Sources: m.Sources}
		for _, t := range m.Tables {
			member.Tables = append(member.Tables, assignor.FlatTable{Table: t.assignor(), Sources: t.Sources})
		}
		flat = append(flat, member)
	}
	return assignor.GroupFlat(flat, counts)
}

// generation of a member that gives none is that of all others that give none.
func (m Member) generation() int32 {
	switch {
	case m.Generation != nil:
		return *m.Generation
	case len(m.Active) > 0:
		return 0
	default:
		return -1
	}
}

func (t Table) assignor() assignor.Table {
	return assignor.Table{Name: t.Name, Changelog: t.topic(), Source: t.SourceTopic != ""}
}

// held are the tasks, by the member's own sets, that lists of topics name. Of a set without changelogs
// its source tables' topics stand for it.
func held(lists map[string][]int32, sets []assignor.Set) []assignor.Task {
	named := map[assignor.Task]bool{}
	for _, set := range sets {
		for _, topic := range slices.Concat(set.Sources, changelogs(set)) {
			for _, p := range lists[topic] {
				named[assignor.Task{Set: set.Key(), Partition: p}] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(named), func(a, b assignor.Task) int {
		return cmp.Or(cmp.Compare(a.Set, b.Set), cmp.Compare(a.Partition, b.Partition))
	})
}

// lag is that of the table that is furthest behind; one that is not known is further than any other.
func (m Member) lag(t assignor.Task, sets []assignor.Set) (most int64) {
	for _, set := range sets {
		if set.Key() != t.Set {
			continue
		}
		for _, topic := range slices.Concat(set.Sources, changelogs(set)) {
			for i, lag := range m.Lags[topic] {
				if m.Standby[topic][i] == t.Partition && uint64(lag) > uint64(most) {
					most = lag
				}
			}
		}
	}
	return most
}

// changelogs are the topics that a standby of a set follows and that no other set has.
func changelogs(set assignor.Set) []string {
	var own, shared []string
	for _, t := range set.Tables {
		if t.Source {
			shared = append(shared, t.Changelog)
		} else {
			own = append(own, t.Changelog)
		}
	}
	if len(own) == 0 {
		return shared
	}
	return own
}
