package plan

import (
	"fmt"
	"maps"
	"slices"
)

// maxPartitions of a topic: what a group's metadata can hold.
const maxPartitions = 1 << 18

func (q Request) check() error {
	if q.Replicas < 0 {
		return fmt.Errorf("replicas is %d: 0 or more are possible", q.Replicas)
	}
	if q.Capacity < 0 {
		return fmt.Errorf("capacity is %d: leave it out, or give a number above 0", q.Capacity)
	}
	if q.Warmups < 0 {
		return fmt.Errorf("warmups is %d: 0 (tasks move cold) or more are possible", q.Warmups)
	}
	if q.AcceptableLag < 0 {
		return fmt.Errorf("acceptable_lag is %d: 0 or more are possible", q.AcceptableLag)
	}
	for _, topic := range slices.Sorted(maps.Keys(q.Topics)) {
		switch n := q.Topics[topic]; {
		case topic == "":
			return fmt.Errorf("topics has a topic without a name")
		case n == nil:
			return fmt.Errorf("topics: %q has no number of partitions", topic)
		case *n < 0 || *n > maxPartitions:
			return fmt.Errorf("topics: %q has %d partitions: 0 to %d are possible", topic, *n, maxPartitions)
		}
	}
	if q.Members == nil {
		return fmt.Errorf("members is missing: a list is wanted, be it empty")
	}
	ids := map[string]bool{}
	for i, m := range q.Members {
		if m.ID == "" {
			return fmt.Errorf("member %d has no id", i+1)
		}
		if ids[m.ID] {
			return fmt.Errorf("two members have the id %q", m.ID)
		}
		ids[m.ID] = true
		if err := q.checkMember(m); err != nil {
			return fmt.Errorf("member %q: %w", m.ID, err)
		}
	}
	return nil
}

func (q Request) checkMember(m Member) error {
	if m.Generation != nil && *m.Generation < -1 {
		return fmt.Errorf("generation is %d: -1 (never synced) or more are possible", *m.Generation)
	}
	if len(m.Sets) > 0 && (len(m.Sources) > 0 || len(m.Tables) > 0) {
		return fmt.Errorf("it gives sets, and sources or tables beside them: put everything into sets, or nothing")
	}
	seen := map[string]bool{}
	for i, set := range m.Sets {
		if err := q.checkSet(set, seen); err != nil {
			return fmt.Errorf("set %d: %w", i+1, err)
		}
	}
	if err := checkTopics(m.Sources, "sources", seen); err != nil {
		return err
	}
	if err := checkTables(m.Tables); err != nil {
		return err
	}
	for i, g := range m.Globals {
		if g.Topic == "" {
			return fmt.Errorf("global table %d has no topic", i+1)
		}
	}
	if err := q.checkHeld("active", m.Active, m); err != nil {
		return err
	}
	for _, topic := range slices.Sorted(maps.Keys(m.Lags)) {
		if lags := m.Lags[topic]; len(lags) != len(m.Standby[topic]) {
			return fmt.Errorf("lags: %q has %d, and standby has %d partitions of it: give one for each, or none", topic, len(lags), len(m.Standby[topic]))
		} else if i := slices.IndexFunc(lags, func(lag int64) bool { return lag < -1 }); i >= 0 {
			return fmt.Errorf("lags: %q has %d: -1 (not known) or more are possible", topic, lags[i])
		}
	}
	return q.checkHeld("standby", m.Standby, m)
}

func (q Request) checkSet(set Set, seen map[string]bool) error {
	if len(set.Sources) == 0 {
		return fmt.Errorf("it has no sources")
	}
	if err := checkTopics(set.Sources, "sources", seen); err != nil {
		return err
	}
	like, n := "", int32(0)
	for _, source := range set.Sources {
		switch count := q.count(source); {
		case count == 0: // missing; it is left out with a warning
		case like == "":
			like, n = source, count
		case count != n:
			return fmt.Errorf("%q has %d partitions and %q has %d: topics that are read together need the same number", like, n, source, count)
		}
	}
	for _, t := range set.Tables {
		if len(t.Sources) > 0 {
			return fmt.Errorf("table %q names sources: those of its set are meant, so leave them out", t.Name)
		}
		if count := q.count(t.topic()); count > 0 && n > 0 && count != n {
			return fmt.Errorf("%q has %d partitions and %q has %d: topics that are read together need the same number", like, n, t.topic(), count)
		}
	}
	return checkTables(set.Tables)
}

func checkTopics(topics []string, what string, seen map[string]bool) error {
	for _, topic := range topics {
		if topic == "" {
			return fmt.Errorf("%s has a topic without a name", what)
		}
		if seen[topic] {
			return fmt.Errorf("%q is named twice as a source", topic)
		}
		seen[topic] = true
	}
	return nil
}

func checkTables(tables []Table) error {
	for i, t := range tables {
		if t.Changelog == "" && t.SourceTopic == "" {
			return fmt.Errorf("table %d (%q) has no changelog", i+1, t.Name)
		}
		if t.Changelog != "" && t.SourceTopic != "" {
			return fmt.Errorf("table %q has both a changelog and a source topic: name one", t.Name)
		}
	}
	return nil
}

// checkHeld looks at what a member says that it holds. A topic that it does not declare is passed over
// later, if it is one.
func (q Request) checkHeld(what string, held map[string][]int32, m Member) error {
	declared := m.topics()
	for _, topic := range slices.Sorted(maps.Keys(held)) {
		n := q.Topics[topic]
		if n == nil && !declared[topic] {
			return fmt.Errorf("%s: topic %q is neither among topics nor declared by the member", what, topic)
		}
		for _, p := range held[topic] {
			switch {
			case p < 0 || p >= maxPartitions:
				return fmt.Errorf("%s: %q has no partition %d", what, topic, p)
			case n != nil && p >= *n:
				return fmt.Errorf("%s: %q has %d partitions, and no partition %d", what, topic, *n, p)
			}
		}
	}
	return nil
}

// topics are those that a member declares, but for its global tables.
func (m Member) topics() map[string]bool {
	topics := map[string]bool{}
	add := func(sources []string, tables []Table) {
		for _, s := range sources {
			topics[s] = true
		}
		for _, t := range tables {
			topics[t.topic()] = true
		}
	}
	add(m.Sources, m.Tables)
	for _, set := range m.Sets {
		add(set.Sources, set.Tables)
	}
	return topics
}

// count is 0 of a topic that does not exist.
func (q Request) count(topic string) int32 {
	if n := q.Topics[topic]; n != nil {
		return *n
	}
	return 0
}

func (t Table) topic() string {
	if t.SourceTopic != "" {
		return t.SourceTopic
	}
	return t.Changelog
}
