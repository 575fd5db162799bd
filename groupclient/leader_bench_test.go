package groupclient

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/assignor"
)

// BenchmarkPlan is the leader's whole part of a generation, without Kafka: 1,000 members of which one has
// left, 10,000 tasks, a standby each.
func BenchmarkPlan(b *testing.B) {
	const members, partitions = 1_000, 10_000
	set := assignor.Set{Sources: []string{"orders-of-the-north-west"}, Tables: []assignor.Table{{Name: "t", Changelog: "orders-of-the-north-w-log"}}}
	joined := kmsg.NewPtrJoinGroupResponse()
	for i := range members {
		s := assignor.Subscription{Sets: []assignor.Set{set}, Generation: 7, Address: fmt.Sprintf("worker-%04d.example.internal:7420", i)}
		for p := range int32(partitions / members) {
			own := assignor.Task{Set: set.Key(), Partition: p*members + int32(i)}
			s.Owned = append(s.Owned, own)
			s.Copies = append(s.Copies, assignor.Copy{Task: assignor.Task{Set: set.Key(), Partition: p*members + int32((i+1)%members)}, Lag: int64(p)})
		}
		metadata, err := assignor.EncodeSubscription(s)
		if err != nil {
			b.Fatal(err)
		}
		m := kmsg.NewJoinGroupResponseMember()
		m.MemberID, m.ProtocolMetadata = fmt.Sprintf("pillion-%036d", i), metadata
		if i > 0 {
			joined.Members = append(joined.Members, m)
		}
	}
	model := newModel()
	model.topic(set.Sources[0], partitions, 1)
	g := newGroup(Config{Group: "g", Replicas: new(1)}, model, newRecorder())
	for b.Loop() {
		assignments, _, err := g.plan(b.Context(), joined)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(recordOf(joined, assignments))/(members-1), "B/member")
	}
}
