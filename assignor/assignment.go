package assignor

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// Assignment is what one member is given. Tasks are by key of the united set; Own maps them to the
// sets that a member has declared.
type Assignment struct {
	Active  []Task
	Standby []Task
	Warming []Task              // of Standby: those that are to become active once they are warm
	WarmLag int64               // records that such a copy may be behind; see Options.AcceptableLag
	sources map[string][]string // of each key
}

// AssignmentOf takes a member's share out of a plan.
func AssignmentOf(p Plan, member string) Assignment {
	share := p.Members[member]
	a := Assignment{Active: share.Active, Standby: share.Standby, sources: map[string][]string{}}
	for _, u := range p.Sets {
		a.sources[u.Key] = u.Sources
	}
	for _, w := range p.Warming {
		if w.To == member && !w.Later {
			a.Warming, a.WarmLag = append(a.Warming, w.Task), p.acceptable
		}
	}
	return a
}

// Own translates tasks to a member's own set: those of the united set that has its sources.
func (a Assignment) Own(sources []string) (active, standby []int32) {
	return a.pick(sources, a.Active), a.pick(sources, a.Standby)
}

// OwnWarming are those of Own's standbys that warm up.
func (a Assignment) OwnWarming(sources []string) []int32 { return a.pick(sources, a.Warming) }

func (a Assignment) pick(sources []string, tasks []Task) (partitions []int32) {
	for _, t := range tasks {
		if slices.Contains(a.sources[t.Set], sources[0]) {
			partitions = append(partitions, t.Partition)
		}
	}
	return partitions
}

// EncodeAssignment makes the assignment of a SyncGroup: the active source partitions in the standard
// envelope, actives and standbys by set in user data.
func EncodeAssignment(a Assignment) ([]byte, error) {
	type lists struct{ active, standby, warming []int32 }
	bySet := map[string]*lists{}
	at := func(t Task) *lists {
		if bySet[t.Set] == nil {
			bySet[t.Set] = &lists{}
		}
		return bySet[t.Set]
	}
	for _, t := range a.Active {
		at(t).active = append(at(t).active, t.Partition)
	}
	for _, t := range a.Standby {
		at(t).standby = append(at(t).standby, t.Partition)
	}
	for _, t := range a.Warming {
		at(t).warming = append(at(t).warming, t.Partition)
	}
	keys := slices.Sorted(maps.Keys(bySet))
	topics := map[string]int{}
	w := writer{b: []byte{dataVersion}}
	var dictionary []string
	actives := map[string][]int32{}
	for _, key := range keys {
		sources, ok := a.sources[key]
		if !ok || len(sources) == 0 {
			return nil, fmt.Errorf("set %q of a plan has no sources", key)
		}
		for _, t := range sources {
			if _, ok := topics[t]; !ok {
				topics[t] = len(dictionary)
				dictionary = append(dictionary, t)
			}
			if len(bySet[key].active) > 0 {
				actives[t] = append(actives[t], bySet[key].active...)
			}
		}
	}
	w.uvarint(uint64(len(dictionary)))
	for _, t := range dictionary {
		w.text(t)
	}
	w.uvarint(uint64(len(keys)))
	for _, key := range keys {
		w.uvarint(uint64(len(a.sources[key])))
		for _, t := range a.sources[key] {
			w.uvarint(uint64(topics[t]))
		}
		w.ranges(bySet[key].active)
		w.ranges(bySet[key].standby)
	}
	if len(a.Warming) > 0 { // who does not know of it skips it; a field behind it would need it always
		w.uvarint(uint64(max(a.WarmLag, 0)))
		for _, key := range keys {
			w.ranges(bySet[key].warming)
		}
	}
	e := writer{}
	e.int16(assignmentVersion)
	e.topicPartitions(sortedPartitions(actives))
	e.bytes(w.b)
	return e.b, nil
}

// DecodeAssignment reads what EncodeAssignment has made. No bytes at all are an empty assignment.
func DecodeAssignment(b []byte) (Assignment, error) {
	a := Assignment{sources: map[string][]string{}}
	if len(b) == 0 {
		return a, nil
	}
	e := reader{b: b}
	if version := e.int16(); version < 0 {
		e.fail("assignment version %d", version)
	}
	e.topicPartitions()
	data := e.bytes()
	if e.err != nil {
		return Assignment{}, e.err
	}
	r := reader{b: data}
	if version := r.take(1); version == nil || version[0] != dataVersion {
		r.fail("user data is not of version %d of pillion", dataVersion)
		return Assignment{}, r.err
	}
	var topics []string
	for range r.count(1) {
		topics = append(topics, r.text())
	}
	var keys []string
	listed := 0 // partitions that the envelope must hold: each active once for each of its sources
	for range r.count(3) {
		var sources []string
		for range r.count(1) {
			sources = append(sources, r.topic(topics))
		}
		active, standby := r.ranges(), r.ranges()
		if len(sources) == 0 {
			r.fail("a set without sources")
		}
		if listed += len(active) * len(sources); listed > maxPartitions {
			r.fail("more than %d partitions", maxPartitions)
		}
		key := Key(sources)
		if _, twice := a.sources[key]; twice { // nobody writes that, and it would not fit the limits again
			r.fail("a set that is there twice")
		}
		if r.err != nil {
			return Assignment{}, r.err
		}
		keys = append(keys, key)
		a.sources[key] = sources
		for _, p := range active {
			a.Active = append(a.Active, Task{key, p})
		}
		for _, p := range standby {
			a.Standby = append(a.Standby, Task{key, p})
		}
	}
	if len(r.b) > 0 {
		a.WarmLag = int64(min(r.uvarint(), math.MaxInt64))
		for _, key := range keys {
			for _, p := range r.ranges() {
				a.Warming = append(a.Warming, Task{key, p})
			}
		}
	}
	return a, r.err
}
