package groupmodel

import "slices"

func (c *Coordinator) joinGroup(to Token, r JoinGroup) {
	refuse := func(code int16) { c.answer(Answer{To: to, Code: code, Member: r.Member, Generation: -1}) }
	switch {
	case r.Session < c.cfg.MinSession || r.Session > c.cfg.MaxSession:
		refuse(InvalidSessionTimeout)
		return
	case c.state == Dead && r.Member != "":
		refuse(UnknownMember)
		return
	case c.state == Dead:
		c.become(Empty)
	}
	switch {
	case !c.accepts(r.Member):
		c.remove(r.Member)
		refuse(GroupFull)
	case r.Member != "":
		c.joinAgain(to, r)
	case r.Instance != "":
		r.Member = c.newID()
		if old := c.static(r.Instance); old != nil {
			c.replace(to, old, r)
		} else {
			c.add(to, r)
		}
	default:
		id := c.newID()
		c.pending = append(c.pending, id)
		c.schedule(sessionTimer(id), r.Session, func() { c.sessionEnds(id) })
		c.answer(Answer{To: to, Code: MemberIDRequired, Member: id, Generation: -1})
	}
}

// accepts: group.max.size.
func (c *Coordinator) accepts(id string) bool {
	if c.cfg.MaxSize == 0 {
		return true
	}
	m := c.member(id)
	switch c.state {
	case Preparing:
		joining := 0
		for _, m := range c.members {
			if m.joining != 0 {
				joining++
			}
		}
		return m != nil && m.joining != 0 || joining < c.cfg.MaxSize
	case Completing, Stable:
		return m != nil || len(c.members) < c.cfg.MaxSize
	default:
		return true
	}
}

// joinAgain is a JoinGroup with a member id.
func (c *Coordinator) joinAgain(to Token, r JoinGroup) {
	if slices.Contains(c.pending, r.Member) {
		c.add(to, r)
		return
	}
	if code := c.known(r.Member, r.Instance); code != OK {
		c.answer(Answer{To: to, Code: code, Member: r.Member, Generation: -1})
		return
	}
	m := c.member(r.Member)
	same := m.metadata == r.Metadata
	switch {
	case c.state == Completing && same:
		c.answer(c.joined(to, m))
	case c.state == Stable && same && m.id != c.leader:
		c.answer(c.joined(to, m))
	default:
		c.update(to, m, r)
		c.rebalance()
	}
}

func (c *Coordinator) add(to Token, r JoinGroup) {
	c.pending = slices.DeleteFunc(c.pending, func(id string) bool { return id == r.Member })
	m := &member{id: r.Member, instance: r.Instance, fresh: true}
	if c.leader == "" {
		c.leader = m.id
	}
	c.members = append(c.members, m)
	c.update(to, m, r)
	c.schedule(sessionTimer(m.id), newMemberJoin, func() { c.sessionEnds(m.id) })
	c.rebalance()
}

func (c *Coordinator) update(to Token, m *member, r JoinGroup) {
	m.metadata, m.session, m.rebalance, m.joining = r.Metadata, r.Session, r.Rebalance, to
}

// replace: a static member has come back without its id. Its old one is fenced.
func (c *Coordinator) replace(to Token, m *member, r JoinGroup) {
	was, leader := m.id, c.leader
	c.answer(Answer{To: m.joining, Code: FencedInstance, Member: was, Generation: -1})
	c.answer(Answer{To: m.syncing, Code: FencedInstance})
	m.id, m.joining, m.syncing = r.Member, 0, 0
	if leader == was {
		c.leader = m.id
	}
	if c.unsynced[was] {
		delete(c.unsynced, was)
		c.unsynced[m.id] = true
	}
	c.touch(m)
	c.update(to, m, r)
	switch {
	case c.state == Stable:
		c.save()
		a := c.joined(to, m)
		if !r.KnowsSkip {
			a.Leader, a.Members = leader, nil
		} else {
			a.Skip = m.id == c.leader
		}
		m.joining = 0
		c.answer(a)
	case c.state == Completing:
		c.prepare()
	default:
		c.maybeComplete()
	}
}

// joined is the answer to a JoinGroup of the newest generation.
func (c *Coordinator) joined(to Token, m *member) Answer {
	a := Answer{To: to, Member: m.id, Leader: c.leader, Generation: c.generation}
	if m.id == c.leader {
		for _, m := range c.members {
			a.Members = append(a.Members, Joined{m.id, m.instance, m.metadata})
		}
	}
	return a
}

// rebalance begins a rebalance, or goes on with the one under way.
func (c *Coordinator) rebalance() {
	if c.state == Preparing {
		c.maybeComplete()
	} else {
		c.prepare()
	}
}

// prepare begins a rebalance. The first one of an empty group ends at once, but not within the request.
func (c *Coordinator) prepare() {
	if c.state == Completing {
		for _, m := range c.members {
			m.plan = ""
		}
		c.propagate(Rebalancing)
	}
	clear(c.unsynced)
	c.cancel(syncTimer)
	first := c.state == Empty
	c.become(Preparing)
	switch {
	case first:
		c.schedule(joinTimer, 0, c.complete)
	case c.allJoined():
		c.complete()
	default:
		c.schedule(joinTimer, c.limit(), c.complete)
	}
}

func (c *Coordinator) maybeComplete() {
	if c.state == Preparing && c.allJoined() && c.before != Empty {
		c.complete()
	}
}

func (c *Coordinator) allJoined() bool {
	for _, m := range c.members {
		if m.joining == 0 {
			return false
		}
	}
	return len(c.pending) == 0
}

// complete ends the joining: who has not joined again is dropped, static members are not.
func (c *Coordinator) complete() {
	c.cancel(joinTimer)
	for _, m := range slices.Clone(c.members) {
		if m.joining == 0 && m.instance == "" {
			c.remove(m.id)
			c.cancel(sessionTimer(m.id))
		}
	}
	if !c.elect() && len(c.members) > 0 {
		c.schedule(joinTimer, c.limit(), c.complete)
		return
	}
	c.generation++
	if len(c.members) == 0 {
		c.become(Empty)
		c.save()
		return
	}
	c.become(Completing)
	for _, m := range c.members {
		c.answer(c.joined(m.joining, m))
		m.joining, m.fresh = 0, false
		c.touch(m)
		c.unsynced[m.id] = true
	}
	generation := c.generation
	c.schedule(syncTimer, c.limit(), func() { c.syncEnds(generation) })
}

// elect: the leader stays while it has joined.
func (c *Coordinator) elect() bool {
	if m := c.member(c.leader); m == nil || m.joining == 0 {
		for _, m := range c.members {
			if c.leader != "" && m.joining != 0 {
				c.leader = m.id
				return true
			}
		}
		return false
	}
	return true
}

// remove forgets a member. Which one leads after the leader is gone is up to Kafka's hash table; here it
// is the one that came first.
func (c *Coordinator) remove(id string) {
	c.pending = slices.DeleteFunc(c.pending, func(p string) bool { return p == id })
	c.members = slices.DeleteFunc(c.members, func(m *member) bool { return m.id == id })
	delete(c.unsynced, id)
	if c.leader == id {
		c.leader = ""
		if len(c.members) > 0 {
			c.leader = c.members[0].id
		}
	}
}
