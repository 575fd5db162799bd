package session

import "github.com/pillion/pillion/protocol"

// TopicsChanged: the topics of the declaration are not those that Prepare has checked.
type TopicsChanged struct{ Message string }

// topicsChanged: the worker comes again, and what it declares is checked anew. Its commits end as always.
func (m *Machine) topicsChanged(ev TopicsChanged) {
	if w := m.worker; w != nil && w.prepared {
		m.log("warn", "the declared topics have changed: the worker has to connect again", "error", ev.Message)
		m.do(CloseConn{Conn: w.conn, Code: protocol.CloseGoingAway, Reason: "the declared topics have changed"})
		m.workerGone()
	}
}
