package bridge

import (
	"time"

	"github.com/gorilla/websocket"

	"github.com/pillion/pillion/protocol"
)

// socket is what the writer needs of a websocket. It sends one message at a time.
type socket interface {
	SetWriteDeadline(t time.Time) error
	WriteMessage(kind int, b []byte) error
	Close() error
}

// write sends until the goodbye is said or the socket is gone. It is the only one that writes.
func (c *Conn) write(ws socket) {
	defer c.q.end()
	var ping <-chan time.Time
	if every := c.s.cfg.PingInterval; every > 0 {
		t := time.NewTicker(every)
		defer t.Stop()
		ping = t.C
	}
	for {
		w, ok := c.q.next()
		if !ok {
			select {
			case <-c.q.wake:
			case <-ping:
				// A peer that owes a pong gets no other: it may be busy, and it is never death.
				if c.greeted.Load() && c.pinged.CompareAndSwap(false, true) {
					c.q.sendPing()
				}
			}
			continue
		}
		if w.ended {
			return
		}
		if err := c.one(ws, w); err != nil {
			c.s.log.Debug("cannot write to the worker", "session", c.id, "error", err)
			ws.Close()
			return
		}
		if w.bye != nil {
			return // the reader waits for the answer, or for CloseTimeout
		}
	}
}

// one writes one piece of work.
func (c *Conn) one(ws socket, w work) error {
	switch {
	case w.bye != nil:
		return c.put(ws, websocket.CloseMessage, websocket.FormatCloseMessage(w.bye.code, w.bye.reason))
	case w.pong != nil:
		return c.put(ws, websocket.PongMessage, w.pong)
	case w.ping:
		return c.put(ws, websocket.PingMessage, nil)
	case w.grant:
		m, ok := c.in.grant()
		if !ok {
			return nil
		}
		b, err := protocol.Encode(m)
		if err != nil {
			return err
		}
		return c.text(ws, b)
	case w.data != nil:
		return c.datum(ws, w.data)
	}
	return c.text(ws, w.control)
}

// datum writes what comes out of the data lane, unless its gate was closed meanwhile.
//
// INVARIANT: nothing of a closed gate is written after a message that was sent after the close. The
// item was taken when the control lane was empty: a message that is sent later is written later, and
// one that was sent before has seen the gate closed here.
func (c *Conn) datum(ws socket, i *item) error {
	live := i.gate == nil || i.gate.Live()
	n := int64(len(i.bytes))
	switch {
	case i.text && !live:
		return nil
	case i.text:
		return c.text(ws, i.bytes)
	case !live:
		c.credit.Load().Refund(i.stream, n)
		c.s.cfg.Metrics.dropped("unsent", len(i.bytes))
		c.recycle(i)
		return nil
	}
	err := c.put(ws, websocket.BinaryMessage, i.bytes)
	c.s.cfg.Metrics.sent("data", len(i.bytes))
	c.credit.Load().Written(n)
	if err == nil {
		c.recycle(i)
	}
	return err
}

// recycle gives the frame's memory back. After a failed write it is dropped: the socket may still hold it.
func (c *Conn) recycle(i *item) {
	b := i.bytes
	i.bytes = nil
	c.s.cfg.Recycle(b)
}

func (c *Conn) text(ws socket, b []byte) error {
	c.s.cfg.Metrics.sent("control", len(b))
	return c.put(ws, websocket.TextMessage, b)
}

func (c *Conn) put(ws socket, kind int, b []byte) error {
	var deadline time.Time
	if d := c.s.cfg.WriteTimeout; d > 0 {
		deadline = time.Now().Add(d)
	}
	if err := ws.SetWriteDeadline(deadline); err != nil {
		return err
	}
	return ws.WriteMessage(kind, b)
}
