package groupclient

import (
	"context"
	"testing"

	"github.com/pillion/pillion/internal/kafka"
)

type topicsNow map[string]kafka.Topic

func (t topicsNow) Refresh(context.Context, ...string) (map[string]kafka.Topic, error) { return t, nil }

func TestTopicsThatHaveChangedAreSaid(t *testing.T) {
	p := Prepared{
		Sets: []PreparedSet{{Name: "s", Sources: []string{"in"}, Partitions: 2, Tables: []PreparedTable{
			{Name: "t", Topic: "g-t-changelog"}, {Name: "u", Topic: "up", Source: true}}}},
		Globals:  []PreparedGlobal{{"all", "world", 3}},
		Outputs:  []string{"out"},
		TopicIDs: map[string][16]byte{"in": {1}, "g-t-changelog": {2}, "up": {3}, "world": {4}, "out": {5}},
	}
	topic := func(id byte, partitions int) kafka.Topic {
		return kafka.Topic{ID: [16]byte{id}, Partitions: make([]kafka.Partition, partitions)}
	}
	for want, change := range map[string]func(topicsNow){
		"": func(n topicsNow) {
			n["out"] = topic(9, 9) // any partition of an output will do
			n["up"] = kafka.Topic{Err: &kafka.Error{Code: 3}}
			n["g-t-changelog"] = topic(0, 2) // no topic ids
		},
		`topic "in" has 4 partitions now, and had 2`:    func(n topicsNow) { n["in"] = topic(1, 4) },
		`topic "world" has 4 partitions now, and had 3`: func(n topicsNow) { n["world"] = topic(4, 4) },
		`topic "up" has 3 partitions now, and had 2`:    func(n topicsNow) { n["up"] = topic(3, 3) },
		`topic "g-t-changelog" was created anew`:        func(n topicsNow) { n["g-t-changelog"] = topic(7, 2) },
	} {
		now := topicsNow{"in": topic(1, 2), "g-t-changelog": topic(2, 2), "up": topic(3, 2), "world": topic(4, 3), "out": topic(5, 1)}
		change(now)
		if got, err := p.Changed(t.Context(), now); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if got, err := (Prepared{}).Changed(t.Context(), topicsNow{}); got != "" || err != nil {
		t.Errorf("of nothing: %q, %v", got, err)
	}
}
