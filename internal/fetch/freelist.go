package fetch

import "sync"

// freeList keeps memory to be used again, up to so many bytes. Unlike a sync.Pool it survives the
// garbage collector, whose runs would otherwise be caused by what it throws away.
type freeList struct {
	most int

	mu    sync.Mutex
	bytes int
	items map[int][][]byte // by class
}

func newFreeList(most int) *freeList {
	return &freeList{most: most, items: map[int][][]byte{}}
}

// get gives size bytes of memory, of which nothing is known.
func (l *freeList) get(size int) []byte {
	index, capacity := class(size)
	if b := l.take(index); b != nil {
		return b[:size]
	}
	return make([]byte, size, capacity)
}

func (l *freeList) take(index int) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	items := l.items[index]
	n := len(items) - 1
	if n < 0 {
		return nil
	}
	b := items[n]
	items[n] = nil
	l.items[index] = items[:n]
	l.bytes -= cap(b)
	return b
}

// put takes memory back that came from get. Nothing may look at it any more.
func (l *freeList) put(b []byte) {
	index, capacity := class(cap(b))
	if capacity != cap(b) {
		return // not ours
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes+capacity <= l.most {
		l.bytes += capacity
		l.items[index] = append(l.items[index], b)
	}
}
