package groupmodel

import (
	"slices"
	"time"
)

func (c *Coordinator) syncGroup(to Token, r SyncGroup) {
	code := OK
	switch {
	case c.state == Dead || c.state == Empty:
		code = UnknownMember
	case c.known(r.Member, r.Instance) != OK:
		code = c.known(r.Member, r.Instance)
	case r.Generation != c.generation:
		code = IllegalGeneration
	case c.state == Preparing:
		code = Rebalancing
	}
	if code != OK {
		c.answer(Answer{To: to, Code: code})
		return
	}
	m := c.member(r.Member)
	delete(c.unsynced, m.id)
	if len(c.unsynced) == 0 {
		c.cancel(syncTimer)
	}
	if c.state == Stable {
		c.answer(Answer{To: to, Plan: m.plan})
		return
	}
	m.syncing = to
	if m.id != c.leader {
		return
	}
	for _, m := range c.members {
		m.plan = r.Plan[m.id]
	}
	c.become(Stable)
	c.save()
	c.propagate(OK)
}

// propagate answers every SyncGroup.
func (c *Coordinator) propagate(code int16) {
	for _, m := range c.members {
		if m.syncing != 0 {
			c.answer(Answer{To: m.syncing, Code: code, Plan: m.plan})
			m.syncing = 0
			c.touch(m)
		}
	}
}

// syncEnds drops who has not asked for the plan.
func (c *Coordinator) syncEnds(generation int32) {
	if generation != c.generation || c.state != Completing && c.state != Stable || len(c.unsynced) == 0 {
		return
	}
	for _, id := range c.Members() {
		if c.unsynced[id] {
			c.remove(id)
			c.cancel(sessionTimer(id))
		}
	}
	c.prepare()
}

func (c *Coordinator) heartbeat(r Heartbeat) int16 {
	if c.state == Dead {
		return UnknownMember
	}
	if code := c.known(r.Member, r.Instance); code != OK {
		return code
	}
	switch {
	case r.Generation != c.generation:
		return IllegalGeneration
	case c.state == Empty:
		return UnknownMember
	}
	c.touch(c.member(r.Member))
	if c.state == Preparing {
		return Rebalancing
	}
	return OK
}

// touch restarts the session timeout of a member.
func (c *Coordinator) touch(m *member) {
	c.schedule(sessionTimer(m.id), m.session, func() { c.sessionEnds(m.id) })
}

// sessionEnds drops a member, unless it waits for an answer of ours.
func (c *Coordinator) sessionEnds(id string) {
	if slices.Contains(c.pending, id) {
		c.remove(id)
		c.afterRemoval(false)
		return
	}
	m := c.member(id)
	if m == nil || !m.fresh && (m.joining != 0 || m.syncing != 0) {
		return
	}
	c.answer(Answer{To: m.joining, Code: UnknownMember, Generation: -1})
	c.remove(id)
	c.afterRemoval(true)
}

// afterRemoval goes on without a member; one that only had an id changes nothing in a group at rest.
func (c *Coordinator) afterRemoval(member bool) {
	switch {
	case c.state == Preparing && c.allJoined():
		c.complete()
	case member && (c.state == Stable || c.state == Completing):
		c.prepare()
	}
}

func (c *Coordinator) leave(r LeaveGroup) int16 {
	id := r.Member
	if id == "" {
		m := c.static(r.Instance)
		if m == nil {
			return UnknownMember
		}
		id = m.id
	} else if !slices.Contains(c.pending, id) {
		if code := c.known(id, r.Instance); code != OK {
			return code
		}
	}
	c.cancel(sessionTimer(id))
	if m := c.member(id); m != nil {
		c.answer(Answer{To: m.joining, Code: UnknownMember, Generation: -1})
	}
	c.remove(id)
	return OK
}

// left goes on after a LeaveGroup that was answered.
func (c *Coordinator) left() {
	if a := c.out[len(c.out)-1]; a.Code != OK {
		return
	}
	switch c.state {
	case Stable, Completing:
		c.prepare()
	case Preparing:
		c.maybeComplete()
	}
}

// limit is the rebalance timeout of the group: the longest of its members'.
func (c *Coordinator) limit() time.Duration {
	var most time.Duration
	for _, m := range c.members {
		most = max(most, m.rebalance)
	}
	return most
}
