package groupclient

import (
	"context"
	"errors"
	"fmt"

	"github.com/pillion/pillion/internal/kafka"
)

// found is everything that decides where a task starts.
type found struct {
	claims    map[string]claim     // by source
	committed map[string]committed // by source; stable
	ids       map[string][16]byte  // of sources and of the topics of tables
	missing   map[string]bool      // topics that do not exist
	first     map[string]int64     // log start, of sources and changelogs
	last      map[string]int64     // high watermark, of sources and changelogs
}

// look asks Kafka for the topics of a task and where their partitions begin and end.
func (g *Group) look(ctx context.Context, t Task, set PreparedSet) (found, error) {
	f := found{ids: map[string][16]byte{}, missing: map[string]bool{}}
	topics := set.Sources
	for _, table := range set.Tables {
		topics = append(topics[:len(topics):len(topics)], table.Topic)
	}
	metadata, err := g.client.Refresh(ctx, topics...)
	if err != nil {
		return f, fmt.Errorf("looking at the topics of the set: %w", err)
	}
	var tps []kafka.TopicPartition
	for _, name := range topics {
		topic := metadata[name]
		if code, _ := kafka.CodeOf(topic.Err); code == 3 {
			f.missing[name] = true
			continue
		}
		if topic.Err != nil {
			return f, topic.Err
		}
		if n := int32(len(topic.Partitions)); t.Partition >= n {
			return f, &RefusedError{codeCountMismatch, fmt.Sprintf("topic %q has %d partitions, and set %q has records in partition %d; "+
				"topics that are read together need the same number: create one of them anew", name, n, set.Name, t.Partition)}
		}
		f.ids[name] = topic.ID
		tps = append(tps, kafka.TopicPartition{Topic: name, Partition: t.Partition})
	}
	if f.first, err = g.offsets(ctx, kafka.Earliest, tps); err == nil {
		f.last, err = g.offsets(ctx, kafka.Latest, tps)
	}
	if err != nil {
		return f, fmt.Errorf("looking where the topics of the set begin and end: %w", err)
	}
	return f, nil
}

// offsets finds where one partition of each topic begins or ends. INVARIANT: what Kafka does not say is
// an error and never an offset. That of a single partition does not pass by itself (the topic was
// deleted since), so that it is not repeated here: the take-over begins anew.
func (g *Group) offsets(ctx context.Context, at int64, tps []kafka.TopicPartition) (map[string]int64, error) {
	offsets, err := g.client.ListOffsets(ctx, at, false, tps...)
	if err != nil {
		return nil, err
	}
	by := make(map[string]int64, len(tps))
	for _, tp := range tps {
		switch o, ok := offsets[tp]; {
		case !ok:
			return nil, fmt.Errorf("the offset of %s is not in the answer", tp)
		case o.Err != nil:
			return nil, errors.New(o.Err.Error())
		default:
			by[tp.Topic] = o.Offset
		}
	}
	return by, nil
}

// positions decides where each source of a task starts, or why the task must not start.
func (c Config) positions(t Task, set PreparedSet, f found) (map[string]int64, error) {
	if err := c.checkState(t, set, f); err != nil {
		return nil, err
	}
	positions := make(map[string]int64, len(set.Sources))
	for _, source := range set.Sources {
		offset, err := c.position(t, set, source, f)
		if err != nil {
			return nil, err
		}
		positions[source] = offset
	}
	return positions, nil
}

// checkState refuses a task whose changelogs are not those that its claims know.
func (c Config) checkState(t Task, set PreparedSet, f found) error {
	for _, table := range set.Tables {
		if f.missing[table.Topic] {
			what := "changelog"
			if table.Source {
				what = "source topic"
			}
			return &RefusedError{codeLostState, fmt.Sprintf("%s %q of table %q does not exist any more; restore it, or connect the worker again to have a missing changelog created",
				what, table.Topic, table.Name)}
		}
		if table.Source || c.AcceptStateLoss {
			continue
		}
		named, known := f.tableClaim(table.Topic)
		switch {
		case named != "" && !sameID(named, shortID(f.ids[table.Topic])):
			return &RefusedError{codeLostState, fmt.Sprintf("changelog %q of table %q was deleted or created anew since group %q last used it (task %s), so that the table is lost; "+
				"restore the topic, or start the sidecar with --accept-state-loss to go on with what is there", table.Topic, table.Name, c.Group, t)}
		case known && named == "" && !f.empty(table.Topic):
			return &RefusedError{codeLostState, fmt.Sprintf("changelog %q of table %q is not empty, but group %q has worked on task %s without this table: it would have a hole; "+
				"take another changelog, or start the sidecar with --accept-state-loss to use it as it is", table.Topic, table.Name, c.Group, t)}
		}
	}
	return nil
}

// tableClaim is the short id by which a standing claim of the task names a changelog, or "" when none
// does; known tells whether there is a claim at all.
func (f found) tableClaim(changelog string) (id string, known bool) {
	for _, c := range standing(f.claims) {
		if id, ok := named(c.Tables, changelog); ok {
			return id, true
		}
	}
	return "", len(f.claims) > 0
}

// sourceClaim is the short id by which a claim of the task names a source; its own claim first,
// which stands beside the very position.
func (f found) sourceClaim(source string) (id string, ok bool) {
	if own, has := f.claims[source]; has {
		if id, ok := named(own.Sources, source); ok {
			return id, true
		}
	}
	for _, c := range f.claims {
		if id, ok := named(c.Sources, source); ok {
			return id, true
		}
	}
	return "", false
}

func (f found) empty(topic string) bool { return f.first[topic] >= f.last[topic] }

// position decides for one source: what is committed, if that is sound; auto_offset_reset where
// there never was anything; on_lost_position where there was.
func (c Config) position(t Task, set PreparedSet, source string, f found) (int64, error) {
	if f.missing[source] {
		return 0, &RefusedError{codeUnknownTopic, fmt.Sprintf("source topic %q of set %q does not exist any more; create it", source, set.Name)}
	}
	at := f.committed[source].offset
	id, claimed := f.sourceClaim(source)
	where := fmt.Sprintf("%s-%d in group %q", source, t.Partition, c.Group)
	switch {
	case claimed && !sameID(id, shortID(f.ids[source])):
		return c.lost(source, f, fmt.Sprintf("topic %q was deleted or created anew since group %q committed a position of %s-%d", source, c.Group, source, t.Partition))
	case at < 0 && claimed:
		return c.lost(source, f, fmt.Sprintf("the committed position of %s is gone (offsets.retention.minutes?)", where))
	case at < 0:
		changelog, filled := f.filled(set)
		if filled && f.nothingCommitted() {
			return c.lost(source, f, fmt.Sprintf("nothing is committed for %s, but changelog %q is not empty", where, changelog))
		}
		return c.reset(source, f, where)
	case at < f.first[source]:
		return c.lost(source, f, fmt.Sprintf("the committed position %d of %s is below the start of the log, %d", at, where, f.first[source]))
	case at > f.last[source]:
		return c.lost(source, f, fmt.Sprintf("the committed position %d of %s is past the end of the log, %d", at, where, f.last[source]))
	default:
		return at, nil
	}
}

func (f found) filled(set PreparedSet) (changelog string, ok bool) {
	for _, table := range set.Tables {
		if !table.Source && !f.empty(table.Topic) {
			return table.Topic, true
		}
	}
	return "", false
}

func (f found) nothingCommitted() bool {
	for _, c := range f.committed {
		if c.offset >= 0 {
			return false
		}
	}
	return true
}

// lost is on_lost_position.
func (c Config) lost(source string, f found, why string) (int64, error) {
	switch c.OnLostPosition {
	case ResetEarliest:
		return f.first[source], nil
	case ResetLatest:
		return f.last[source], nil
	default:
		return 0, &RefusedError{codeLostPosition, why + "; set the position with kafka-consumer-groups --reset-offsets, or start the sidecar with --on-lost-position earliest or latest"}
	}
}

// reset is auto_offset_reset.
func (c Config) reset(source string, f found, where string) (int64, error) {
	switch c.AutoOffsetReset {
	case ResetEarliest:
		return f.first[source], nil
	case ResetLatest:
		return f.last[source], nil
	default:
		return 0, &RefusedError{codeLostPosition, fmt.Sprintf("nothing is committed for %s and auto_offset_reset is none; "+
			"set the position with kafka-consumer-groups --reset-offsets, or start the sidecar with --auto-offset-reset earliest or latest", where)}
	}
}
