package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A request that was written to a connection which was lost may have been carried out, or may yet be.
func TestARepeatedRequestIsToldOf(t *testing.T) {
	k := newCluster(t)
	c := k.client(t)
	call := func(key kmsg.Key) bool {
		ctx, tries := CountTries(t.Context(), key)
		if _, err := c.Do(ctx, 1, listGroups()); err != nil {
			t.Fatal(err)
		}
		return tries.Repeated()
	}
	if call(kmsg.ListGroups) {
		t.Error("one that was answered at once counts as repeated")
	}
	k.wire.cut()
	if !call(kmsg.ListGroups) {
		t.Error("the connection was lost, and the request counts as written once")
	}
	k.wire.cut()
	if call(kmsg.Heartbeat) {
		t.Error("requests of another kind are counted")
	}
}
