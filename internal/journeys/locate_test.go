//go:build kafka

package journeys

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/pillion/pillion/internal/kafkatest"
)

// Two pairs tell each other who holds what, by the addresses that their workers advertise; after `pillion
// drain` of one the other has everything, and both know.
func TestWhereAKeyIs(t *testing.T) {
	t.Parallel()
	addrs, topic := oneBroker(t), "located-"+t.Name()
	kafkatest.CreateTopic(t, addrs, topic, 2, nil)
	var at [2]place
	var pairs [2]*sidecar
	for i := range pairs {
		at[i] = newPlace(t)
		pairs[i] = at[i].run(t, addrs, nil, "--group-id", t.Name(), "--num-standby-replicas", "1", "--",
			python(t), "testdata/locate.py", topic, fmt.Sprintf("10.0.0.%d:80", i))
	}
	said := func(p *sidecar, partition int, fields ...any) {
		t.Helper()
		fields = append(fields, "task", fmt.Sprintf("job/%d", partition), "stale", false)
		p.waitFor(0, fmt.Sprint(fields), func(e entry) bool { return e.is("located", fields...) })
	}
	// One partition each, and the other's copy. Which of them, the first one tells.
	first := 0
	shared := func(e entry) bool {
		return e.is("located", "task", "job/0", "stale", false) && e.str("active") != "" && e.str("standbys") != "" && e.str("active") != e.str("standbys")
	}
	if pairs[0].waitFor(0, "both pairs hold job/0", shared).str("active") == "10.0.0.1:80" {
		first = 1
	}
	for _, p := range pairs {
		said(p, first, "active", "10.0.0.0:80", "standbys", "10.0.0.1:80")
		said(p, 1-first, "active", "10.0.0.1:80", "standbys", "10.0.0.0:80")
	}
	out, err := exec.Command(binary(t), "drain", "--listen", pairs[0].url, "--token-file", pairs[0].token).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if code := pairs[0].exit(); code != 0 {
		t.Errorf("the pair that was drained exits with %d\n%s", code, pairs[0].tail(20))
	}
	for partition := range 2 {
		said(pairs[1], partition, "active", "10.0.0.1:80", "standbys", "")
	}
	if code := pairs[1].stop(); code != 0 {
		t.Errorf("exit code %d\n%s", code, pairs[1].tail(20))
	}
}
