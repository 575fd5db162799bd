package groupmodel

import "maps"

func (c *Coordinator) offsetCommit(r OffsetCommit) int16 {
	code := c.mayCommit(r.Member, r.Instance, r.Generation, false)
	if code != OK {
		return code
	}
	if m := c.member(r.Member); m != nil && (c.state == Stable || c.state == Preparing) {
		c.touch(m)
	}
	maps.Copy(c.offsets, c.written(r.Offsets))
	return OK
}

// written are offsets with their place among all.
func (c *Coordinator) written(offsets map[Partition]Offset) map[Partition]written {
	c.writes++
	out := make(map[Partition]written, len(offsets))
	for p, o := range offsets {
		out[p] = written{o, c.writes}
	}
	return out
}

// mayCommit: in a transaction it is not the business of the rebalance.
func (c *Coordinator) mayCommit(id, instance string, generation int32, transaction bool) int16 {
	if c.state == Dead {
		if generation >= 0 {
			if transaction {
				return IllegalGeneration
			}
			return GroupNotFound
		}
		c.become(Empty)
	}
	switch {
	case generation < 0 && c.state == Empty:
		return OK
	case generation >= 0 || id != "" || instance != "":
		if code := c.known(id, instance); code != OK {
			return code
		}
		if generation != c.generation {
			return IllegalGeneration
		}
	case !transaction:
		return UnknownMember
	}
	if !transaction && c.state == Completing {
		return Rebalancing
	}
	return OK
}

func (c *Coordinator) txnOffsetCommit(r TxnOffsetCommit) int16 {
	code := c.mayCommit(r.Member, r.Instance, r.Generation, true)
	if code != OK {
		return code
	}
	if c.open[r.Transaction] == nil {
		c.open[r.Transaction] = map[Partition]written{}
	}
	maps.Copy(c.open[r.Transaction], c.written(r.Offsets))
	return OK
}

// endTxn is the end of a transaction. An offset that was written since is the newer one and stays.
func (c *Coordinator) endTxn(r EndTxn) {
	for p, o := range c.open[r.Transaction] {
		if r.Commit && o.order > c.offsets[p].order {
			c.offsets[p] = o
		}
	}
	delete(c.open, r.Transaction)
}

func (c *Coordinator) offsetFetch(to Token, r OffsetFetch) Answer {
	a := Answer{To: to, Offsets: map[Partition]Offset{}}
	for _, p := range r.Partitions {
		for _, offsets := range c.open {
			if _, ok := offsets[p]; ok && r.Stable {
				return Answer{To: to, Code: UnstableOffset}
			}
		}
		a.Offsets[p] = c.Committed(p)
	}
	return a
}

func (c *Coordinator) deleteGroup() int16 {
	switch {
	case c.state == Dead:
		return GroupNotFound
	case c.state != Empty:
		return NonEmptyGroup
	}
	c.become(Dead)
	c.generation, c.leader, c.saved = 0, "", record{}
	clear(c.offsets)
	return OK
}
