package fetch

import (
	"context"

	"github.com/pillion/pillion/protocol/frame"
)

// borrow takes a decoder and begins a frame in it.
func (p *pump) borrow(ctx context.Context, pool *decoders) error {
	p.pool = pool
	if err := pool.get(ctx, &p.lease); err != nil {
		return err
	}
	p.begin()
	return nil
}

// trade hands on the frame so far and goes on with a decoder of another pool.
func (p *pump) trade(ctx context.Context, pool *decoders) error {
	if err := p.flush(ctx); err != nil {
		return err
	}
	p.pool.put(&p.lease)
	p.stolen = true
	return p.borrow(ctx, pool)
}

// begin starts an empty frame at the position after the frame before.
func (p *pump) begin() {
	p.b = p.lease.d.builder(p.Kind, p.Timestamps)
	p.b.Reset(p.Stream, p.Partition.Epoch, p.base)
	p.size = emptyBytes
	p.target = p.f.frameBytes()
	if p.MaxFrame > 0 {
		p.target = int(min(int64(p.target), p.MaxFrame))
	}
}

// flush hands the frame to the sink, also one of no records when the position has moved, and begins
// the next. While the sink blocks, the decoder is on offer.
//
// INVARIANT: a frame's base is the next offset of the frame before.
func (p *pump) flush(ctx context.Context) error {
	if p.b.Len() == 0 && p.pos.Next == p.base {
		return nil
	}
	var checkpoint []byte
	if p.Kind == frame.Restore && p.Checkpoint != nil {
		checkpoint = p.Checkpoint(p.pos.Next, p.pos.LeaderEpoch)
	}
	f := p.b.Finish(make([]byte, 0, p.b.Size()+len(checkpoint)), p.pos.Next, checkpoint)
	p.pool.offer(&p.lease)
	err := p.Sink.Frame(ctx, f, p.pos)
	kept := p.pool.reclaim(&p.lease)
	if err != nil {
		return &sinkError{err}
	}
	p.base = p.pos.Next
	if !kept {
		p.stolen = true
		return p.borrow(ctx, p.pool)
	}
	p.begin()
	return nil
}

// tooLarge says whether the frame, of one record then, is more than the worker takes.
func (p *pump) tooLarge() bool {
	return p.MaxFrame > 0 && p.b.Len() == 1 && int64(p.frameSize()) > p.MaxFrame
}

func (p *pump) frameSize() int {
	size := p.b.Size()
	if p.Kind == frame.Restore && p.Checkpoint != nil {
		size += frame.MaxCheckpoint
	}
	return size
}

func (p *pump) recordTooLarge(offset int64) error {
	return &RecordTooLargeError{
		Topic: p.Topic, Partition: p.tp.Partition, Offset: offset,
		Size: int64(p.frameSize()), Limit: p.MaxFrame, What: "frame",
	}
}
