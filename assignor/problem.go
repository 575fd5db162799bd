package assignor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// nobody is the index of no member.
const nobody = int32(-1)

// problem is an Input in dense numbers: members by ID, sets by key, so that its order is lost.
type problem struct {
	members    []Member
	sets       []set
	replicas   int
	warmups    int   // copies that may be made for moves, at once
	acceptable int64 // lag of a warm copy
	warnings   []string
}

// set is a united set with what is known of its tasks.
type set struct {
	United
	declared []int32       // members that declare it, ascending
	says     []declaration // of each of them
	eligible []int32       // those of them that are not about to leave
	owner    []int32       // by partition: who holds the newest claim
	copies   [][]holds     // by partition: who has a copy, the most caught-up first
	only     []*entitled   // by partition: nil where all eligible members may have the task
}

// declaration is what one member says of a set: sorted.
type declaration struct{ sources, logs []string }

type holds struct {
	member int32
	lag    int64
}

func newProblem(in Input) *problem {
	p := &problem{
		members: slices.Clone(in.Members), replicas: max(in.Options.Replicas, 0),
		warmups: max(in.Options.MaxWarmups, 0), acceptable: max(in.Options.AcceptableLag, 0),
	}
	slices.SortFunc(p.members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	for _, u := range Unite(p.members) {
		for _, source := range u.Sources {
			u.Partitions = max(u.Partitions, in.Counts[source])
		}
		for _, source := range u.Sources {
			if n := in.Counts[source]; n <= 0 {
				p.warnings = append(p.warnings, fmt.Sprintf("source topic %q has no partitions or does not exist: it is left out of the plan", source))
			} else if n != u.Partitions {
				p.warnings = append(p.warnings, fmt.Sprintf("source topic %q has %d partitions, and others of its set have %d: they should have the same number", source, n, u.Partitions))
			}
		}
		p.sets = append(p.sets, set{United: u, owner: slices.Repeat([]int32{nobody}, int(u.Partitions)),
			copies: make([][]holds, u.Partitions), only: make([]*entitled, u.Partitions)})
	}
	of := p.setOf()
	p.reserve()
	for i := range p.members {
		p.declares(int32(i), of)
		p.claims(int32(i), of)
		p.shadows(int32(i), of)
	}
	p.entitle(in.Claims, of)
	for i := range p.sets {
		for _, copies := range p.sets[i].copies {
			slices.SortFunc(copies, func(a, b holds) int {
				return cmp.Or(cmp.Compare(uint64(a.lag), uint64(b.lag)), cmp.Compare(a.member, b.member)) // unknown is last
			})
		}
	}
	return p
}

// setOf maps each source topic to its set.
func (p *problem) setOf() map[string]int {
	of := map[string]int{}
	for i, s := range p.sets {
		for _, source := range s.Sources {
			of[source] = i
		}
	}
	return of
}

// find translates a member's own task to a set and partition of the problem. It learns keys.
func (p *problem) find(t Task, of map[string]int) (*set, bool) {
	i, ok := of[t.Set]
	if !ok {
		source, _, _ := strings.Cut(t.Set, ",")
		if i, ok = of[source]; ok {
			of[t.Set] = i
		}
	}
	if !ok || t.Partition < 0 || t.Partition >= p.sets[i].Partitions {
		return nil, false // a claim of a topic that shrank or went away
	}
	return &p.sets[i], true
}

func (p *problem) declares(m int32, of map[string]int) {
	if m > 0 && sameSets(p.members[m].Sets, p.members[m-1].Sets) {
		for i := range p.sets {
			if s := &p.sets[i]; len(s.declared) > 0 && s.declared[len(s.declared)-1] == m-1 {
				s.declare(m, s.says[len(s.says)-1], p.members[m].Draining, len(p.members))
			}
		}
		return
	}
	for _, own := range p.members[m].Sets {
		if len(own.Sources) == 0 {
			continue
		}
		s := &p.sets[of[own.Sources[0]]]
		if len(s.declared) == 0 || s.declared[len(s.declared)-1] != m {
			s.declare(m, declaration{}, p.members[m].Draining, len(p.members))
		}
		s.says[len(s.says)-1].add(own)
	}
}

// declare: members come in ascending order.
func (s *set) declare(m int32, say declaration, draining bool, most int) {
	if s.declared == nil {
		s.declared, s.eligible, s.says = make([]int32, 0, most), make([]int32, 0, most), make([]declaration, 0, most)
	}
	s.declared, s.says = append(s.declared, m), append(s.says, say)
	if !draining {
		s.eligible = append(s.eligible, m)
	}
}

func (d *declaration) add(own Set) {
	var logs []string
	for _, t := range own.Tables {
		logs = append(logs, t.Changelog)
	}
	d.sources = slices.Concat(d.sources, own.Sources)
	d.logs = slices.Concat(d.logs, logs)
	slices.Sort(d.sources)
	slices.Sort(d.logs)
	d.sources, d.logs = slices.Compact(d.sources), slices.Compact(d.logs)
}

// sayOf is what a member declares of the set; empty when it does not declare it.
func (s *set) sayOf(m int32) declaration {
	if i, ok := slices.BinarySearch(s.declared, m); ok {
		return s.says[i]
	}
	return declaration{}
}

func (s *set) declaredBy(m int32) bool { return contains(s.declared, m) }

func contains(sorted []int32, m int32) bool {
	_, ok := slices.BinarySearch(sorted, m)
	return ok
}

// claims resolves double claims: the newest generation wins, then the smaller ID.
func (p *problem) claims(m int32, of map[string]int) {
	for _, t := range p.members[m].Owned {
		s, ok := p.find(t, of)
		if !ok || !s.declaredBy(m) {
			continue
		}
		if was := s.owner[t.Partition]; was == nobody || p.members[was].Generation < p.members[m].Generation {
			s.owner[t.Partition] = m
		}
	}
}

// reserve makes room for as many copies of each task as there usually are.
func (p *problem) reserve() {
	each := min(p.replicas, 4)
	for i := range p.sets {
		all := make([]holds, len(p.sets[i].copies)*each)
		for partition := range p.sets[i].copies {
			p.sets[i].copies[partition], all = all[:0:each], all[each:]
		}
	}
}

func (p *problem) shadows(m int32, of map[string]int) {
	for _, c := range p.members[m].Copies {
		s, ok := p.find(c.Task, of)
		if !ok || !s.declaredBy(m) {
			continue
		}
		copies := &s.copies[c.Task.Partition]
		if i := slices.IndexFunc(*copies, func(h holds) bool { return h.member == m }); i < 0 {
			*copies = append(*copies, holds{m, c.Lag})
		} else if uint64(c.Lag) < uint64((*copies)[i].lag) { // two stores; unknown is the largest
			(*copies)[i].lag = c.Lag
		}
	}
}

func (s *set) hasCopy(partition int, m int32) bool {
	return slices.ContainsFunc(s.copies[partition], func(h holds) bool { return h.member == m })
}

func (p *problem) name(m int32) string {
	if m == nobody {
		return ""
	}
	return p.members[m].ID
}

// placement is who does what, in the problem's numbers.
type placement struct {
	active  [][]int32   // by set and partition
	goal    [][]int32   // who will be the active once its holder has let go; nil in a target
	standby [][][]int32 // by set and partition
	warming []warmup
}

// plan puts a placement into words.
func (p *problem) plan(at placement) Plan {
	plan := Plan{Members: make(map[string]Share, len(p.members)), Warnings: slices.Clone(p.warnings)}
	shares := p.room(at)
	for i := range p.sets {
		s := &p.sets[i]
		plan.Sets = append(plan.Sets, s.United)
		for partition := range s.Partitions {
			t := Task{s.Key, partition}
			if m := at.active[i][partition]; m != nobody {
				shares[m].Active = append(shares[m].Active, t)
			}
			for _, m := range at.standby[i][partition] {
				shares[m].Standby = append(shares[m].Standby, t)
			}
		}
	}
	for i, m := range p.members {
		plan.Members[m.ID] = shares[i]
	}
	p.wait(&plan, at)
	for _, w := range at.warming {
		plan.Warming = append(plan.Warming, Warmup{Task{p.sets[w.set].Key, int32(w.partition)}, p.name(w.from), p.name(w.to), w.later})
		plan.acceptable = p.acceptable
	}
	plan.sort()
	return plan
}

// room makes empty shares that a placement fits into, and nil ones where there is nothing.
func (p *problem) room(at placement) []Share {
	shares := make([]Share, len(p.members))
	active, standby, total := make([]int, len(p.members)), make([]int, len(p.members)), 0
	for i := range p.sets {
		for partition, m := range at.active[i] {
			if m != nobody {
				active[m]++
				total++
			}
			for _, m := range at.standby[i][partition] {
				standby[m]++
			}
			total += len(at.standby[i][partition])
		}
	}
	all := make([]Task, total)
	cut := func(n int) (part []Task) {
		if n > 0 {
			part, all = all[:0:n], all[n:]
		}
		return part
	}
	for m := range shares {
		shares[m] = Share{cut(active[m]), cut(standby[m])}
	}
	return shares
}
