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
	p.lease.d.restart()
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
	p.cols = &p.lease.d.columns
	p.cols.reset(p.base, p.Timestamps)
	p.size = emptyBytes
	p.target = p.f.frameBytes(p.Kind)
	if p.MaxFrame > 0 {
		p.target = int(min(int64(p.target), p.MaxFrame))
	}
}

// flush hands the frame to the sink, also one of no records when the position has moved, and begins
// the next. While the sink blocks, the decoder and the buffer are on offer; errEvicted says that the
// buffer was taken.
//
// INVARIANT: a frame's base is the next offset of the frame before.
func (p *pump) flush(ctx context.Context) error {
	if p.cols.n == 0 && p.pos.Next == p.base {
		return nil
	}
	h := frame.Header{Kind: p.Kind, Stream: p.Stream, Epoch: p.Partition.Epoch, Next: p.pos.Next}
	var checkpoint []byte
	if p.Kind == frame.Restore && p.Checkpoint != nil {
		checkpoint = p.Checkpoint(p.pos.Next, p.pos.LeaderEpoch)
	}
	f := p.cols.finish(p.f.frames.get(p.cols.bytes() + len(checkpoint))[:0], h, p.src, checkpoint)
	p.pool.offer(&p.lease)
	p.f.room.offer(p.buf)
	err := p.Sink.Frame(ctx, f, p.pos)
	there := p.f.room.reclaim(p.buf)
	kept := p.pool.reclaim(&p.lease)
	if err != nil {
		return &sinkError{err}
	}
	p.base = p.pos.Next
	if !there {
		return errEvicted
	}
	if !kept {
		p.stolen = true
		return p.borrow(ctx, p.pool)
	}
	p.begin()
	return nil
}

// tooLarge says whether the frame, of one record then, is more than the worker takes.
func (p *pump) tooLarge() bool {
	return p.MaxFrame > 0 && p.cols.n == 1 && int64(p.frameSize()) > p.MaxFrame
}

func (p *pump) frameSize() int {
	size := p.cols.bytes()
	if p.Kind == frame.Restore && p.Checkpoint != nil {
		size += frame.MaxCheckpoint
	}
	return size
}

// recordTooLarge takes the record out of the frame again.
func (p *pump) recordTooLarge(offset int64) error {
	err := &RecordTooLargeError{
		Topic: p.Topic, Partition: p.tp.Partition, Offset: offset,
		Size: int64(p.frameSize()), Limit: p.MaxFrame, What: "frame",
	}
	p.begin()
	return err
}
