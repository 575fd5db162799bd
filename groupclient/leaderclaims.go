package groupclient

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/assignor"
	"github.com/pillion/pillion/internal/kafka"
)

// claimsOf reads what the tasks' owners have written beside their positions, of those sets that living
// members declare differently: only there it decides who may have a task. One OffsetFetch for all.
// A claim that cannot be read is a warning; the take-over will refuse it in words.
func (g *Group) claimsOf(ctx context.Context, in assignor.Input) (map[assignor.Task]assignor.Claim, []string, error) {
	differing := differing(in)
	if len(differing) == 0 {
		return nil, nil, nil
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = g.cfg.Group
	for _, d := range differing {
		for _, source := range d.Sources {
			topic := kmsg.NewOffsetFetchRequestTopic()
			topic.Topic = source
			for p := range in.Counts[source] {
				topic.Partitions = append(topic.Partitions, p)
			}
			if len(topic.Partitions) > 0 {
				req.Topics = append(req.Topics, topic)
			}
		}
	}
	if len(req.Topics) == 0 {
		return nil, nil, nil
	}
	texts, err := g.fetchTexts(ctx, req)
	if err != nil {
		return nil, nil, fmt.Errorf("reading what the tasks' owners have claimed: %w", err)
	}
	claims := map[assignor.Task]assignor.Claim{}
	var warnings []string
	for _, d := range differing {
		first, unread := "", 0
		for p := range d.Partitions {
			c, ok, warning := d.claim(texts, p)
			if warning != "" {
				first, unread = cmp.Or(first, warning), unread+1
			}
			if ok {
				claims[assignor.Task{Set: d.Key, Partition: p}] = c
			}
		}
		if unread > 1 { // one line, however many partitions a newer sidecar has had
			first += fmt.Sprintf(" (%d partitions of set %q are like that)", unread, d.Key)
		}
		if unread > 0 {
			warnings = append(warnings, first)
		}
	}
	return claims, warnings, nil
}

// fetchTexts reads the strings beside the committed positions.
func (g *Group) fetchTexts(ctx context.Context, req *kmsg.OffsetFetchRequest) (map[kafka.TopicPartition]string, error) {
	ctx, cancel := context.WithTimeout(ctx, planLimit)
	defer cancel()
	texts := map[kafka.TopicPartition]string{}
	err := g.repeat(ctx, func(ctx context.Context) (int16, error) {
		answer, err := g.client.ToGroup(ctx, g.cfg.Group, req)
		if err != nil {
			return 0, err
		}
		resp := answer.(*kmsg.OffsetFetchResponse)
		if resp.ErrorCode != 0 {
			return resp.ErrorCode, nil
		}
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				if p.ErrorCode != 0 {
					return p.ErrorCode, nil
				}
				if p.Metadata != nil {
					texts[kafka.TopicPartition{Topic: topic.Topic, Partition: p.Partition}] = *p.Metadata
				}
			}
		}
		return 0, nil
	})
	return texts, err
}

// differingSet is a united set that members declare differently.
type differingSet struct {
	assignor.United
	changelogs []string // of all members
}

// differing finds those sets; what follows from equal declarations needs no claims.
func differing(in assignor.Input) []differingSet {
	var sets []differingSet
	for _, u := range assignor.Unite(in.Members) {
		for _, source := range u.Sources {
			u.Partitions = max(u.Partitions, in.Counts[source])
		}
		first, differs, changelogs := "", false, map[string]bool{}
		for _, m := range in.Members {
			words := declares(m, u, changelogs)
			switch {
			case words == "":
			case first == "":
				first = words
			default:
				differs = differs || words != first
			}
		}
		if differs {
			sets = append(sets, differingSet{u, slices.Sorted(maps.Keys(changelogs))})
		}
	}
	return sets
}

// declares is what a member declares of a united set, in one word; empty: nothing.
func declares(m assignor.Member, u assignor.United, changelogs map[string]bool) string {
	var sources, tables []string
	for _, set := range m.Sets {
		if len(set.Sources) == 0 || !slices.Contains(u.Sources, set.Sources[0]) {
			continue
		}
		sources = append(sources, set.Sources...)
		for _, t := range set.Tables {
			if !t.Source {
				tables = append(tables, t.Changelog)
				changelogs[t.Changelog] = true
			}
		}
	}
	if len(sources) == 0 {
		return ""
	}
	slices.Sort(sources)
	slices.Sort(tables)
	return strings.Join(sources, ",") + " " + strings.Join(tables, ",")
}

// claim puts the standing claims of a task together. A claim may hold hashes in place of names, so that
// it is asked for each declared topic.
func (d differingSet) claim(texts map[kafka.TopicPartition]string, partition int32) (c assignor.Claim, ok bool, warning string) {
	claims := map[string]claim{}
	for _, source := range d.Sources {
		parsed, is, err := parseClaim(texts[kafka.TopicPartition{Topic: source, Partition: partition}])
		if err != nil {
			warning = fmt.Sprintf("the committed position of %s-%d carries %v; run the newest version of the sidecar", source, partition, err)
		}
		if is {
			claims[source] = parsed
		}
	}
	stand := standing(claims)
	names := func(topics []string, of func(claim) map[string]string) (out []string) {
		for _, topic := range topics {
			for _, s := range stand {
				if _, is := named(of(s), topic); is {
					out = append(out, topic)
					break
				}
			}
		}
		return out
	}
	c.Sources = names(d.Sources, func(c claim) map[string]string { return c.Sources })
	c.Changelogs = names(d.changelogs, func(c claim) map[string]string { return c.Tables })
	return c, len(stand) > 0, warning
}
