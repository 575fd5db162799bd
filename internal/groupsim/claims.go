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
func (m *member) claimsOf(in assignor.Input) map[assignor.Task]assignor.Claim {
	if !differs(in) {
		return nil
	}
	k := m.w.kafka
	claims := map[assignor.Task]assignor.Claim{}
	for _, t := range k.order {
		text := k.group.Committed(t.source).Metadata
		if text == "" {
			continue
		}
		c := assignor.Claim{Sources: []string{t.id.Set}}
		for _, table := range k.parse(text).tables {
			c.Changelogs = append(c.Changelogs, topicOf(t.id.Set, table))
		}
		claims[assignor.Task{Set: t.id.Set, Partition: t.id.Partition}] = c
	}
	return claims
}

func differs(in assignor.Input) bool {
	first := map[string]int{}
	for _, member := range in.Members {
		for _, set := range member.Sets {
			if n, ok := first[set.Key()]; ok && n != len(set.Tables) {
				return true
			}
			first[set.Key()] = len(set.Tables)
		}
	}
	return false
}
