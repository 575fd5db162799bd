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

	mu      sync.Mutex
	used    int64
	refused bool   // somebody was sent away: call freed when there is room again
	freed   func() // set before use

	pools [128]sync.Pool // of *buffer, by class
	keep  int            // the largest buffer that is used again
}

func newRoom(limit int64, keep int) *room {
	return &room{limit: limit, keep: keep, freed: func() {}}
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
	full  []byte // all of its memory
	index int    // of its pool, -1: none
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
	buf := r.memory(size)
	buf.taken = max(need, 0)
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

func (r *room) memory(size int) *buffer {
	index, capacity := class(size)
	if capacity > r.keep {
		return &buffer{b: make([]byte, size), room: r, index: -1}
	}
	buf, ok := r.pools[index].Get().(*buffer)
	if !ok {
		buf = &buffer{full: make([]byte, capacity), index: index}
	}
	buf.room, buf.b = r, buf.full[:size]
	return buf
}

// done gives the buffer back for others to use. Nothing may look at its bytes any more.
func (b *buffer) done() {
	r, taken := b.room, b.taken
	b.b, b.taken = nil, 0
	if b.index >= 0 {
		r.pools[b.index].Put(b)
	}
	r.give(taken)
}

// drop gives back the room, but not the memory: a connection may still write to it.
func (b *buffer) drop() {
	b.room.give(b.taken)
	b.taken, b.b, b.full, b.index = 0, nil, nil, -1
}
