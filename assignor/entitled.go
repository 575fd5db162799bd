package assignor

import (
	"maps"
	"slices"
	"strings"
)

// entitled are the members that may have a task whose claim in Kafka names tables that not all
// members declare. A table cannot wait as a source can: while a living member declares it, a task
// without it would have a hole in it.
//
// INVARIANT: while a member that is not about to leave declares a table that the claim names, the task
// is active and standby only on members that declare all such tables.
type entitled struct {
	members []int32  // ascending
	logs    []string // the changelogs that they all declare
}

// entitle finds the tasks that not everybody may have.
func (p *problem) entitle(claims map[Task]Claim, of map[string]int) {
	named := map[Task]map[string]bool{} // changelogs, by task of the united set
	for t, claim := range claims {
		s, ok := p.find(t, of)
		for _, source := range claim.Sources { // the key's may be one that nobody reads any more
			if !ok {
				s, ok = p.find(Task{source, t.Partition}, of)
			}
		}
		if !ok {
			continue
		}
		t.Set = s.Key
		if named[t] == nil {
			named[t] = map[string]bool{}
		}
		for _, log := range claim.Changelogs {
			named[t][log] = true
		}
	}
	for i := range p.sets {
		s := &p.sets[i]
		classes := map[string]*entitled{} // tasks with the same tables share one
		for partition := range s.Partitions {
			if names := named[Task{s.Key, partition}]; len(names) > 0 {
				s.only[partition] = s.entitled(slices.Sorted(maps.Keys(names)), classes)
			}
		}
	}
}

func (s *set) entitled(names []string, classes map[string]*entitled) *entitled {
	class := strings.Join(names, ",")
	if e, ok := classes[class]; ok {
		return e
	}
	var logs []string
	for _, log := range names {
		if slices.ContainsFunc(s.eligible, func(m int32) bool { return s.sayOf(m).keeps(log) }) {
			logs = append(logs, log) // one that nobody declares is dropped
		}
	}
	e := &entitled{logs: logs}
	for _, m := range s.eligible {
		say := s.sayOf(m)
		if !slices.ContainsFunc(logs, func(log string) bool { return !say.keeps(log) }) {
			e.members = append(e.members, m)
		}
	}
	if len(e.members) == len(s.eligible) {
		e = nil
	}
	classes[class] = e
	return e
}

func (d declaration) keeps(log string) bool {
	_, ok := slices.BinarySearch(d.logs, log)
	return ok
}

// may are the members that may have a task, ascending.
func (s *set) may(partition int) []int32 {
	if e := s.only[partition]; e != nil {
		return e.members
	}
	return s.eligible
}
