package groupclient

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/assignor"
	"github.com/pillion/pillion/internal/kafka"
)

// planLimit is how long the leader may ask Kafka for what it needs, before it plans with the partition
// counts that it knows, or not at all: all members wait in SyncGroup meanwhile.
const planLimit = 2 * time.Second

// plan is the leader's part of a generation.
func (g *Group) plan(ctx context.Context, joined *kmsg.JoinGroupResponse) ([]kmsg.SyncGroupRequestGroupAssignment, []string, error) {
	in, warnings := g.members(joined)
	in.Options.Replicas = g.replicas()
	in.Options.MaxWarmups, in.Options.AcceptableLag = g.cfg.MaxWarmups, assignor.CoarseLag(g.cfg.AcceptableLag) // lags are coarse
	var err error
	if in.Counts, err = g.partitionCounts(ctx, in.Members); err != nil {
		return nil, nil, err
	}
	var unread []string
	if in.Claims, unread, err = g.claimsOf(ctx, in); err != nil {
		return nil, nil, err
	}
	target, err := assignor.Target(in)
	if err != nil {
		return nil, nil, err
	}
	if err := assignor.Validate(in, target); err != nil {
		return nil, nil, fmt.Errorf("the target is not valid: %w", err)
	}
	next := assignor.Transition(in, target)
	if err := assignor.ValidateNext(in, next); err != nil {
		return nil, nil, fmt.Errorf("the plan is not valid: %w", err)
	}
	var assignments []kmsg.SyncGroupRequestGroupAssignment
	for _, m := range joined.Members {
		b, err := assignor.EncodeAssignment(assignor.AssignmentOf(next, m.MemberID))
		if err != nil {
			return nil, nil, fmt.Errorf("the plan cannot be encoded: %w", err)
		}
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = m.MemberID, b
		assignments = append(assignments, a)
	}
	if err := g.fits(ctx, recordOf(joined, assignments), len(joined.Members)); err != nil {
		return nil, nil, err
	}
	warnings = slices.Concat(warnings, unread, next.Warnings)
	g.log.Debug("planned", "generation", joined.Generation, "members", len(in.Members), "sets", len(next.Sets), "waiting", len(next.Waiting), "warming", len(next.Warming))
	g.sayOnce(joined.Generation, warnings)
	g.sayWarming(joined.Generation, next.Warming)
	return assignments, warnings, nil
}

// members are those of a generation as they describe themselves.
func (g *Group) members(joined *kmsg.JoinGroupResponse) (in assignor.Input, warnings []string) {
	for _, m := range joined.Members {
		member := assignor.Member{ID: m.MemberID, Generation: -1}
		if s, err := assignor.DecodeSubscription(m.ProtocolMetadata); err != nil {
			warnings = append(warnings, fmt.Sprintf("member %q is given nothing, because what it says of itself cannot be read: %v", m.MemberID, err))
		} else {
			member.Sets, member.Globals, member.Owned, member.Copies = s.Sets, s.Globals, s.Owned, s.Copies
			member.Generation, member.Rack, member.Address = s.Generation, s.Rack, s.Address
			member.NoStandby, member.Draining = s.NoStandby, s.Draining
		}
		if m.InstanceID != nil {
			member.Instance = *m.InstanceID
		}
		in.Members = append(in.Members, member)
	}
	return in, warnings
}

// replicas is how many standbys the leader gives each task.
func (g *Group) replicas() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.cfg.Replicas != nil:
		return *g.cfg.Replicas
	case g.joined != nil && g.joined.Replicas != nil:
		return *g.joined.Replicas
	default:
		return 0
	}
}

// sayOnce logs what is odd with a plan and what waits: when it begins and when it is over, not in each
// generation. A leader that is about to leave says it quietly: when a whole group ends, everything waits.
func (g *Group) sayOnce(generation int32, warnings []string) {
	g.mu.Lock()
	level := hclog.Warn
	if g.draining {
		level = hclog.Info
	}
	g.mu.Unlock()
	for _, w := range warnings {
		if !slices.Contains(g.said, w) {
			g.log.Log(level, w, "generation", generation)
		}
	}
	for _, w := range g.said {
		if !slices.Contains(warnings, w) {
			g.log.Info("no longer: "+w, "generation", generation)
		}
	}
	g.said = warnings
}

// partitionCounts asks for the counts of all members' sources. What is not answered in time is as it
// was last seen. INVARIANT: a topic of which nothing is known is not planned as one without partitions:
// its owners would lose it, and nothing would make a later plan.
func (g *Group) partitionCounts(ctx context.Context, members []assignor.Member) (map[string]int32, error) {
	seen := g.seenCounts()
	counts := map[string]int32{}
	for _, m := range members {
		for _, s := range m.Sets {
			for _, source := range s.Sources {
				counts[source] = seen[source]
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, planLimit)
	defer cancel()
	topics, err := g.client.Topics(ctx, slices.Sorted(maps.Keys(counts))...)
	if err != nil {
		g.log.Warn("planning with the partition counts seen last", "error", err)
	}
	for name := range counts {
		topic, answered := topics[name]
		code, _ := kafka.CodeOf(topic.Err)
		switch {
		case answered && topic.Err == nil && len(topic.Partitions) > 0:
			counts[name] = int32(len(topic.Partitions))
		case counts[name] > 0, code == 3, answered && topic.Err != nil && !kafka.Retriable(topic.Err):
			// As it was; or UNKNOWN_TOPIC_OR_PARTITION and what this user may not see: it is left out.
		default:
			return nil, fmt.Errorf("the number of partitions of topic %q is not known: %w", name, cmp.Or(err, topic.Err, errAgain))
		}
	}
	g.counts = counts
	return maps.Clone(counts), nil
}

// seenCounts are those that the last plan of ours was made with, and those of what we declare.
func (g *Group) seenCounts() map[string]int32 {
	seen := map[string]int32{}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.want != nil {
		for _, set := range g.want.Sets {
			for _, source := range set.Sources {
				seen[source] = set.Partitions
			}
		}
	}
	for source, n := range g.counts {
		if n > 0 {
			seen[source] = n
		}
	}
	return seen
}
