package cli

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/pillion/pillion/assignor"
	"github.com/pillion/pillion/groupclient"
)

// groupReport is what `pillion group` shows. Sets are named by their sources, as the group unites them.
type groupReport struct {
	Group           string         `json:"group"`
	State           string         `json:"state"`
	AfterGeneration int32          `json:"after_generation"` // that members came from; -1: all are new
	Sets            []reportSet    `json:"sets"`
	Members         []reportMember `json:"members"`
	Waiting         []reportWait   `json:"waiting"`
}

// reportSet is a set of the group. Partitions 0: its topics are not there.
type reportSet struct {
	Set        string   `json:"set"`
	Sources    []string `json:"sources"`
	Partitions int32    `json:"partitions"`
}

type reportMember struct {
	ID        string        `json:"id"`
	Instance  string        `json:"instance,omitempty"`
	Host      string        `json:"host"`
	Address   string        `json:"address,omitempty"`
	Rack      string        `json:"rack,omitempty"`
	Draining  bool          `json:"draining,omitempty"`
	NoStandby bool          `json:"no_standby,omitempty"`
	Shares    []reportShare `json:"shares"`
	Globals   []string      `json:"globals,omitempty"`
	Problem   string        `json:"problem,omitempty"`
}

// reportShare is what a member has of one set.
type reportShare struct {
	Set     string       `json:"set"`
	Active  []int32      `json:"active"`
	Standby []reportCopy `json:"standby"`
}

// reportCopy is a copy with its lag at the member's last join; -1: not known.
type reportCopy struct {
	Partition int32 `json:"partition"`
	Lag       int64 `json:"lag"`
}

// reportWait is a task that is given to nobody. HeldBy: it is still with a member that has to let go.
type reportWait struct {
	Set       string `json:"set"`
	Partition int32  `json:"partition"`
	HeldBy    string `json:"held_by,omitempty"`
}

// reportOf puts a view and the partition counts of its source topics together.
func reportOf(v groupclient.View, counts map[string]int32) groupReport {
	r := groupReport{Group: v.Group, State: v.State, AfterGeneration: -1, Sets: []reportSet{}, Members: []reportMember{}, Waiting: []reportWait{}}
	for _, m := range v.Members {
		r.AfterGeneration = max(r.AfterGeneration, m.Generation)
		r.Members = append(r.Members, memberOf(m))
	}
	slices.SortFunc(r.Members, func(a, b reportMember) int {
		return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.ID, b.ID))
	})
	for _, u := range v.Sets {
		set := reportSet{Set: u.Key, Sources: u.Sources}
		for _, source := range u.Sources {
			set.Partitions = max(set.Partitions, counts[source])
		}
		r.Sets = append(r.Sets, set)
	}
	slices.SortFunc(r.Sets, func(a, b reportSet) int { return cmp.Compare(a.Set, b.Set) })
	if v.State == groupStable {
		r.waits(v)
	}
	return r
}

func memberOf(m groupclient.ViewMember) reportMember {
	out := reportMember{
		ID: m.ID, Instance: m.Instance, Host: hostOf(m.Host), Address: m.Address, Rack: m.Rack,
		Draining: m.Draining, NoStandby: m.NoStandby, Globals: m.Globals, Problem: m.Unreadable, Shares: []reportShare{},
	}
	shares := map[string]reportShare{}
	for _, t := range m.Active {
		s := shares[t.Set]
		s.Active = append(s.Active, t.Partition)
		shares[t.Set] = s
	}
	for _, t := range m.Standby {
		lag := m.Lag(t)
		if lag == assignor.UnknownLag {
			lag = -1
		}
		s := shares[t.Set]
		s.Standby = append(s.Standby, reportCopy{t.Partition, lag})
		shares[t.Set] = s
	}
	for _, key := range slices.Sorted(maps.Keys(shares)) {
		s := shares[key]
		s.Set = key
		slices.Sort(s.Active)
		slices.SortFunc(s.Standby, func(a, b reportCopy) int { return cmp.Compare(a.Partition, b.Partition) })
		s.Active, s.Standby = append([]int32{}, s.Active...), append([]reportCopy{}, s.Standby...) // lists in JSON
		out.Shares = append(out.Shares, s)
	}
	return out
}

// hostOf is a client's host as brokers write it, without the slash of one and the port of another.
func hostOf(s string) string {
	s = strings.TrimPrefix(s, "/")
	if host, _, err := net.SplitHostPort(s); err == nil {
		return host
	}
	return s
}

// waits finds the tasks that are given to nobody, and who still holds them.
func (r *groupReport) waits(v groupclient.View) {
	given, held := map[assignor.Task]bool{}, map[assignor.Task]string{}
	for _, m := range v.Members {
		for _, t := range m.Active {
			given[t] = true
		}
		for _, t := range m.Owned {
			held[t] = m.ID
		}
	}
	for _, s := range r.Sets {
		for p := range s.Partitions {
			if t := (assignor.Task{Set: s.Set, Partition: p}); !given[t] {
				r.Waiting = append(r.Waiting, reportWait{s.Set, p, held[t]})
			}
		}
	}
}

func (r *groupReport) tasks() (tasks, copies int) {
	for _, s := range r.Sets {
		tasks += int(s.Partitions)
	}
	for _, m := range r.Members {
		for _, s := range m.Shares {
			copies += len(s.Standby)
		}
	}
	return tasks, copies
}
