package groupsim

import (
	"github.com/pillion/pillion/assignor"
	"github.com/pillion/pillion/session"
)

// copies are those that the next JoinGroup tells of.
func (s *sidecar) copies() []session.Copy {
	return s.machine.Copies(func(stream uint32) int64 {
		if l := s.lanes[stream]; l != nil && l.replay != nil {
			return l.replay.log.end() - l.replay.pos
		}
		return -1
	})
}

// claimsOf are the claims that the leader reads where members declare a set differently.
func (m *member) claimsOf(assignor.Input) map[assignor.Task]assignor.Claim { return nil }
