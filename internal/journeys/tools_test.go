//go:build kafka

package journeys

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/internal/kafkatest/kafkaproc"
)

// Kafka's own kafka-consumer-groups shows the group as any other: its member, each partition with
// position, end and lag.
func TestConsumerGroupsToolDescribesTheGroup(t *testing.T) {
	t.Parallel()
	j := newJob(t, oneBroker(t), 3)
	j.load(0, 300)
	s := j.pair()
	j.finish()
	j.ask("records", "stop") // so that there is a lag
	j.load(300, 33)
	s.wait("at", "point", "records")
	member := s.wait("group stable").str("member")

	table := describeGroup(t, j.addrs[0], j.group)
	for p := range j.partitions {
		row := table[fmt.Sprintf("%s/%d", j.in, p)]
		if row == nil || row[0] != "100" || row[1] != "111" || row[2] != "11" || row[3] != member {
			t.Errorf("partition %d: position, end, lag, member are %v, want 100, 111, 11, %s", p, row, member)
		}
	}
	if g := kafkatest.GroupState(t, j.addrs, j.group); g.State != "Stable" || len(g.Members) != 1 {
		t.Errorf("the group is %s with %d members", g.State, len(g.Members))
	}
	s.kill()
}

var spaces = regexp.MustCompile(` +`)

// describeGroup runs the tool. By "topic/partition": position, end, lag, member.
func describeGroup(t *testing.T, addr, group string) map[string][]string {
	t.Helper()
	tool, err := kafkaproc.Tool(t.Context(), kafkaproc.Latest, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
		"--bootstrap-server", addr, "--describe", "--group", group, "--timeout", "60000")
	if err != nil {
		t.Fatal(err)
	}
	out, err := tool.CombinedOutput()
	if err != nil {
		t.Fatalf("kafka-consumer-groups: %v\n%s", err, out)
	}
	table := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		f := spaces.Split(strings.TrimSpace(line), -1) // GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID ...
		if len(f) >= 7 && f[0] == group {
			table[f[1]+"/"+f[2]] = f[3:]
		}
	}
	if len(table) == 0 {
		t.Fatalf("kafka-consumer-groups shows nothing:\n%s", out)
	}
	return table
}
