package groupclient

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/assignor"
	"github.com/pillion/pillion/internal/kafka"
)

// planLimit is how long the leader may ask for partition counts before it plans with those that it
// knows: all members wait in SyncGroup meanwhile.
const planLimit = 2 * time.Second

func compareTasks(a, b Task) int {
	return cmp.Or(cmp.Compare(a.Set, b.Set), cmp.Compare(a.Partition, b.Partition))
}

// buildJoin makes a new JoinGroup: the subscription and the claims of this moment. It is nil when
// nobody wants to be a member any more.
func (g *Group) buildJoin() (*kmsg.JoinGroupRequest, error) {
	g.nonce++
	var copies []Copy
	if g.cfg.Copies != nil {
		copies = g.cfg.Copies()
	}
	g.mu.Lock()
	if g.want == nil {
		g.mu.Unlock()
		return nil, nil
	}
	subscription := g.subscription(copies)
	member := g.identity.member
	reason := "the group rebalances"
	switch {
	case g.synced < 0:
		reason = "a sidecar joins"
	case !g.follow.IsZero():
		reason = "tasks were released, or the worker declares something else"
	}
	g.joined = g.want
	g.follow, g.urgent = time.Time{}, false
	g.claimed = slices.Collect(maps.Keys(g.owned))
	g.mu.Unlock()
	metadata, err := assignor.EncodeSubscription(subscription)
	if err != nil {
		return nil, fmt.Errorf("describing this member to group %q: %w", g.cfg.Group, err)
	}
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group = g.cfg.Group
	req.SessionTimeoutMillis = int32(g.cfg.SessionTimeout.Milliseconds())
	req.RebalanceTimeoutMillis = int32(g.cfg.RebalanceTimeout.Milliseconds())
	req.MemberID = member
	req.InstanceID = g.instance()
	req.ProtocolType = protocolType
	req.Reason = &reason
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = protocolName, metadata
	req.Protocols = append(req.Protocols, protocol)
	return req, nil
}

// subscription needs g.mu.
func (g *Group) subscription(copies []Copy) assignor.Subscription {
	s := assignor.Subscription{
		Rack: g.cfg.Rack, Address: g.want.Address, NoStandby: g.want.NoStandby, Nonce: g.nonce, Generation: g.synced,
	}
	keys := map[string]string{}
	for _, set := range g.want.Sets {
		own := assignorSet(set)
		s.Sets = append(s.Sets, own)
		keys[set.Name] = own.Key()
	}
	for _, global := range g.want.Globals {
		s.Globals = append(s.Globals, global.Topic)
	}
	for t := range g.owned {
		if key, ok := keys[t.Set]; ok {
			s.Owned = append(s.Owned, assignor.Task{Set: key, Partition: t.Partition})
		}
	}
	for _, c := range copies {
		if key, ok := keys[c.Task.Set]; ok && g.owned[c.Task] == nil {
			s.Copies = append(s.Copies, assignor.Copy{Task: assignor.Task{Set: key, Partition: c.Task.Partition}, Lag: c.Lag})
		}
	}
	return s
}

func assignorSet(set PreparedSet) assignor.Set {
	own := assignor.Set{Sources: set.Sources}
	for _, t := range set.Tables {
		own.Tables = append(own.Tables, assignor.Table{Name: t.Name, Changelog: t.Topic, Source: t.Source})
	}
	return own
}

// plan is the leader's part of a generation.
func (g *Group) plan(ctx context.Context, joined *kmsg.JoinGroupResponse) ([]kmsg.SyncGroupRequestGroupAssignment, []string, error) {
	in := assignor.Input{Options: assignor.Options{Replicas: g.replicas()}}
	var warnings []string
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
	counts, err := g.partitionCounts(ctx, in.Members)
	if err != nil {
		return nil, nil, err
	}
	in.Counts = counts
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
	warnings = append(warnings, next.Warnings...)
	g.log.Debug("planned", "generation", joined.Generation, "members", len(in.Members), "sets", len(next.Sets), "waiting", len(next.Waiting))
	for _, warning := range warnings {
		g.log.Warn(warning, "generation", joined.Generation)
	}
	return assignments, warnings, nil
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

// settle takes over what a generation gives, and says so. What it gives is claimed from now on.
func (g *Group) settle(ctx context.Context, joined *kmsg.JoinGroupResponse, b []byte, leader bool, warnings []string) {
	given, err := assignor.DecodeAssignment(b)
	if err != nil {
		err = fmt.Errorf("the plan of the leader %q cannot be read; run the same version of the sidecar everywhere: %w", joined.LeaderID, err)
		g.request = nil
		g.tell(codeRebalance, err.Error())
		g.waitOut(ctx, tooLargePause)
		return
	}
	a := Assignment{Generation: joined.Generation, MemberID: joined.MemberID, Leader: leader, Warnings: warnings}
	g.mu.Lock()
	g.identity.generation = joined.Generation
	g.between = false
	if g.want != nil {
		for _, set := range g.want.Sets {
			if !g.joined.has(set) {
				continue // declared since; the follow-up join will tell
			}
			active, standby := given.Own(set.Sources)
			a.Active = append(a.Active, tasksOf(set.Name, active)...)
			a.Standby = append(a.Standby, tasksOf(set.Name, standby)...)
		}
	}
	g.adopt(a.Active)
	owned := len(g.owned)
	g.mu.Unlock()
	g.request, g.failures = nil, 0
	g.synced, g.phase = joined.Generation, stable
	g.next = time.Now().Add(g.cfg.HeartbeatInterval)
	g.over()
	g.log.Info("assigned", "generation", a.Generation, "member", a.MemberID, "leader", leader,
		"active", len(a.Active), "standby", len(a.Standby), "revoked", owned-len(a.Active))
	g.handler.Assigned(a)
}

func tasksOf(set string, partitions []int32) []Task {
	tasks := make([]Task, 0, len(partitions))
	for _, p := range partitions {
		tasks = append(tasks, Task{set, p})
	}
	slices.SortFunc(tasks, compareTasks)
	return tasks
}

// adopt needs g.mu. A follow-up join that was wanted for a release is not needed when the sync has
// given the task to us again.
func (g *Group) adopt(active []Task) {
	for _, t := range g.owned {
		t.active = false
	}
	for _, t := range active {
		if g.owned[t] == nil {
			g.owned[t] = &ownedTask{}
		}
		g.owned[t].active = true
	}
	released := slices.ContainsFunc(g.claimed, func(t Task) bool { return g.owned[t] == nil })
	if !g.urgent && !released {
		g.follow = time.Time{}
	}
}
