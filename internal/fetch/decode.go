package fetch

import (
	"context"
	"encoding/binary"
	"errors"
	"math"

	"github.com/pillion/pillion/protocol/frame"
)

const (
	// recordBytes is the most that a record takes in a frame beside its key, value and headers.
	recordBytes = 25
	// emptyBytes is the most that a frame takes without records.
	emptyBytes = frame.HeaderSize + frame.MaxCheckpoint
)

// chunk decodes a response's batches into frames, and hands them on. The frames before an error are
// handed on too, so that the position is where it was met.
func (p *pump) chunk(ctx context.Context, c chunk) error {
	p.pos.HighWatermark, p.pos.StableOffset, p.pos.LogStart = c.high, c.stable, c.start
	if c.buf == nil {
		return nil
	}
	if err := p.borrow(ctx, p.f.small); err != nil {
		return err
	}
	defer func() { p.pool.put(&p.lease) }()
	p.aborts.reset(c.aborted)
	bad := p.batches(ctx, c.buf.b)
	if isEnd(bad) {
		return bad
	}
	if bad == nil && p.pos.Next < c.next && !p.reached() {
		bad = corrupt("the batches end before %d", c.next)
	}
	if err := p.flush(ctx); err != nil {
		return err
	}
	return bad
}

// isEnd says whether an error leaves nothing to hand on: the sink or the context is over.
func isEnd(err error) bool {
	var sink *sinkError
	return errors.As(err, &sink) || errors.Is(err, context.Canceled)
}

// batches decodes all whole batches of b.
func (p *pump) batches(ctx context.Context, b []byte) error {
	from := p.pos.Next
	for len(b) > 0 && !p.reached() {
		h, whole, err := parseBatch(b)
		if err != nil {
			return err
		}
		if !whole {
			break
		}
		one := b[:h.size]
		b = b[h.size:]
		if h.next() <= p.pos.Next {
			continue
		}
		if err := h.verify(one); err != nil {
			return err
		}
		if err := p.batch(ctx, h, one[batchHeader:]); err != nil {
			return err
		}
	}
	if p.pos.Next == from {
		return corrupt("the broker's answer has no batch that reaches past it")
	}
	return nil
}

// batch decodes one batch, which reaches past the position.
func (p *pump) batch(ctx context.Context, h batch, records []byte) error {
	if p.aborts.drops(h, records) || h.is(attrControl) || h.count == 0 || p.Until >= 0 && h.base >= p.Until {
		p.advance(h)
		return nil
	}
	if p.Timestamps {
		// INVARIANT: a frame has timestamps of one type.
		if late := h.is(attrLogAppendTime); p.b.Len() == 0 {
			p.b.SetLogAppendTime(late)
		} else if late != p.late {
			if err := p.flush(ctx); err != nil {
				return err
			}
			p.b.SetLogAppendTime(late)
		}
		p.late = h.is(attrLogAppendTime)
	}
	cur := cursor{batch: h, left: h.count, last: -1}
	var err error
	if cur.body, err = p.inflate(ctx, h, records); err != nil {
		return err
	}
	for {
		full, err := p.fill(&cur)
		if err != nil {
			return err
		}
		if !full {
			break
		}
		if err := p.flush(ctx); err != nil {
			return err
		}
		if p.Timestamps {
			p.b.SetLogAppendTime(p.late)
		}
		if p.stolen && h.attributes&attrCodec != 0 {
			if cur.body, err = p.inflate(ctx, h, records); err != nil {
				return err
			}
		}
	}
	p.advance(h)
	if p.pool == p.f.large {
		return p.trade(ctx, p.f.small)
	}
	return nil
}

// advance moves the position past a batch, but not past the end that is wanted.
func (p *pump) advance(h batch) {
	p.pos.Next, p.pos.LeaderEpoch = h.next(), h.epoch
	if p.Until >= 0 {
		p.pos.Next = min(p.pos.Next, p.Until)
	}
}

// inflate decompresses a batch, in the decoder for large batches when it must be.
func (p *pump) inflate(ctx context.Context, h batch, records []byte) ([]byte, error) {
	p.stolen = false
	body, err := p.lease.d.inflate(h.attributes&attrCodec, records)
	if err == errLarge && p.pool == p.f.small {
		if err = p.trade(ctx, p.f.large); err != nil {
			return nil, err
		}
		p.stolen = false
		body, err = p.lease.d.inflate(h.attributes&attrCodec, records)
	}
	if err == errLarge {
		return nil, &RecordTooLargeError{
			Topic: p.Topic, Partition: p.tp.Partition, Offset: h.base,
			Size: int64(p.f.cfg.BatchBytes) + 1, Limit: int64(p.f.cfg.BatchBytes), What: "batch",
		}
	}
	return body, err
}

// cursor is how far a batch has been decoded.
type cursor struct {
	batch
	body []byte
	at   int   // index of the next record
	left int32 // records to come
	last int64 // offset delta of the last one
}

// fill appends records to the frame until it is full or the batch is at its end. It is the loop
// that everything else is here for: no allocation, no call that is not needed.
func (p *pump) fill(c *cursor) (full bool, err error) {
	b, body := p.b, c.body
	target := p.target
	late := c.is(attrLogAppendTime)
	for ; c.left > 0; c.left-- {
		n, i := varint(body, c.at)
		if i > len(body) || n < 0 || n > int64(len(body)-i) {
			return false, corrupt("the record after offset %d is longer than its batch", c.base+c.last)
		}
		end := i + int(n)
		rec := body[i:end:end]
		time, k := varint(rec, 1)
		delta, k := varint(rec, k)
		if delta <= c.last || delta > int64(c.lastDelta) {
			return false, corrupt("offset delta %d after %d in a batch at %d", delta, c.last, c.base)
		}
		key, k := field(rec, k)
		value, k := field(rec, k)
		count, k := varint(rec, k)
		if k > len(rec) {
			return false, corrupt("the record at offset %d is cut", c.base+delta)
		}
		var headers []byte
		if count != 0 || k != len(rec) {
			if headers, err = p.header(rec[k:], count); err != nil {
				return false, err
			}
		}
		offset := c.base + delta
		if offset < p.pos.Next {
			c.at, c.last = end, delta
			continue
		}
		if p.Until >= 0 && offset >= p.Until {
			return false, nil
		}
		size := recordBytes + len(key) + len(value) + len(headers)
		if p.size+size > target && b.Len() > 0 {
			return true, nil
		}
		if offset-p.base > math.MaxInt32 {
			if b.Len() == 0 {
				p.pos.Next = offset // the frame without records that follows moves the base
			}
			return true, nil
		}
		if late {
			time = c.maxTime
		} else {
			time += c.firstTime
		}
		b.Append(offset, time, key, value, headers)
		if p.size += size; p.size > target && p.tooLarge() {
			err := p.recordTooLarge(offset)
			p.begin()
			return false, err
		}
		p.pos.Next, p.pos.LeaderEpoch = offset+1, c.epoch
		c.at, c.last = end, delta
	}
	if c.at != len(body) {
		return false, corrupt("%d bytes after the last record of the batch at offset %d", len(body)-c.at, c.base)
	}
	return false, nil
}

// field reads a nullable byte string at i. Null is nil, and empty is not.
func field(rec []byte, i int) ([]byte, int) {
	n, i := varint(rec, i)
	if n < 0 {
		if n != -1 {
			i = invalid
		}
		return nil, i
	}
	if i > len(rec) || n > int64(len(rec)-i) {
		return nil, invalid
	}
	end := i + int(n)
	return rec[i:end:end], end
}

// header turns a record's headers into a section of the frame. It is nil when they are not wanted.
func (p *pump) header(rec []byte, count int64) ([]byte, error) {
	bad := func() ([]byte, error) {
		return nil, corrupt("headers of the record after position %d", p.pos.Next)
	}
	if count < 0 || count > int64(len(rec)/2) {
		return bad()
	}
	le := binary.LittleEndian
	out := le.AppendUint32(p.lease.d.headers[:0], uint32(count))
	i := 0
	for range count {
		var key, value []byte
		if key, i = field(rec, i); key == nil {
			return bad()
		}
		if value, i = field(rec, i); i > len(rec) {
			return bad()
		}
		out = append(le.AppendUint32(out, uint32(len(key))), key...)
		if value == nil {
			out = le.AppendUint32(out, math.MaxUint32)
			continue
		}
		out = append(le.AppendUint32(out, uint32(len(value))), value...)
	}
	if p.lease.d.headers = out; i != len(rec) {
		return bad()
	}
	if !p.Headers || count == 0 {
		return nil, nil
	}
	return out, nil
}
