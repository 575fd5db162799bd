package session

import "testing"

// INVARIANT: a store takes no checkpoint past rows that it has not seen.
func TestAForeignWriteInTheChangelogOpensTheTaskAnew(t *testing.T) {
	s := running(t) // its changelog ends at 5
	land := func(next int64, foreign bool) Produced {
		p := s.produced(task0, isOK)
		p.Landed = map[string]Landed{"t": {Checkpoint: "v1:x", Next: next, Foreign: foreign}}
		return p
	}
	s.on(s.commit(1, 1, 20, true), "produce s/0")
	s.on(land(6, false), "positions s/0 map[in:20]")
	s.on(s.positioned(task0, isOK), "send 1 committed s/0 1 1")
	s.on(s.commit(2, 1, 30, true), "produce s/0")
	s.on(s.commit(3, 1, 40, true))
	s.on(land(10, true), "positions s/0 map[in:30]") // 6 to 8 are somebody else's
	s.on(s.positioned(task0, isOK), "send 1 unknown s/0 1 2 foreign_write",
		"send 1 aborted s/0 1 3 commit_failed", "send 1 lost s/0 1 commit_failed", "take over s/0")
	s.on(s.took(task0, map[string]int64{"in": 30}, map[string]int64{"t": 10}), "send 1 assign s/0 2")
}
