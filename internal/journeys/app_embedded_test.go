//go:build kafka

package journeys

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pillion/pillion/internal/kafkatest"
)

// embedded is a pair whose worker is app_embedded.py, on the job's topic.
func (j *job) embedded(address string, keys []string, flags ...string) *sidecar {
	j.t.Helper()
	flags = append([]string{"--group-id", j.group}, flags...)
	command := append([]string{"--", python(j.t), script("app_embedded.py"), j.in, address}, keys...)
	return j.place.run(j.t, j.addrs, []string{"JOB_STATE=" + j.state}, append(flags, command...)...)
}

// Two programs run an app beside themselves. Each finds the rows of all partitions in it, its copies
// included, and each knows who owns a key; both see what changes, and who is left.
func TestAppEmbedded(t *testing.T) {
	t.Parallel()
	j := newApp(t, oneBroker(t), 2, "")
	other := *j
	other.place, other.state = newPlace(t), t.TempDir()
	keys := []string{"left", "right"}
	put := func(partition int32, value string) {
		kafkatest.Produce(t, j.addrs, j.in, []kafkatest.Record{kafkatest.KV(keys[partition], value).On(partition)})
	}
	// locate() places keys as producers do: left and right are in the partitions that murmur2 gives them.
	produced := kafkatest.Produce(t, j.addrs, j.in, []kafkatest.Record{kafkatest.KV("left", "1").On(kafkatest.ByKey), kafkatest.KV("right", "1").On(kafkatest.ByKey)})
	if produced[0].Partition != 0 || produced[1].Partition != 1 {
		t.Fatalf("left is in partition %d and right in %d", produced[0].Partition, produced[1].Partition)
	}
	one := j.embedded("10.0.0.1:80", keys, "--num-standby-replicas", "1")
	two := other.embedded("10.0.0.2:80", keys, "--num-standby-replicas", "1")
	pairs := map[string]*sidecar{"10.0.0.1:80": one, "10.0.0.2:80": two}

	first := one.waitFor(0, "each pair owns a key", func(e entry) bool {
		return e.is("looked") && e.str("owner left") != e.str("owner right") && pairs[e.str("owner left")] != nil && pairs[e.str("owner right")] != nil
	})
	owners := []any{"owner left", first.str("owner left"), "owner right", first.str("owner right")}
	for partition, key := range keys {
		owner := pairs[first.str("owner "+key)]
		owner.wait("active", "task", fmt.Sprintf("%s/%d", j.in, partition))
	}
	put(0, "2")
	put(1, "3")
	for _, p := range []*sidecar{one, two} {
		p.wait("ready")
		p.waitSince(0, "looked", append(slices.Clone(owners), "row left", "2", "row right", "3")...)
	}
	two.drain()
	if n := len(two.since(0, func(e entry) bool { return e.is("left") })); n != 1 {
		t.Errorf("the block was left %d times", n)
	}
	put(0, "4")
	put(1, "5")
	one.wait("looked", "owner left", "10.0.0.1:80", "owner right", "10.0.0.1:80", "row left", "4", "row right", "5")
	one.drain()
	j.appStores("latest", j.tables(), other.tables())
}

// When the app fails, the block in which it runs is cancelled, and the failure comes out of it.
func TestAppEmbeddedFails(t *testing.T) {
	t.Parallel()
	j := newApp(t, oneBroker(t), 1, "")
	j.produce(ofValues("good", "bad")...)
	s := j.embedded("", nil)
	if code := s.exit(); code != 5 {
		t.Errorf("exit code %d, want the program's own", code)
	}
	e := s.wait("failed", "cause", "ValueError('no good')")
	if want := fmt.Sprintf("on_record has failed at %s/0 offset 1: ", j.in); !strings.HasPrefix(e.str("message"), want) {
		t.Errorf("the block raises %q, want %q", e.str("message"), want)
	}
	if at := j.position(); at != 1 {
		t.Errorf("position %d, want 1", at)
	}
	if rows := kafkatest.ReadAll(t, j.addrs, j.changelogOf("latest"), true); len(rows) != 1 || string(rows[0].Value) != "good" {
		t.Errorf("the changelog has %v, want the good record alone", rows)
	}
}
