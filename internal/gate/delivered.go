package gate

import "encoding/binary"

// Where a frame (package protocol/frame, which this package does not import) carries what is noted.
const (
	flagsAt      = 2
	countAt      = 12
	baseAt       = 16
	nextAt       = 24
	pointSizeAt  = 44
	headerSize   = 48
	hasTimes     = 1
	hasDeltas    = 4
	lengthsBytes = 4 + 4 // of a record's key and value
	maxPoint     = 128   // bytes of a checkpoint
)

// noteDelivered remembers how far the frame reaches. It runs before the frame can be written, so that
// whoever answers to the frame finds it noted.
func (g *Gate) noteDelivered(frame []byte) {
	if len(frame) < headerSize {
		return
	}
	le := binary.LittleEndian
	g.delivered = int64(le.Uint64(frame[nextAt:]))
	if size := int(le.Uint32(frame[pointSizeAt:])); size > 0 && size <= maxPoint && size <= len(frame)-headerSize {
		// The frame's bytes are used again when it is sent.
		g.pointSize = copy(g.point[:], frame[len(frame)-size:])
	}
	n := int(le.Uint32(frame[countAt:]))
	if n == 0 {
		return
	}
	g.records = int64(le.Uint64(frame[baseAt:])) + int64(n)
	flags := le.Uint16(frame[flagsAt:])
	if flags&hasDeltas == 0 {
		return
	}
	deltas := headerSize + n*lengthsBytes
	if flags&hasTimes != 0 {
		deltas += 8 * n
	}
	if last := deltas + 4*(n-1); last+4 <= len(frame) {
		g.records = int64(le.Uint64(frame[baseAt:])) + int64(le.Uint32(frame[last:])) + 1
	}
}

// Delivered is the position behind the last frame queued, or 0.
func (g *Gate) Delivered() int64 {
	g.credit.mu.Lock()
	defer g.credit.mu.Unlock()
	return g.delivered
}

// Records is the position directly behind the last record queued, or 0: unlike Delivered it does not
// count gaps and frames without records, which nobody has to act on.
func (g *Gate) Records() int64 {
	g.credit.mu.Lock()
	defer g.credit.mu.Unlock()
	return g.records
}

// Checkpoint is that of the last frame queued that had one, or empty: what the worker's store will be
// complete up to.
func (g *Gate) Checkpoint() string {
	g.credit.mu.Lock()
	defer g.credit.mu.Unlock()
	return string(g.point[:g.pointSize])
}
