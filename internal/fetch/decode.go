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
	// sourceBytes is how much decompressed data may be kept for a frame when the next batch comes.
	sourceBytes = 512 << 10
)

// chunk decodes a response's batches into frames, and hands them on. The frames before an error are
// handed on too, so that the position is where it was met.
func (p *pump) chunk(ctx context.Context, c chunk) error {
	p.pos.HighWatermark, p.pos.StableOffset, p.pos.LogStart = c.high, c.stable, c.start
	if c.buf == nil {
		return nil
	}
	p.buf = c.buf
	if err := p.borrow(ctx, p.f.small); err != nil {
		return err
	}
	defer func() { p.src, p.buf = nil, nil; p.pool.put(&p.lease) }()
	p.aborts.reset(c.aborted)
	bad := p.batches(ctx, c.buf.b)
	if isEnd(bad) {
		return bad
	}
	if err := p.flush(ctx); err != nil && err != errEvicted { // which does not matter any more
		return err
	}
	return bad
}

// errEvicted says that the buffer was taken away while the sink blocked: what follows the position
// is to be fetched again.
var errEvicted = errors.New("the buffer was taken away")

// isEnd says whether an error leaves nothing to hand on: the sink, the context or the buffer is
// over.
func isEnd(err error) bool {
	var sink *sinkError
	return errors.As(err, &sink) || errors.Is(err, context.Canceled) || err == errEvicted
}

// batches decodes all whole batches of raw.
func (p *pump) batches(ctx context.Context, raw []byte) error {
	from := p.pos.Next
	for at := 0; at < len(raw) && !p.reached(); {
		h, whole, err := parseBatch(raw[at:])
		if err != nil {
			return err
		}
		if !whole {
			break
		}
		h.at = at
		at += h.size
		if h.next() <= p.pos.Next {
			continue
		}
		if err := h.verify(raw[h.at:]); err != nil {
			return err
		}
		if err := p.batch(ctx, h, raw[:at]); err != nil {
			return err
		}
	}
	if p.pos.Next == from {
		return corrupt("the broker's answer has no batch that reaches past it")
	}
	return nil
}

// batch decodes one batch, which reaches past the position and to the end of raw.
func (p *pump) batch(ctx context.Context, h batch, raw []byte) error {
	records := raw[h.at+batchHeader:]
	if p.aborts.drops(h, records) || h.is(attrControl) || h.count == 0 || p.Until >= 0 && h.base >= p.Until {
		p.advance(h)
		return nil
	}
	// INVARIANT: a frame has timestamps of one type.
	if p.Timestamps && p.cols.n > 0 && p.cols.logAppend != h.is(attrLogAppendTime) {
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	cur := cursor{batch: h, left: int(h.count), last: -1}
	if err := p.open(ctx, &cur, raw); err != nil {
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
		if p.stolen {
			if err := p.reopen(ctx, &cur, raw); err != nil {
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

// open gives the cursor the records of its batch, and the frame their source. The frame before is
// handed on when its records are elsewhere, or too much would be kept for them.
func (p *pump) open(ctx context.Context, c *cursor, raw []byte) error {
	codec := c.attributes & attrCodec
	packed := codec != codecNone
	if p.cols.n > 0 && (packed != p.packed || packed && len(p.src) > sourceBytes) {
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	p.packed = packed
	if !packed {
		p.src, c.at = raw, c.batch.at+batchHeader
		return nil
	}
	if p.cols.n == 0 {
		p.lease.d.restart()
	}
	return p.inflate(ctx, c, raw[c.batch.at+batchHeader:])
}

// reopen decompresses the batch again when the decoder was lent to another.
func (p *pump) reopen(ctx context.Context, c *cursor, raw []byte) error {
	p.stolen = false
	if !p.packed {
		p.src = raw
		return nil
	}
	done := c.at - c.begin
	if err := p.inflate(ctx, c, raw[c.batch.at+batchHeader:]); err != nil {
		return err
	}
	c.at = c.begin + done
	return nil
}

// inflate decompresses a batch behind the source, in the decoder for large batches when it must be.
func (p *pump) inflate(ctx context.Context, c *cursor, records []byte) error {
	begin, err := p.lease.d.inflate(c.attributes&attrCodec, records)
	if err == errLarge && p.pool == p.f.small {
		if err = p.trade(ctx, p.f.large); err != nil {
			return err
		}
		begin, err = p.lease.d.inflate(c.attributes&attrCodec, records)
	}
	if err == errLarge {
		err = &RecordTooLargeError{
			Topic: p.Topic, Partition: p.tp.Partition, Offset: c.base,
			Size: int64(p.f.cfg.BatchBytes) + 1, Limit: int64(p.f.cfg.BatchBytes), What: "batch",
		}
	}
	if err != nil {
		return err
	}
	p.stolen = false
	p.src, c.begin, c.at = p.lease.d.out, begin, begin
	return nil
}

// cursor is how far a batch has been decoded. Its records end where the source does.
type cursor struct {
	batch
	begin int   // index of the first record in the source
	at    int   // of the next
	left  int   // records to come
	last  int64 // offset delta of the last one
}

// fill appends records to the frame until it is full or the batch is at its end. It is the loop
// that everything else is here for: no allocation, no copy, no pointer stored.
func (p *pump) fill(c *cursor) (full bool, err error) {
	cols, src := p.cols, p.src
	cols.logAppend = c.is(attrLogAppendTime)
	cols.reserve(min(c.left, p.target/8+1))
	skip, stop := p.pos.Next-c.base, int64(math.MaxInt64)
	if p.Until >= 0 {
		stop = p.Until - c.base
	}
	var r record
	for ; c.left > 0; c.left-- {
		if !r.parse(src, c.at) || r.delta <= c.last || r.delta > int64(c.lastDelta) {
			return false, corrupt("the record after offset %d is cut or out of order", c.base+c.last)
		}
		var headers []byte
		if r.headers != 0 || r.at != r.end {
			if headers, err = p.header(src[r.at:r.end], r.headers); err != nil {
				return false, err
			}
		}
		if r.delta < skip {
			c.at, c.last = r.end, r.delta
			continue
		}
		if r.delta >= stop {
			return false, nil
		}
		size := recordBytes + max(r.keyLen, 0) + max(r.valueLen, 0) + len(headers)
		if p.size+size > p.target && cols.n > 0 {
			return true, nil
		}
		offset := c.base + r.delta
		if !cols.fits(offset) {
			if cols.n == 0 {
				p.pos.Next = offset // the frame without records that follows moves the base
			}
			return true, nil
		}
		p.append(c, &r, offset, headers)
		if p.size += size; p.size > p.target && p.tooLarge() {
			return false, p.recordTooLarge(offset)
		}
		p.pos.Next, p.pos.LeaderEpoch = offset+1, c.epoch
		c.at, c.last = r.end, r.delta
	}
	if c.at != len(src) {
		return false, corrupt("%d bytes after the last record of the batch at offset %d", len(src)-c.at, c.base)
	}
	return false, nil
}

// append notes a record in the frame.
func (p *pump) append(c *cursor, r *record, offset int64, headers []byte) {
	cols, n := p.cols, p.cols.n
	if cols.hasDeltas || offset != cols.base+int64(n) {
		cols.gap(offset)
	}
	if headers != nil || cols.hasHeaders {
		cols.section(headers)
	}
	if r.keyLen < 0 {
		cols.nullKey()
		r.keyLen = 0
	}
	if r.valueLen < 0 {
		cols.nullValue()
		r.valueLen = 0
	}
	cols.keyAt[n], cols.valueAt[n] = uint32(r.keyAt), uint32(r.valueAt)
	binary.LittleEndian.PutUint32(cols.keyLens[4*n:], uint32(r.keyLen))
	binary.LittleEndian.PutUint32(cols.valueLens[4*n:], uint32(r.valueLen))
	if cols.timestamps {
		time := c.firstTime + r.time
		if cols.logAppend {
			time = c.maxTime
		}
		binary.LittleEndian.PutUint64(cols.times[8*n:], uint64(time))
	}
	cols.keyBytes += r.keyLen
	cols.valueBytes += r.valueLen
	cols.n++
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
