package bridge

import (
	"sync"

	"github.com/pillion/pillion/internal/gate"
)

// item is one message that waits for the socket.
type item struct {
	text   bool
	bytes  []byte
	gate   *gate.Gate // of the data lane: dropped when closed; nil: always sent
	stream uint32     // of a frame
}

// fifo is a queue that keeps its memory only as long as it is needed.
type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) push(v T) { f.items = append(f.items, v) }
func (f *fifo[T]) pop() (v T, ok bool) {
	if f.head == len(f.items) {
		return v, false
	}
	var zero T
	v, f.items[f.head] = f.items[f.head], zero
	f.head++
	switch {
	case f.head == len(f.items):
		if cap(f.items) > 1024 {
			f.items = nil
		}
		f.items, f.head = f.items[:0], 0
	case f.head >= 64 && f.head*2 >= len(f.items):
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	return v, true
}

// goodbye is the close that the writer has to say.
type goodbye struct {
	code   int
	reason string
}

// work is what the writer does next. Exactly one field is set.
type work struct {
	control []byte // a text message
	pong    []byte // never nil when set
	ping    bool
	grant   bool // ask the inbox for the credit message
	data    *item
	bye     *goodbye
	ended   bool // the socket is gone
}

// queue holds the two lanes of a connection. Nothing in it blocks.
type queue struct {
	maxControl int64
	wake       chan struct{} // one token: something has changed

	mu           sync.Mutex
	control      fifo[*message]
	latest       map[string]*message // queued messages that a newer one replaces
	controlBytes int64
	data         fifo[item]
	dataBytes    int64
	pong         []byte
	ping         bool
	grant        bool
	bye          *goodbye
	ended        bool
	taken        item // the data item handed out, kept here so that taking allocates nothing
}

// message is a control message; key names what a newer one replaces.
type message struct {
	bytes []byte
	key   string
}

func newQueue(maxControl int64) *queue {
	return &queue{maxControl: maxControl, wake: make(chan struct{}, 1), latest: map[string]*message{}}
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// change runs f under the lock and wakes the writer.
func (q *queue) change(f func()) {
	q.mu.Lock()
	f()
	q.mu.Unlock()
	q.signal()
}

// send queues a control message; false: the lane is full. A message with a key takes the place of
// the one with this key that still waits.
func (q *queue) send(b []byte, key string) (ok bool) {
	ok = true
	q.change(func() {
		if q.bye != nil || q.ended {
			return
		}
		if old := q.latest[key]; key != "" && old != nil {
			q.controlBytes += int64(len(b) - len(old.bytes))
			old.bytes = b
			return
		}
		size := int64(len(b)) + queuedOverhead
		if q.controlBytes+size > q.maxControl {
			ok = false
			return
		}
		m := &message{bytes: b, key: key}
		q.control.push(m)
		q.controlBytes += size
		if key != "" {
			q.latest[key] = m
		}
	})
	return ok
}

// sendData queues behind everything in the data lane.
func (q *queue) sendData(i item) {
	q.change(func() {
		if q.bye != nil || q.ended {
			return
		}
		q.data.push(i)
		q.dataBytes += int64(len(i.bytes))
	})
}

func (q *queue) sendPong(b []byte) {
	q.change(func() { q.pong = append(make([]byte, 0, len(b)), b...) })
}
func (q *queue) sendPing()  { q.change(func() { q.ping = true }) }
func (q *queue) sendGrant() { q.change(func() { q.grant = true }) }

// close queues the goodbye behind the control messages that are queued now; the first one counts.
// The data lane is dropped.
func (q *queue) close(code int, reason string) (first bool) {
	q.change(func() {
		if first = q.bye == nil && !q.ended; first {
			q.bye = &goodbye{code, reason}
			q.dropData()
		}
	})
	return first
}

// goodbye answers the peer's close, behind nothing: the peer does not listen any more.
func (q *queue) goodbye(code int) {
	q.change(func() {
		if q.bye == nil {
			q.bye = &goodbye{code: code}
		}
		q.dropControl()
		q.dropData()
	})
}

// closing says whether a goodbye is queued or said.
func (q *queue) closing() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bye != nil || q.ended
}

// end says that nothing can be written any more.
func (q *queue) end() {
	q.change(func() {
		q.ended = true
		q.dropControl()
		q.dropData()
	})
}

func (q *queue) dropControl() {
	q.control, q.latest, q.controlBytes = fifo[*message]{}, map[string]*message{}, 0
}

func (q *queue) dropData() { q.data, q.dataBytes = fifo[item]{}, 0 }

// next says what to write now; false: wait for wake. Control goes first.
func (q *queue) next() (w work, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return work{ended: true}, true
	}
	if m, ok := q.control.pop(); ok {
		q.controlBytes -= int64(len(m.bytes)) + queuedOverhead
		if m.key != "" {
			delete(q.latest, m.key)
		}
		return work{control: m.bytes}, true
	}
	switch {
	case q.bye != nil:
		return work{bye: q.bye}, true
	case q.grant:
		q.grant = false
		return work{grant: true}, true
	case q.pong != nil:
		w.pong, q.pong = q.pong, nil
		return w, true
	case q.ping:
		q.ping = false
		return work{ping: true}, true
	}
	if q.taken, ok = q.data.pop(); ok {
		q.dataBytes -= int64(len(q.taken.bytes))
		return work{data: &q.taken}, true
	}
	return w, false
}

// sizes are for the metrics: what waits in each lane.
func (q *queue) sizes() (control, data int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.controlBytes, q.dataBytes
}
