package conformance

import (
	"encoding/binary"
	"net"
	"sync"
	"time"
)

const (
	opText   = 1
	opBinary = 2
	opClose  = 8
	opPing   = 9
)

// manner is how messages are put onto the wire. The zero manner is the usual one.
type manner struct {
	Fragment int  `json:"fragment"` // a message is cut into websocket fragments of so many bytes
	Pings    bool `json:"pings"`    // with a ping between two fragments
	Chunk    int  `json:"chunk"`    // what is written at once has so many bytes, and the next comes a little later
	Glue     bool `json:"glue"`     // messages are kept until the manner changes, then written at once
}

// encode makes the bytes of one websocket message of a server, which masks nothing. gorilla would
// choose the fragments itself.
func (m manner) encode(op byte, payload []byte) []byte {
	if m.Fragment <= 0 || len(payload) <= m.Fragment || op >= opClose {
		return appendFrame(nil, 0x80|op, payload)
	}
	var out []byte
	for first := true; len(payload) > 0; first = false {
		n := min(m.Fragment, len(payload))
		head := byte(0) // continuation
		if first {
			head = op
		}
		if n == len(payload) {
			head |= 0x80
		}
		out = appendFrame(out, head, payload[:n])
		payload = payload[n:]
		if m.Pings && len(payload) > 0 {
			out = appendFrame(out, 0x80|opPing, nil)
		}
	}
	return out
}

func appendFrame(out []byte, head byte, payload []byte) []byte {
	be := binary.BigEndian
	switch n := len(payload); {
	case n < 126:
		out = append(out, head, byte(n))
	case n < 1<<16:
		out = be.AppendUint16(append(out, head, 126), uint16(n))
	default:
		out = be.AppendUint64(append(out, head, 127), uint64(n))
	}
	return append(out, payload...)
}

func closePayload(code int, reason string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(code)), reason...)
}

// wire is a connection below the websocket. gorilla reads it and answers pings and closes on it; what
// the player says goes through the queue, so that a worker that does not read cannot stop the player.
// INVARIANT: one write is never in the middle of another one.
type wire struct {
	net.Conn

	mu sync.Mutex // of one write

	state sync.Mutex
	queue []posted
	wake  chan struct{}
}

type posted struct {
	bytes []byte
	chunk int // 0: all at once
}

func newWire(c net.Conn) *wire { return &wire{Conn: c, wake: make(chan struct{}, 1)} }

// Write is for gorilla.
func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Conn.Write(b)
}

// post queues bytes.
func (w *wire) post(b []byte, chunk int) {
	w.state.Lock()
	w.queue = append(w.queue, posted{b, chunk})
	w.state.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run writes what was posted until the connection ends.
func (w *wire) run(done <-chan struct{}) {
	for {
		w.state.Lock()
		queue := w.queue
		w.queue = nil
		w.state.Unlock()
		for _, p := range queue {
			if w.writeAll(p) != nil {
				return
			}
		}
		select {
		case <-w.wake:
		case <-done:
			return
		}
	}
}

// writeAll keeps the lock for the whole message: a pong in the middle of it would be no websocket.
func (w *wire) writeAll(p posted) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	b, chunk := p.bytes, p.chunk
	if chunk <= 0 {
		chunk = len(b)
	}
	for len(b) > 0 {
		n := min(chunk, len(b))
		if _, err := w.Conn.Write(b[:n]); err != nil {
			return err
		}
		if b = b[n:]; len(b) > 0 {
			time.Sleep(200 * time.Microsecond) // so that the pieces arrive as pieces
		}
	}
	return nil
}
