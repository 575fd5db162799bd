package session

import (
	"testing"

	"github.com/pillion/pillion/protocol"
)

// A worker whose topics have changed connects again; what it had committed ends as always.
func TestTopicsThatHaveChangedAreCheckedAnew(t *testing.T) {
	s := running(t)
	s.on(s.commit(1, 1, 20, true), "produce s/0")
	s.on(TopicsChanged{Message: `topic "in" has 2 partitions now, and had 1`}, "close 1 1001")
	s.on(Disconnected{Conn: 1})
	s.on(TopicsChanged{Message: "nobody is there"})
	s.on(Connected{Conn: 2, Hello: protocol.Hello{ID: 1}}, "send 2 welcome 1", "prepare")
	s.on(TopicsChanged{Message: "they are being checked"})
	grown := oneTable
	grown.Sets = []PreparedSet{oneTable.Sets[0]}
	grown.Sets[0].Partitions++
	s.on(PreparedOK{Conn: 2, Prepared: grown}) // not before the commit has ended
	s.on(s.produced(task0, Result{}), "positions s/0 map[in:20]")
	s.on(PositionsCommitted{Task: task0, Op: s.ops["commits/0"]}, "join", "take over s/0")
}
