package gate

import "encoding/binary"

// nextOffsetAt is where a frame carries the position behind it (package protocol/frame).
const nextOffsetAt = 24

// noteDelivered remembers how far the frame reaches. It runs before the frame can be written, so that
// whoever answers to the frame finds it noted.
func (g *Gate) noteDelivered(frame []byte) {
	if len(frame) >= nextOffsetAt+8 {
		g.delivered = int64(binary.LittleEndian.Uint64(frame[nextOffsetAt:]))
	}
}

// Delivered is the position behind the last frame queued, or 0.
func (g *Gate) Delivered() int64 {
	g.credit.mu.Lock()
	defer g.credit.mu.Unlock()
	return g.delivered
}
