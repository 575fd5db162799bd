package drill

import (
	"fmt"
	"slices"
)

// Tally is what came of the faults of a history.
type Tally struct {
	Injected, Counted, Missed int
	ByKind                    map[Kind]*KindTally
}

// KindTally is the same of one kind; Hits by phase (one fault may hit several).
type KindTally struct {
	Injected, Counted, Missed int
	Hits                      map[Phase]int
}

// Count says which faults hit something. It believes the history alone, by its times.
func Count(events []Event) Tally {
	t := Tally{ByKind: map[Kind]*KindTally{}}
	now := newPendings()
	for _, e := range byTime(events) {
		now.take(e)
		if e.Fault == nil || e.What != FaultBegan && e.What != FaultMissed {
			continue
		}
		k := t.ByKind[e.Fault.Kind]
		if k == nil {
			k = &KindTally{Hits: map[Phase]int{}}
			t.ByKind[e.Fault.Kind] = k
		}
		if e.What == FaultMissed {
			t.Missed++
			k.Missed++
			continue
		}
		t.Injected++
		k.Injected++
		found := hits(e, now)
		if len(found) > 0 {
			t.Counted++
			k.Counted++
		}
		for _, phase := range found {
			k.Hits[phase]++
		}
	}
	return t
}

func (t *Tally) add(other Tally) {
	t.Injected += other.Injected
	t.Counted += other.Counted
	t.Missed += other.Missed
	for kind, k := range other.ByKind {
		mine := t.ByKind[kind]
		if mine == nil {
			mine = &KindTally{Hits: map[Phase]int{}}
			t.ByKind[kind] = mine
		}
		mine.Injected += k.Injected
		mine.Counted += k.Counted
		mine.Missed += k.Missed
		for phase, n := range k.Hits {
			mine.Hits[phase] += n
		}
	}
}

// String is the tally as the table of docs/reliability.md.
func (t Tally) String() string {
	text := "| fault | injected | counted | commit | restore | take-over | rebalance | passed over |\n|---|---|---|---|---|---|---|---|\n"
	kinds := make([]Kind, 0, len(t.ByKind))
	sum := KindTally{Hits: map[Phase]int{}}
	for kind, k := range t.ByKind {
		kinds = append(kinds, kind)
		for phase, n := range k.Hits {
			sum.Hits[phase] += n
		}
	}
	sum.Injected, sum.Counted, sum.Missed = t.Injected, t.Counted, t.Missed
	line := func(name string, k *KindTally) {
		text += fmt.Sprintf("| %s | %d | %d |", name, k.Injected, k.Counted)
		for _, phase := range Phases {
			text += fmt.Sprintf(" %d |", k.Hits[phase])
		}
		text += fmt.Sprintf(" %d |\n", k.Missed)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		line(string(kind), t.ByKind[kind])
	}
	line("all", &sum)
	return text
}
