package fetch

import (
	"math/bits"
	"slices"
	"sync"
	"time"
)

// stalled is how long a pump must have waited for its sink before its buffer is taken away.
const stalled = 250 * time.Millisecond

// room counts the raw bytes that are held beyond the partitions' own shares. See the package
// comment for the scheme.
//
// INVARIANT: used never passes limit.
type room struct {
	limit int64

	free    *freeList
	mu      sync.Mutex
	used    int64
	refused bool      // somebody was sent away: call freed when there is room again
	freed   func()    // set before use
	offered []*buffer // of pumps that wait for their sinks, longest first
	waking  bool      // freed will be called when the next of them may be taken
}

func newRoom(limit int64, free *freeList) *room {
	return &room{limit: limit, free: free, freed: func() {}}
}

// take takes n bytes of the room when, with them, no more than most are used.
func (r *room) take(n, most int64) bool {
	if n <= 0 {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used+n > most {
		r.refused = true
		return false
	}
	r.used += n
	return true
}

// ahead takes room for a partition's second buffer. Half of the room is never used for that.
func (r *room) ahead(n int64) bool { return r.take(n, r.limit/2) }

// excess takes room for what a batch is larger than its share. When there is none, it takes buffers
// away from pumps that have waited for their sinks for some time.
func (r *room) excess(n int64) bool {
	if n <= 0 || r.take(n, r.limit) {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.evict(n)
	if r.used+n > r.limit {
		r.refused = true
		r.lookLater()
		return false
	}
	r.used += n
	return true
}

// evict takes buffers away until n bytes fit, if they can be made to fit; under mu.
func (r *room) evict(n int64) {
	old := int64(0)
	for _, b := range r.offered {
		if time.Since(b.since) >= stalled {
			old += b.taken
		}
	}
	if r.used-old+n > r.limit {
		return
	}
	for i := 0; r.used+n > r.limit; {
		b := r.offered[i]
		if b.taken == 0 { // within its partition's share: it would give no room
			i++
			continue
		}
		r.offered = slices.Delete(r.offered, i, i+1)
		r.used -= b.taken
		r.free.put(b.b)
		b.b, b.taken, b.evicted = nil, 0, true
	}
}

// lookLater calls freed when buffers that are on offer now may be taken; under mu.
func (r *room) lookLater() {
	if r.refused && len(r.offered) > 0 && !r.waking {
		r.waking = true
		time.AfterFunc(stalled, r.look)
	}
}

func (r *room) look() {
	r.mu.Lock()
	r.waking = false
	r.lookLater() // for those that were offered in between
	r.mu.Unlock()
	r.freed()
}

// offer lets others take the room of a buffer, and with it the buffer, until reclaim.
func (r *room) offer(b *buffer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b.since = time.Now()
	r.offered = append(r.offered, b)
	r.lookLater()
}

// reclaim ends an offer and says whether the buffer is still there.
func (r *room) reclaim(b *buffer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.offered, b); i >= 0 {
		r.offered = slices.Delete(r.offered, i, i+1)
	}
	return !b.evicted
}

func (r *room) give(n int64) {
	if n <= 0 {
		return
	}
	r.mu.Lock()
	r.used -= n
	wake := r.refused
	r.refused = false
	r.mu.Unlock()
	if wake {
		r.freed()
	}
}

// held is how much is used now.
func (r *room) held() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

// grant is what one buffer may be large, taken before its request is sent.
type grant struct {
	room   *room
	second bool  // the partition has a buffer already
	free   int64 // bytes of the partition's own share, which cost nothing
	taken  int64 // bytes of the room
}

// end gives back what was taken and not used.
func (g *grant) end() {
	if g.room != nil {
		g.room.give(g.taken)
	}
	g.taken = 0
}

// buffer is the record bytes of one partition of one response.
type buffer struct {
	b     []byte
	room  *room
	taken int64

	since   time.Time // that it has been on offer
	evicted bool      // b is nil then
}

// buffer makes a buffer within the grant, or with more of the room. It is nil when there is none.
// What the grant has left over is given back.
func (r *room) buffer(g *grant, size int) *buffer {
	need := int64(size) - g.free
	if more := need - g.taken; more > 0 {
		// What a second buffer gets must leave room for the first ones.
		if g.second && !r.ahead(more) || !g.second && !r.excess(more) {
			return nil
		}
		g.taken += more
	}
	buf := &buffer{b: r.free.get(size), room: r, taken: max(need, 0)}
	g.taken -= buf.taken
	g.end()
	return buf
}

// class rounds a size up by at most a quarter, to one of few sizes, and numbers them.
func class(size int) (index, capacity int) {
	size = max(size, 512)
	e := bits.Len(uint(size-1)) - 1
	step := 1 << (e - 2)
	capacity = (size + step - 1) / step * step
	return 4*e + (capacity-1)/step - 4, capacity
}

// done gives the buffer back for others to use. Nothing may look at its bytes any more.
func (b *buffer) done() {
	b.room.free.put(b.b)
	b.drop()
}

// drop gives back the room, but not the memory: a connection may still write to it.
func (b *buffer) drop() {
	b.room.give(b.taken)
	b.b, b.taken = nil, 0
}
