package groupclient

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/pillion/pillion/internal/kafka"
)

// Changed compares what is read, and the changelogs, with what Kafka has now: partitions that were added
// would never be read, and a topic that was created anew is not the one that was checked. It gives a
// sentence, or "" when nothing is to be done. Topics that Kafka does not tell of are passed over: those who
// use them find out.
func (p Prepared) Changed(ctx context.Context, client interface {
	Refresh(ctx context.Context, names ...string) (map[string]kafka.Topic, error)
}) (string, error) {
	counts := p.counts()
	names := slices.Sorted(maps.Keys(counts))
	if len(names) == 0 {
		return "", nil
	}
	topics, err := client.Refresh(ctx, names...)
	if err != nil {
		return "", fmt.Errorf("looking at the declared topics again: %w", err)
	}
	for _, name := range names {
		topic := topics[name]
		n := int32(len(topic.Partitions))
		switch {
		case topic.Err != nil || n == 0:
		case !sameID(shortID(p.TopicIDs[name]), shortID(topic.ID)):
			return fmt.Sprintf("topic %q was created anew", name), nil
		case n > counts[name]:
			return fmt.Sprintf("topic %q has %d partitions now, and had %d", name, n, counts[name]), nil
		}
	}
	return "", nil
}

// counts are the partitions of every topic but the outputs, as they were checked.
func (p Prepared) counts() map[string]int32 {
	counts := map[string]int32{}
	for _, set := range p.Sets {
		for _, source := range set.Sources {
			counts[source] = set.Partitions
		}
		for _, table := range set.Tables {
			counts[table.Topic] = set.Partitions
		}
	}
	for _, global := range p.Globals {
		counts[global.Topic] = global.Partitions
	}
	return counts
}
