package fetch

import (
	"context"
	"runtime"
	"slices"
	"sync"
)

// scratchBytes is how large a batch may be decompressed in any decoder, and how much of it is kept.
// A larger batch needs the one decoder for large batches.
const scratchBytes = 4 << 20

// decoder is what it takes to make frames of batches. Few of them serve all pumps.
type decoder struct {
	inflater
	columns columns
	headers []byte // of one record
}

// decoders lends decoders. A pump that waits for its sink has nothing in its decoder that it could
// not make again; it offers it, and another pump may take it away.
//
// INVARIANT: a pump that does not wait for its sink gets a decoder although all others wait for
// theirs.
type decoders struct {
	limit int

	mu      sync.Mutex
	left    int // that may still be made
	free    []*decoder
	offered []*lease // oldest first
	waiting []chan *decoder
}

// lease is a decoder in the hands of a pump; d is nil when it was taken away.
type lease struct{ d *decoder }

func newDecoders(n, limit int) *decoders { return &decoders{left: n, limit: limit} }

// decoderCount is how many decoders are of use: one for each processor, and some that are offered.
func decoderCount() int { return runtime.GOMAXPROCS(0) + 2 }

// get waits for a decoder.
func (p *decoders) get(ctx context.Context, l *lease) error {
	p.mu.Lock()
	switch {
	case len(p.free) > 0:
		l.d = p.free[len(p.free)-1]
		p.free = p.free[:len(p.free)-1]
	case p.left > 0:
		p.left--
		l.d = &decoder{inflater: inflater{limit: p.limit}}
	case len(p.offered) > 0:
		l.d, p.offered[0].d = p.offered[0].d, nil
		p.offered = slices.Delete(p.offered, 0, 1)
	}
	if l.d != nil {
		p.mu.Unlock()
		return nil
	}
	turn := make(chan *decoder, 1)
	p.waiting = append(p.waiting, turn)
	p.mu.Unlock()
	select {
	case l.d = <-turn:
		return nil
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		if i := slices.Index(p.waiting, turn); i >= 0 {
			p.waiting = slices.Delete(p.waiting, i, i+1)
		} else {
			p.pass(<-turn)
		}
		return ctx.Err()
	}
}

// pass hands a decoder to the next who waits, or keeps it.
func (p *decoders) pass(d *decoder) {
	if len(p.waiting) > 0 {
		p.waiting[0] <- d
		p.waiting = slices.Delete(p.waiting, 0, 1)
		return
	}
	p.free = append(p.free, d)
}

// put ends a lease, if it has not been taken away.
func (p *decoders) put(l *lease) {
	if l.d == nil {
		return
	}
	d := l.d
	l.d = nil
	d.shrink(scratchBytes + sourceBytes)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pass(d)
}

// offer lets others take the decoder until reclaim.
func (p *decoders) offer(l *lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) > 0 {
		p.pass(l.d)
		l.d = nil
		return
	}
	p.offered = append(p.offered, l)
}

// reclaim ends an offer and says whether the decoder is still there, and untouched.
func (p *decoders) reclaim(l *lease) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.d == nil {
		return false
	}
	p.offered = slices.DeleteFunc(p.offered, func(o *lease) bool { return o == l })
	return true
}

// close ends all decoders. None may be in use.
func (p *decoders) close() {
	for _, d := range p.free {
		d.close()
	}
	p.free = nil
}
