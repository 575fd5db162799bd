package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pillion/pillion/internal/kafka"
)

// answerTime is how long an answer may take beyond the time that the broker may wait.
const answerTime = 10 * time.Second

var errMissing = errors.New("the broker's answer leaves the partition out")

// node is a broker that leads partitions.
type node struct {
	f    *Fetcher
	id   int32
	busy chan struct{} // wakes the loop for partitions with a backlog
	calm chan struct{} // wakes the loop for partitions at their end

	mu    sync.Mutex
	seats []*seat
	turns uint64
}

// node gives the node of an id, and starts its loops when it is new.
func (f *Fetcher) node(id int32) *node {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[id]
	if n == nil {
		n = &node{f: f, id: id, busy: make(chan struct{}, 1), calm: make(chan struct{}, 1)}
		f.nodes[id] = n
		f.goes.Add(2)
		go n.loop(f.ctx, false)
		go n.loop(f.ctx, true)
	}
	return n
}

// sit takes a seat for a partition, which is asked for from its position on.
func (n *node) sit(p *pump, id [16]byte, epoch int32) *seat {
	s := &seat{
		node: n, topic: p.Topic, id: id, partition: p.tp.Partition, epoch: epoch,
		offset: p.pos.Next, ready: make(chan struct{}, 1),
	}
	n.mu.Lock()
	n.seats = append(n.seats, s)
	n.mu.Unlock()
	n.wake()
	return s
}

func (n *node) remove(s *seat) {
	if i := slices.Index(n.seats, s); i >= 0 {
		n.seats[i] = n.seats[len(n.seats)-1]
		n.seats[len(n.seats)-1] = nil
		n.seats = n.seats[:len(n.seats)-1]
	}
}

func (n *node) wake() {
	for _, c := range []chan struct{}{n.busy, n.calm} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// loop sends one request after the other, each with all seats that are due, and waits when none is.
// There are two, so that a partition with a backlog never waits with those that have none.
func (n *node) loop(ctx context.Context, atEnd bool) {
	defer n.f.goes.Done()
	woken, wait := n.busy, time.Duration(0)
	if atEnd {
		woken, wait = n.calm, n.f.cfg.MaxWait
	}
	for vain := 0; ctx.Err() == nil; {
		parts := n.due(atEnd)
		if len(parts) == 0 {
			select {
			case <-woken:
			case <-ctx.Done():
			}
			continue
		}
		x := newExchange(parts, n.f.room)
		x.wait, x.maxBytes = wait, n.f.cfg.ResponseBytes
		began := time.Now()
		call, cancel := context.WithTimeout(ctx, wait+answerTime)
		err := n.f.client.Exchange(call, n.id, x)
		cancel()
		if err != nil {
			err = fmt.Errorf("fetch from broker %d: %w", n.id, err)
		} else if x.code != 0 {
			err = fmt.Errorf("fetch from broker %d: %w", n.id, partitionError(x.code))
		}
		if err != nil {
			x.drop()
		}
		x.release()
		if vain++; err != nil || !x.vain(time.Since(began)) {
			vain = 0
		}
		n.answer(x, err)
		if vain > freeVain && !kafka.Pause(ctx, vain-freeVain) {
			return
		}
	}
}

// freeVain is how many answers without anything may follow each other without a pause.
const freeVain = 3

// vain says whether an answer has brought nothing, although there should be something, or it should
// have been waited for: a broker that throttles us does so, and one that is broken.
//
// INVARIANT: such a broker is not asked in a loop.
func (x *exchange) vain(took time.Duration) bool {
	starved := took < x.wait/2
	for i := range x.parts {
		p := &x.parts[i]
		if p.buf != nil || p.refused > 0 || p.code != 0 || !p.answered {
			return false
		}
		starved = starved || p.offset < p.stable
	}
	return starved
}

// due takes the seats for the next request, the most urgent first: a broker answers the first
// partition whatever its size, and the others as far as there is room.
func (n *node) due(atEnd bool) []asked {
	share := n.f.share()
	n.mu.Lock()
	defer n.mu.Unlock()
	var seats []*seat
	for _, s := range n.seats {
		if s.atEnd == atEnd && !s.asked && !s.closed && s.held < 2 {
			seats = append(seats, s)
		}
	}
	slices.SortFunc(seats, func(a, b *seat) int {
		if a.urgent() != b.urgent() {
			if a.urgent() {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.turn, b.turn)
	})
	parts := make([]asked, 0, len(seats))
	for _, s := range seats {
		g, ok := n.f.grant(s, share)
		if !ok {
			continue
		}
		n.turns++
		s.asked, s.turn = true, n.turns
		parts = append(parts, asked{
			seat: s, topic: s.topic, id: s.id, partition: s.partition, epoch: s.epoch, offset: s.offset,
			limit: int32(s.size(share)), grant: g,
		})
	}
	return parts
}

func (s *seat) urgent() bool { return s.need > 0 || s.hungry }

// size is how much is asked for: the share, or what a batch needs that is larger.
func (s *seat) size(share int64) int64 { return max(share, int64(s.need), int64(s.usual)) }

// grant takes the room for a seat's next buffer, if there is any. A first buffer of the share's
// size needs none.
func (f *Fetcher) grant(s *seat, share int64) (grant, bool) {
	g := grant{room: f.room}
	if s.held == 0 {
		g.free = share
		g.taken = s.size(share) - share
		return g, f.room.excess(g.taken)
	}
	g.second, g.taken = true, s.size(share)
	return g, f.room.ahead(g.taken)
}

// answer hands the parts of a response to their seats.
func (n *node) answer(x *exchange, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range x.parts {
		p := &x.parts[i]
		s := p.seat
		s.asked = false
		if p.buf != nil && (s.left || p.code != 0) { // nobody will look at it
			p.buf.done()
		}
		switch {
		case s.left:
		case err != nil:
			s.end(err)
		case !p.answered:
			s.end(errMissing)
		case p.code != 0:
			s.end(s.refused(p.code))
		default:
			s.take(p, i == 0, n.f.room.limit)
		}
	}
	n.wake()
}

// end closes the seat with an error; under node.mu.
func (s *seat) end(err error) {
	s.closed = true
	s.node.remove(s)
	s.push(chunk{err: err})
}

// take queues what was answered; under node.mu.
func (s *seat) take(p *asked, first bool, most int64) {
	c := chunk{high: p.high, stable: p.stable, start: p.start, aborted: p.aborted, next: s.offset}
	switch {
	case p.refused > 0:
		s.want(p.refused, most)
		return
	case p.buf == nil:
		s.hungry = !first && s.offset < p.stable
		s.atEnd = !s.hungry
		s.push(c)
		return
	}
	next, cut, err := scan(p.buf.b, s.offset)
	if cut > 0 {
		p.buf.done()
		if first && int64(p.limit) >= int64(cut) { // it would be cut for ever
			s.end(corrupt("the broker cuts a batch of %d bytes where %d were asked for", cut, p.limit))
			return
		}
		s.want(cut, most)
		return
	}
	if err != nil || next <= s.offset {
		s.closed = true // the pump will find out what is wrong
		s.node.remove(s)
	}
	c.buf, c.next = p.buf, next
	s.offset, s.need, s.usual, s.hungry, s.atEnd = next, 0, firstSize(p.buf.b), false, next >= p.stable
	s.held++
	s.push(c)
}

// want notes that the next batch needs so many bytes; under node.mu.
func (s *seat) want(size int, most int64) {
	if int64(size) > most {
		s.end(&RecordTooLargeError{
			Topic: s.topic, Partition: s.partition, Offset: s.offset, Size: int64(size), Limit: most, What: "batch",
		})
		return
	}
	s.need, s.atEnd = size, false
}
