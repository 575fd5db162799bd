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

// What is only told to others makes the group be joined again, and no task be opened anew.
func TestAnotherAddressIsTold(t *testing.T) {
	s := running(t)
	s.on(Disconnected{Conn: 1})
	s.on(Connected{Conn: 2, Hello: protocol.Hello{ID: 1}}, "send 2 welcome 1", "prepare")
	moved := oneTable
	moved.Address, moved.NoStandby = "10.0.0.7:8080", true
	s.on(PreparedOK{Conn: 2, Prepared: moved}, "join", "take over s/0")
	s.on(Assigned{Generation: 2, MemberID: "m", Active: []TaskID{task0}})
	s.on(s.took(task0, map[string]int64{"in": 10}, map[string]int64{"t": 5}), "send 2 assign s/0 2")
}
