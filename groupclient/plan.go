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
)

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
	case len(g.warm.warm) > 0:
		reason = "a copy is warm"
	}
	g.joined = g.want
	g.follow, g.urgent = time.Time{}, false
	g.claimed = slices.AppendSeq(slices.Collect(maps.Keys(g.owned)), maps.Keys(g.parting))
	if len(g.parting) > 0 { // its release is not written yet
		g.follow = time.Now()
	}
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
		Rack: g.cfg.Rack, Address: g.want.Address, NoStandby: g.want.NoStandby, Draining: g.draining,
		Nonce: g.nonce, Generation: g.synced,
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
	for _, t := range slices.AppendSeq(slices.Collect(maps.Keys(g.owned)), maps.Keys(g.parting)) {
		if key, ok := keys[t.Set]; ok {
			s.Owned = append(s.Owned, assignor.Task{Set: key, Partition: t.Partition})
		}
	}
	for _, c := range copies {
		if key, ok := keys[c.Task.Set]; ok && g.owned[c.Task] == nil && g.parting[c.Task] == nil {
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
	var warming []Task
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
			warming = append(warming, tasksOf(set.Name, given.OwnWarming(set.Sources))...)
		}
	}
	g.adopt(a.Active)
	g.catchUp()
	owned := len(g.owned)
	g.mu.Unlock()
	g.request, g.failures = nil, 0
	g.synced, g.syncedAs, g.phase = joined.Generation, joined.MemberID, stable
	g.next = time.Now().Add(g.cfg.HeartbeatInterval)
	g.settleWarm(warming, given.WarmLag, leader)
	g.over()
	g.toldWait = false // whoever hears of an assignment waits for nothing any more
	g.log.Info("assigned", "generation", a.Generation, "member", a.MemberID, "leader", leader,
		"active", len(a.Active), "standby", len(a.Standby), "warming up", len(warming), "revoked", owned-len(a.Active))
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
		if g.owned[t] == nil { // one that was parting may have a claim of ours
			g.owned[t] = &ownedTask{}
			if was := g.parting[t]; was != nil {
				*g.owned[t] = ownedTask{out: true, sent: was.sent, wrote: was.wrote}
				delete(g.parting, t)
			}
		}
		g.owned[t].active = true
	}
	released := slices.ContainsFunc(g.claimed, func(t Task) bool { return g.owned[t] == nil })
	if !g.urgent && !released {
		g.follow = time.Time{}
	}
}
