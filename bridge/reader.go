package bridge

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/gorilla/websocket"

	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// version is the only protocol version that there is so far.
const version = 1

// reader is the state that only the reader goroutine touches.
type reader struct {
	hello  bool  // has been said
	commit int64 // id of the last one
}

// read handles messages until the socket ends. After a goodbye of ours it throws away what comes,
// so that the peer can read the goodbye before the socket is closed.
func (c *Conn) read(ws *websocket.Conn) error {
	for {
		kind, r, err := ws.NextReader()
		if err != nil {
			return err
		}
		c.touch()
		if !c.q.closing() {
			c.receive(kind == websocket.TextMessage, r)
		}
		// NextReader skips what is left.
	}
}

// receive handles one message. There is no read limit in the socket, which would say goodbye with a
// code of its own: nothing is read past the limit of the message's kind.
func (c *Conn) receive(text bool, r io.Reader) {
	var v verdict
	if text {
		b, fits, err := readAll(r, nil, 0, c.s.cfg.MaxControl)
		switch {
		case err != nil:
			return // the next read fails alike
		case !fits:
			v = closing(protocol.CloseTooLarge, protocol.CodeTooLarge,
				"a control message of more than %d bytes, which is max_control", c.s.cfg.MaxControl)
		default:
			c.s.cfg.Metrics.received("control", len(b))
			v = c.control(b)
		}
	} else {
		v = c.data(r)
	}
	c.tell(v)
}

// tell answers as a verdict says.
func (c *Conn) tell(v verdict) {
	switch {
	case v.err == nil:
	case v.close != 0:
		c.s.warn("the worker breaks the protocol", "session", c.id, "code", v.close, "error", v.err.Message)
		c.Send(*v.err)
		c.Close(v.close, v.err.Message)
	default:
		c.s.warn("refused a message of the worker", "session", c.id, "code", v.err.Code, "error", v.err.Message)
		c.Send(*v.err)
	}
}

// control handles a text message.
func (c *Conn) control(b []byte) verdict {
	m, err := protocol.Decode(b)
	if err != nil {
		return c.undecodable(err)
	}
	if m == nil { // unknown and optional
		return verdict{}
	}
	if !c.reader.hello {
		return c.greet(m)
	}
	switch m := m.(type) {
	case protocol.Commit:
		if m.ID <= c.reader.commit {
			return closing(protocol.CloseBadMessage, protocol.CodeBadMessage, "commit %d came after commit %d: ids increase, so that each answer has one meaning", m.ID, c.reader.commit)
		}
		c.reader.commit = m.ID
		w, v := c.in.commit(m)
		if v.close == 0 && !c.s.message(c, m, w) {
			c.in.done(w)
		}
		return v
	case protocol.Credit:
		c.credit.Load().Grant(m.Connection, m.Streams)
	case protocol.Opened, protocol.Ready, protocol.Released, protocol.Locate, protocol.Progress, protocol.Error:
	case protocol.Hello:
		return verdict{err: &protocol.Error{Re: m.ID, Code: protocol.CodeNotAllowed, Message: "hello was said before: it is the first message of a connection only"}}
	default:
		return verdict{err: &protocol.Error{Re: protocol.RequestID(m), Code: protocol.CodeNotAllowed, Message: "only the sidecar sends " + m.Type()}}
	}
	c.s.message(c, m, nil)
	return verdict{}
}

// undecodable answers a message that cannot be read. Only one that is a request, or of an unknown
// type, can be refused by itself, and a commit cannot: the ones behind it would be taken, and its
// rows be lost without anybody knowing.
func (c *Conn) undecodable(err error) verdict {
	bad := &protocol.DecodeError{Code: protocol.CodeBadMessage, Message: err.Error()}
	errors.As(err, &bad)
	answer := bad.Answer()
	v := verdict{err: &answer}
	if bad.Fatal() || !c.reader.hello || bad.Type == protocol.TypeCommit {
		v.close = protocol.CloseBadMessage
	}
	return v
}

// greet handles the first message.
func (c *Conn) greet(m protocol.Message) verdict {
	hello, ok := m.(protocol.Hello)
	if !ok {
		return closing(protocol.CloseBadMessage, protocol.CodeNotAllowed, "%s came before hello, which is the first message of a connection", m.Type())
	}
	if !slices.Contains(hello.Versions, version) {
		v := closing(protocol.CloseVersion, protocol.CodeVersion,
			"this sidecar speaks protocol version %d, the worker's client offers %s: update the older of the two", version, clip(fmt.Sprint(hello.Versions), 60))
		v.err.Re = hello.ID
		return v
	}
	if !c.greeted.CompareAndSwap(false, true) {
		return verdict{} // too late: the deadline has closed the connection
	}
	c.reader.hello = true
	credit := gate.NewCredit(c, hello.Credit.Connection, hello.Credit.Stream)
	credit.LimitQueue(c.s.cfg.MaxQueuedData)
	c.hello = hello
	c.credit.Store(credit)
	c.s.connected(c, hello)
	return verdict{}
}

// data handles a binary message: only writes frames may come, and only whole and valid ones are
// kept. Parsing costs less than a tenth of what producing them does, and means that nothing behind
// the bridge sees bytes that were not checked.
func (c *Conn) data(r io.Reader) verdict {
	head := make([]byte, frame.HeaderSize)
	if n, err := io.ReadFull(r, head); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return closing(protocol.CloseBadMessage, protocol.CodeBadMessage, "a frame of %d bytes, its header alone has %d", n, frame.HeaderSize)
		}
		return verdict{}
	}
	h, err := frame.ParseHeader(head)
	switch {
	case err != nil:
		return badFrame(err)
	case !c.reader.hello:
		return closing(protocol.CloseBadMessage, protocol.CodeNotAllowed, "a frame came before hello, which is the first message of a connection")
	case h.Kind != frame.Writes:
		return closing(protocol.CloseBadMessage, protocol.CodeBadMessage, "a %s frame: the worker sends writes frames only", h.Kind)
	}
	limit := c.s.cfg.MaxFrame
	b, fits, err := readAll(r, head, sizeHint(h), limit)
	if err != nil {
		return verdict{}
	}
	if !fits {
		return closing(protocol.CloseTooLarge, protocol.CodeTooLarge, "a frame of more than %d bytes, which is max_frame: cut frames at 256 KiB", limit)
	}
	if _, err := frame.Parse(b); err != nil {
		return badFrame(err)
	}
	c.s.cfg.Metrics.received("writes", len(b))
	v := c.in.take(h, b)
	if v.drop != "" {
		c.s.cfg.Metrics.dropped(v.drop, len(b))
	}
	c.announce()
	return v
}

func badFrame(err error) verdict {
	return closing(protocol.CloseBadMessage, protocol.CodeBadMessage, "%v", err)
}

// sizeHint is about how long a frame is by its header, which may lie.
func sizeHint(h frame.Header) int64 {
	per := int64(8)
	if h.Has(frame.FlagTimestamps) {
		per += 8
	}
	if h.Has(frame.FlagHeaders) {
		per += 4
	}
	return frame.HeaderSize + int64(h.Count)*per + 2*(int64(h.Count)/8+1) +
		int64(h.KeyBytes) + int64(h.ValueBytes) + int64(h.HeaderBytes)
}

// firstRead is what is allocated on a header's word alone.
const firstRead = 1 << 20

// readAll reads a message behind head up to limit; false: it is longer. hint is its expected length.
func readAll(r io.Reader, head []byte, hint, limit int64) ([]byte, bool, error) {
	size := min(max(hint, 512), firstRead, limit) + 1 // one byte of room, to see the end without growing
	b := append(make([]byte, 0, size), head...)
	for {
		if int64(len(b)) > limit {
			return nil, false, nil
		}
		if len(b) == cap(b) {
			b = slices.Grow(b, int(max(1, min(int64(len(b)), limit+1-int64(len(b))))))
		}
		n, err := r.Read(b[len(b):min(int64(cap(b)), limit+1)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, int64(len(b)) <= limit, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
}
