package assignor

import (
	"fmt"
	"slices"
)

// wait names what waits in a placement, and says so in words: one sentence for each reason.
func (p *problem) wait(plan *Plan, at placement) {
	for i := range p.sets {
		s := &p.sets[i]
		unread := s.unread()
		leaving, torn, behind := 0, map[string]int{}, map[string]int{}
		for partition, m := range at.active[i] {
			t := Task{s.Key, int32(partition)}
			if m != nobody {
				for _, source := range unread[m] {
					plan.Waiting = append(plan.Waiting, Wait{Task: t, Source: source})
					behind[source]++
				}
				continue
			}
			w := Wait{Task: t, For: p.name(s.owner[partition])}
			if at.goal != nil {
				w.To = p.name(at.goal[i][partition])
			}
			if e := s.only[partition]; e != nil && len(e.members) == 0 {
				w.Table = e.logs[0]
				torn[w.Table]++
			} else if len(s.may(partition)) == 0 {
				leaving++
			}
			plan.Waiting = append(plan.Waiting, w)
		}
		warn := func(format string, args ...any) { plan.Warnings = append(plan.Warnings, fmt.Sprintf(format, args...)) }
		if leaving > 0 {
			warn("%d of %d partitions of set %q wait: all members that declare it are about to leave", leaving, s.Partitions, s.Key)
		}
		for log, n := range torn {
			warn("%d of %d partitions of set %q wait: no member declares the table of changelog %q and all others that they have; start one that does", n, s.Partitions, s.Key, log)
		}
		for source, n := range behind {
			warn("source %q of set %q waits at %d of %d partitions: the members that have them do not declare it yet", source, s.Key, n, s.Partitions)
		}
	}
}

// unread are, by member, the sources of a set that it does not declare. Most sets have none.
func (s *set) unread() map[int32][]string {
	unread := map[int32][]string{}
	for i, m := range s.declared {
		if len(s.says[i].sources) == len(s.Sources) {
			continue
		}
		for _, source := range s.Sources {
			if !slices.Contains(s.says[i].sources, source) {
				unread[m] = append(unread[m], source)
			}
		}
	}
	return unread
}
