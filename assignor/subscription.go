package assignor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// dataVersion is the first byte of our user data. A later version that only adds fields at the end
// keeps it: what follows the known fields is skipped.
const dataVersion = 1

// Subscription is what a member says of itself at each join.
type Subscription struct {
	Sets       []Set
	Globals    []string
	Generation int32  // of the last sync; -1: none
	Owned      []Task // by keys of Sets
	Copies     []Copy // by keys of Sets
	Rack       string
	Address    string
	NoStandby  bool
	Draining   bool   // it is about to leave
	Nonce      uint64 // changes when a join has to make a rebalance though nothing else did
}

// Flags of a subscription. A reader ignores those that it does not know.
const (
	flagNoStandby = 1 << iota
	flagDraining
)

// EncodeSubscription makes the metadata of a JoinGroup: the standard envelope with the sources and
// the owned partitions, and everything else in user data. Equal subscriptions give equal bytes.
// INVARIANT: what it makes can be read: a leader that cannot read a member gives it nothing.
func EncodeSubscription(s Subscription) ([]byte, error) {
	sets := normalSets(s.Sets)
	if err := s.readable(); err != nil {
		return nil, err
	}
	bySet, err := positions(sets)
	if err != nil {
		return nil, err
	}
	sources, extra, index, err := dictionary(sets, s.Globals)
	if err != nil {
		return nil, err
	}
	w := writer{b: []byte{dataVersion}}
	w.uvarint(s.Nonce)
	w.uvarint(s.flags())
	w.text(s.Address)
	w.uvarint(uint64(len(extra)))
	for _, t := range extra {
		w.text(t)
	}
	w.sets(sets, index)
	w.uvarint(uint64(len(s.Globals)))
	for _, t := range slices.Sorted(slices.Values(s.Globals)) {
		w.uvarint(uint64(index[t]))
	}
	if err := w.copies(s.Copies, bySet, len(sets)); err != nil {
		return nil, err
	}
	owned := map[string][]int32{}
	for _, task := range s.Owned {
		at, ok := bySet[task.Set]
		if !ok {
			return nil, fmt.Errorf("owned task %s is of no declared set", task)
		}
		for _, source := range sets[at].Sources {
			owned[source] = append(owned[source], task.Partition)
		}
	}
	e := envelope{topics: sources, userData: w.b, owned: sortedPartitions(owned), generation: s.Generation, rack: s.Rack}
	return e.append(nil), nil
}

func (s Subscription) flags() uint64 {
	return uint64(flagNoStandby*boolInt(s.NoStandby) | flagDraining*boolInt(s.Draining))
}

// readable looks at the names that are no topics; dictionary looks at those.
func (s Subscription) readable() error {
	check := func(what, name string) error {
		if len(name) > maxName || !utf8.ValidString(name) {
			return fmt.Errorf("%s %.40q has %d bytes or is not of UTF-8; at most %d are possible", what, name, len(name), maxName)
		}
		return nil
	}
	err := cmp.Or(check("rack", s.Rack), check("address", s.Address))
	for _, set := range s.Sets {
		for _, t := range set.Tables {
			err = cmp.Or(err, check("table", t.Name))
		}
	}
	return err
}

// dictionary numbers the topics: the sources as they stand in the envelope, then all others.
func dictionary(sets []Set, globals []string) (sources, extra []string, index map[string]int, err error) {
	extra = slices.Clone(globals)
	for _, set := range sets {
		sources = append(sources, set.Sources...)
		for _, t := range set.Tables {
			extra = append(extra, t.Changelog)
		}
	}
	slices.Sort(sources)
	sources = slices.Compact(sources)
	slices.Sort(extra)
	extra = slices.DeleteFunc(slices.Compact(extra), func(t string) bool {
		_, ok := slices.BinarySearch(sources, t)
		return ok
	})
	index = make(map[string]int, len(sources)+len(extra))
	for i, t := range slices.Concat(sources, extra) {
		if t == "" || len(t) > maxName || !utf8.ValidString(t) {
			return nil, nil, nil, fmt.Errorf("topic name %.40q has %d bytes", t, len(t))
		}
		index[t] = i
	}
	return sources, extra, index, nil
}

// normalSets sorts sets, their sources and their tables.
func normalSets(sets []Set) []Set {
	normal := make([]Set, len(sets))
	for i, s := range sets {
		sources := slices.Clone(s.Sources)
		slices.Sort(sources)
		tables := slices.Clone(s.Tables)
		slices.SortFunc(tables, compareTables)
		normal[i] = Set{Sources: slices.Compact(sources), Tables: tables}
	}
	slices.SortFunc(normal, func(a, b Set) int { return slices.Compare(a.Sources, b.Sources) })
	return normal
}

func positions(sets []Set) (map[string]int, error) {
	at := make(map[string]int, len(sets))
	for i, s := range sets {
		if len(s.Sources) == 0 {
			return nil, fmt.Errorf("a set without sources")
		}
		at[s.Key()] = i
	}
	return at, nil
}

func (w *writer) sets(sets []Set, index map[string]int) {
	w.uvarint(uint64(len(sets)))
	for _, s := range sets {
		w.uvarint(uint64(len(s.Sources)))
		for _, t := range s.Sources {
			w.uvarint(uint64(index[t]))
		}
		w.uvarint(uint64(len(s.Tables)))
		for _, t := range s.Tables {
			w.text(t.Name)
			source := uint64(0)
			if t.Source {
				source = 1
			}
			w.uvarint(uint64(index[t.Changelog])<<1 | source)
		}
	}
}

// copies writes, by set, one range list for each lag class.
func (w *writer) copies(copies []Copy, bySet map[string]int, sets int) error {
	classes := make([]map[byte][]int32, sets)
	for _, c := range copies {
		at, ok := bySet[c.Task.Set]
		if !ok {
			return fmt.Errorf("copy %s is of no declared set", c.Task)
		}
		if classes[at] == nil {
			classes[at] = map[byte][]int32{}
		}
		class := lagClass(c.Lag)
		classes[at][class] = append(classes[at][class], c.Task.Partition)
	}
	for _, byClass := range classes {
		w.uvarint(uint64(len(byClass)))
		for _, class := range slices.Sorted(maps.Keys(byClass)) {
			w.b = append(w.b, class)
			w.ranges(byClass[class])
		}
	}
	return nil
}

// DecodeSubscription reads the metadata of a member. A member whose user data is of another kind or
// version is an error: it cannot be given tasks.
func DecodeSubscription(b []byte) (Subscription, error) {
	e, err := parseEnvelope(b)
	if err != nil {
		return Subscription{}, err
	}
	r := reader{b: e.userData}
	if version := r.take(1); version == nil || version[0] != dataVersion {
		r.fail("user data is not of version %d of pillion", dataVersion)
		return Subscription{}, r.err
	}
	s := Subscription{Generation: e.generation, Rack: e.rack}
	s.Nonce = r.uvarint()
	flags := r.uvarint()
	s.NoStandby, s.Draining = flags&flagNoStandby != 0, flags&flagDraining != 0
	s.Address = r.text()
	topics := slices.Clone(e.topics)
	for range r.count(1) {
		topics = append(topics, r.text())
	}
	s.Sets = r.sets(topics)
	for range r.count(1) {
		s.Globals = append(s.Globals, r.topic(topics))
	}
	for _, set := range s.Sets {
		for range r.count(2) {
			class := r.take(1)
			partitions := r.ranges()
			if r.err != nil {
				return Subscription{}, r.err
			}
			for _, p := range partitions {
				s.Copies = append(s.Copies, Copy{Task{set.Key(), p}, lagOf(class[0])})
			}
		}
	}
	if r.err != nil {
		return Subscription{}, r.err
	}
	s.Owned = ownedTasks(s.Sets, e.owned)
	return s, nil
}

func (r *reader) topic(topics []string) string {
	i := r.uvarint()
	if i >= uint64(len(topics)) {
		r.fail("topic %d of %d", i, len(topics))
		return ""
	}
	return topics[i]
}

func (r *reader) sets(topics []string) []Set {
	var sets []Set
	for range r.count(2) {
		var s Set
		for range r.count(1) {
			s.Sources = append(s.Sources, r.topic(topics))
		}
		for range r.count(2) {
			t := Table{Name: r.text()}
			at := r.uvarint()
			t.Source = at&1 != 0
			if at >>= 1; at >= uint64(len(topics)) {
				r.fail("topic %d of %d", at, len(topics))
				return nil
			}
			t.Changelog = topics[at]
			s.Tables = append(s.Tables, t)
		}
		if len(s.Sources) == 0 && r.err == nil {
			r.fail("a set without sources")
		}
		if r.err != nil {
			return nil
		}
		sets = append(sets, s)
	}
	return sets
}

// ownedTasks are the partitions of each set's first source that the envelope claims.
func ownedTasks(sets []Set, owned []topicPartitions) []Task {
	var tasks []Task
	for _, set := range sets {
		for _, tp := range owned {
			if tp.topic != set.Sources[0] {
				continue
			}
			for _, p := range tp.partitions {
				tasks = append(tasks, Task{set.Key(), p})
			}
		}
	}
	return tasks
}
