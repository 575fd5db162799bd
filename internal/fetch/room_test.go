package fetch

import (
	"testing"
	"testing/synctest"
	"time"
)

// A buffer is only taken away from a pump that waits when that gives room: it has to be fetched again.
func TestOnlyBuffersThatGiveRoomAreTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(100, newFreeList(1<<20))
		hold := func(free int64, size int) *buffer {
			b := r.buffer(&grant{room: r, free: free}, size)
			if b == nil {
				t.Fatalf("no room for %d bytes", size)
			}
			r.offer(b)
			return b
		}
		small := hold(512, 400)
		large, other := hold(512, 572), hold(512, 552) // 60 and 40 of the room
		if r.excess(50) {
			t.Error("a buffer was taken away at once")
		}
		time.Sleep(stalled)
		if !r.excess(50) {
			t.Error("there is no room after a while")
		}
		if !r.reclaim(small) || r.reclaim(large) || !r.reclaim(other) {
			t.Errorf("taken away: small %v, large %v, other %v; want the large one", small.evicted, large.evicted, other.evicted)
		}
		if held := r.held(); held != 90 {
			t.Errorf("%d bytes held, want 90", held)
		}
	})
}
