package fetch

import (
	"math/bits"
	"sync"
)

// room counts the raw bytes that are held beyond the partitions' own shares. See the package
// comment for the scheme.
//
// INVARIANT: used never passes limit, except by one batch larger than it when nothing else is held.
type room struct {
	limit int64

	free    *freeList
	mu      sync.Mutex
	used    int64
	refused bool   // somebody was sent away: call freed when there is room again
	freed   func() // set before use

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

// excess takes room for what a batch is larger than its share.
func (r *room) excess(n int64) bool { return r.take(n, r.limit) }

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
	room  *room
	free  int64 // bytes of the partition's own share, which cost nothing
	taken int64 // bytes of the room
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
}

// buffer makes a buffer within the grant, or with more of the room. It is nil when there is none.
// What the grant has left over is given back.
func (r *room) buffer(g *grant, size int) *buffer {
	need := int64(size) - g.free
	if more := need - g.taken; more > 0 {
		if !r.excess(more) {
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
