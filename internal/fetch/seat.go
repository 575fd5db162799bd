package fetch

import "context"

// chunk is what one response has for one partition.
type chunk struct {
	buf     *buffer // nil: no records
	next    int64   // the position after its last whole batch
	aborted []aborted
	high    int64
	stable  int64
	start   int64
	err     error // the last chunk of a seat has it, and nothing else
}

// seat is a partition's place at the node that leads it. The pump takes chunks out, the node's
// loops put them in. A seat ends with its first error; the pump takes another.
type seat struct {
	node      *node
	topic     string
	id        [16]byte
	partition int32
	epoch     int32 // current leader epoch
	ready     chan struct{}

	// Guarded by node.mu.
	offset int64 // to be asked for next
	held   int   // buffers that are queued or being decoded
	asked  bool  // in a request that is not answered yet
	closed bool  // not to be asked for any more
	left   bool  // the pump has gone
	atEnd  bool  // nothing new at the last answer: wait at the broker
	need   int   // bytes that the next batch is known to need
	usual  int   // size of the batch that came last
	hungry bool  // there was something, but no room in the response
	turn   uint64
	queue  []chunk
}

// next waits for the next chunk.
func (s *seat) next(ctx context.Context) (chunk, error) {
	for {
		if c, ok := s.pop(); ok {
			return c, nil
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return chunk{}, ctx.Err()
		}
	}
}

func (s *seat) pop() (chunk, bool) {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	if len(s.queue) == 0 {
		return chunk{}, false
	}
	c := s.queue[0]
	n := copy(s.queue, s.queue[1:])
	s.queue[n] = chunk{}
	s.queue = s.queue[:n]
	return c, true
}

// push queues a chunk; under node.mu. What only tells positions replaces what does the same, so
// that the queue has at most five entries: two buffers, each with news after it, and an error.
func (s *seat) push(c chunk) {
	if n := len(s.queue); n > 0 && c.buf == nil && c.err == nil && s.queue[n-1].buf == nil {
		s.queue[n-1] = c
	} else {
		s.queue = append(s.queue, c)
	}
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// done gives back a chunk's buffer and lets the next be fetched.
func (s *seat) done(c chunk) {
	if c.buf == nil {
		return
	}
	c.buf.done()
	s.node.mu.Lock()
	s.held--
	s.node.mu.Unlock()
	s.node.wake()
}

// leave ends the seat on the pump's side. Chunks that are queued, or still to come, are let go.
func (s *seat) leave() {
	n := s.node
	n.mu.Lock()
	queue := s.queue
	s.queue, s.closed, s.left = nil, true, true
	n.remove(s)
	n.mu.Unlock()
	for _, c := range queue {
		if c.buf != nil {
			c.buf.done()
		}
	}
}
