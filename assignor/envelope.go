package assignor

import (
	"maps"
	"slices"
)

// The standard envelope of the consumer protocol (ConsumerProtocolSubscription and
// ConsumerProtocolAssignment): what Kafka's own tools and the broker itself read of a member. The
// broker keeps the offsets of the topics that stand here from expiring.

const (
	subscriptionVersion = 3 // owned partitions, generation, rack
	assignmentVersion   = 1
)

type topicPartitions struct {
	topic      string
	partitions []int32
}

type envelope struct {
	topics     []string
	userData   []byte
	owned      []topicPartitions
	generation int32
	rack       string
}

func (e envelope) append(dst []byte) []byte {
	w := writer{b: dst}
	w.int16(subscriptionVersion)
	w.int32(int32(len(e.topics)))
	for _, t := range e.topics {
		w.string(t)
	}
	w.bytes(e.userData)
	w.topicPartitions(e.owned)
	w.int32(e.generation)
	if e.rack == "" {
		w.int16(-1)
	} else {
		w.string(e.rack)
	}
	return w.b
}

// parseEnvelope reads every version: later ones only add fields at the end.
func parseEnvelope(b []byte) (envelope, error) {
	e := envelope{generation: -1}
	r := reader{b: b}
	version := r.int16()
	if version < 0 {
		r.fail("subscription version %d", version)
	}
	for range r.length(2) {
		e.topics = append(e.topics, r.string())
	}
	e.userData = r.bytes()
	if version >= 1 && len(r.b) > 0 {
		e.owned = r.topicPartitions()
	}
	if version >= 2 && len(r.b) > 0 {
		e.generation = r.int32()
	}
	if version >= 3 && len(r.b) > 0 {
		e.rack = r.nullable()
	}
	return e, r.err
}

func (w *writer) topicPartitions(list []topicPartitions) {
	w.int32(int32(len(list)))
	for _, tp := range list {
		w.string(tp.topic)
		w.int32(int32(len(tp.partitions)))
		for _, p := range tp.partitions {
			w.int32(p)
		}
	}
}

func (r *reader) topicPartitions() []topicPartitions {
	var list []topicPartitions
	for range r.length(6) {
		tp := topicPartitions{topic: r.string()}
		n := r.length(4)
		if !r.room(n) {
			return nil
		}
		for range n {
			p := r.int32()
			if p < 0 || p > maxPartition {
				r.fail("partition %d", p)
				return nil
			}
			tp.partitions = append(tp.partitions, p)
		}
		list = append(list, tp)
	}
	return list
}

// sortedPartitions makes the canonical list of a map from topic to partitions.
func sortedPartitions(of map[string][]int32) []topicPartitions {
	list := make([]topicPartitions, 0, len(of))
	for _, topic := range slices.Sorted(maps.Keys(of)) {
		partitions := slices.Clone(of[topic])
		slices.Sort(partitions)
		list = append(list, topicPartitions{topic, slices.Compact(partitions)})
	}
	return list
}
