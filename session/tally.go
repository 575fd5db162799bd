package session

// tally counts commits that are not at their ends, by the connection that made them. A look at every
// task would cost the square of their number when all of them wait to be opened.
type tally struct {
	all int
	by  map[ConnID]int
}

func (c *tally) add(conn ConnID, n int) {
	c.all += n
	if c.by[conn] += n; c.by[conn] == 0 {
		delete(c.by, conn)
	}
}

// others are those of every connection but this one.
func (c *tally) others(conn ConnID) int { return c.all - c.by[conn] }

// orphan is a step of Kafka that nobody waits for any more, but that may still take effect.
type orphan struct {
	task  TaskID
	conn  ConnID // whose commit it is; 0: of none
	doubt bool   // writes that were answered as unknown and may still land
}

func (m *Machine) addOrphan(op int64, o orphan) {
	m.orphans[op] = o
	m.orphanOf[o.task]++
	if o.conn != 0 {
		m.unended.add(o.conn, 1)
	}
}

// ended: the step can take no effect any more.
func (m *Machine) ended(op int64) {
	o, ok := m.orphans[op]
	if !ok {
		return
	}
	delete(m.orphans, op)
	if m.orphanOf[o.task]--; m.orphanOf[o.task] == 0 {
		delete(m.orphanOf, o.task)
	}
	if o.conn != 0 {
		m.unended.add(o.conn, -1)
	}
}

// doubted says whether writes of the task may still land: whoever took it over would not see them.
func (m *Machine) doubted(id TaskID) bool {
	if m.orphanOf[id] == 0 {
		return false
	}
	for _, o := range m.orphans {
		if o.doubt && o.task == id {
			return true
		}
	}
	return false
}
