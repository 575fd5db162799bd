package groupmodel

import "time"

// record is the group as it was stored last: with a plan, when a static member came back, or empty.
type record struct {
	exists     bool
	generation int32
	leader     string
	members    []member
}

// save stores the group.
func (c *Coordinator) save() {
	c.saved = record{exists: true, generation: c.generation, leader: c.leader}
	for _, m := range c.members {
		stored := *m
		stored.joining, stored.syncing, stored.fresh = 0, 0, false
		c.saved.members = append(c.saved.members, stored)
	}
}

// Node is where the coordinator is. A request that was sent to another node is answered with 16.
func (c *Coordinator) Node() int32 { return c.node }

// Move takes the coordinator to another node: what waits is answered with 16, and what was not stored is
// forgotten. Loading takes some time, in which everything is answered with 14.
func (c *Coordinator) Move(now time.Time, loading time.Duration) []Answer {
	c.begin(now)
	for _, m := range c.members {
		c.answer(Answer{To: m.joining, Code: NotCoordinator, Generation: -1})
		c.answer(Answer{To: m.syncing, Code: NotCoordinator})
	}
	c.node++
	c.loading = now.Add(loading)
	c.timers, c.members, c.pending = nil, nil, nil
	clear(c.unsynced)
	c.generation, c.leader = c.saved.generation, c.saved.leader
	switch {
	case c.saved.exists && len(c.saved.members) > 0:
		c.become(Stable)
	case c.saved.exists || len(c.offsets) > 0 || len(c.open) > 0:
		c.become(Empty)
	default:
		c.become(Dead)
	}
	for _, stored := range c.saved.members {
		m := stored
		c.members = append(c.members, &m)
		c.schedule(sessionTimer(m.id), loading+m.session, func() { c.sessionEnds(m.id) })
	}
	return c.out
}
