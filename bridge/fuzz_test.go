package bridge

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// checker is a Handler that looks at everything that gets through.
type checker struct {
	t    *testing.T
	conn *Conn
	kept []*protocol.Writes
}

func (h *checker) Connected(c *Conn, hello protocol.Hello) {
	if hello.Credit.Connection <= 0 || hello.Credit.Stream <= 0 || hello.MaxFrame <= 0 {
		h.t.Fatalf("hello %+v", hello)
	}
	h.conn = c
	c.OpenStream(1, true)
	c.OpenStream(2, false)
	c.OpenStream(3, true)
	c.OpenStream(4, true)
	c.CloseStream(4)
}

func (h *checker) Message(c *Conn, m protocol.Message, w *protocol.Writes) {
	switch m := m.(type) {
	case protocol.Opened, protocol.Ready, protocol.Released, protocol.Progress, protocol.Credit, protocol.Error:
		if w != nil {
			h.t.Fatal("writes without a commit")
		}
	case protocol.Commit:
		h.commit(m, w)
	default:
		h.t.Fatalf("%s reached the handler", m.Type())
	}
}

func (h *checker) commit(m protocol.Commit, w *protocol.Writes) {
	if w == nil || w.ID != m.ID || w.Err != nil && (w.Frames != nil || w.Bytes != 0) {
		h.t.Fatalf("commit %+v with writes %+v", m, w)
	}
	var sum int64
	for _, b := range w.Frames {
		f, err := frame.Parse(b)
		if err != nil || f.Kind != frame.Writes || f.Base != m.ID || f.Epoch != m.Epoch || f.Stream != 1 && f.Stream != 3 {
			h.t.Fatalf("frame %+v %v in commit %+v", f, err, m)
		}
		sum += int64(len(b))
	}
	if sum != w.Bytes {
		h.t.Fatalf("%d bytes, said to be %d", sum, w.Bytes)
	}
	if h.kept = append(h.kept, w); len(h.kept) > 2 {
		h.conn.CommitDone(h.kept[0])
		h.kept = h.kept[1:]
	}
}

func (h *checker) Disconnected(*Conn, error) { h.t.Fatal("disconnected without a socket") }

// pack is how the fuzzer's input holds messages: a byte (odd: text), a length, the bytes.
func pack(messages ...any) (b []byte) {
	for _, m := range messages {
		var kind byte
		body, ok := m.([]byte)
		if text, is := m.(protocol.Message); is {
			kind = 1
			body, _ = protocol.Encode(text)
		} else if s, is := m.(string); is {
			kind, body = 1, []byte(s)
		} else if !ok {
			panic("neither")
		}
		b = append(b, kind)
		b = binary.LittleEndian.AppendUint16(b, uint16(len(body)))
		b = append(b, body...)
	}
	return b
}

// FuzzIncoming feeds messages into a connection that has no socket. Whatever they are, only valid
// and allowed ones get through, what is buffered stays within its bound, and nothing panics.
func FuzzIncoming(f *testing.F) {
	hello := testHello()
	f.Add(pack(hello, writes(1, 1, 1, 100), writes(3, 1, 1, 200), commit(1, 1)))
	f.Add(pack(hello, writes(1, 1, 1, 100), writes(9, 1, 1, 200), commit(1, 1), writes(1, 1, 2, 100), commit(2, 1)))
	f.Add(pack(hello, writes(4, 1, 1, 100), writes(2, 1, 2, 200), commit(1, 1), commit(2, 1)))
	f.Add(pack(hello, writes(1, 1, 1, 3000), writes(1, 1, 1, 3000), commit(1, 1), commit(1, 1)))
	f.Add(pack(hello, writes(1, 1, 1, 100), `{"type":"commit","id":1}`, commit(1, 1)))
	f.Add(pack(hello, records(1, 1, 1, 100)))
	f.Add(pack(hello, protocol.Credit{Connection: 1 << 52, Streams: map[uint32]int64{1: 1}}, protocol.Progress{}, hello,
		`{"type":"x","optional":true}`, `{"type":"x"}`, protocol.Lost{Task: "s/0", Epoch: 1, Code: "hung"}))
	f.Add(pack("{", []byte{}))
	f.Fuzz(func(t *testing.T, in []byte) {
		h := &checker{t: t}
		cfg := Config{Listen: "127.0.0.1:0", Token: "t", MaxControl: 4000, MaxFrame: 4000, MaxCommitBytes: 5000, MaxBufferedWrites: 6000,
			MaxQueuedControl: 10_000, Window: protocol.Window{Connection: 5000, Stream: 5000}}
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		c := newConn(&Server{cfg: cfg, log: cfg.Logger, handler: h, conns: map[*Conn]bool{}})
		defer func() {
			for _, timer := range c.timers {
				timer.Stop()
			}
		}()
		for len(in) >= 3 && !c.q.closing() {
			text, n := in[0]&1 == 1, min(int(binary.LittleEndian.Uint16(in[1:])), len(in)-3)
			c.receive(text, bytes.NewReader(in[3:3+n]))
			if in[0]&2 == 2 { // the writer has caught up
				c.in.grant()
			}
			in = in[3+n:]
			if control, _ := c.q.sizes(); control > cfg.MaxQueuedControl {
				t.Fatalf("%d bytes of control messages", control)
			}
			if got, bound := c.in.bufferedBytes(), cfg.MaxBufferedWrites+cfg.MaxCommitBytes+cfg.Window.Connection+cfg.MaxFrame; got > bound {
				t.Fatalf("%d bytes are buffered, bound %d", got, bound)
			}
		}
	})
}

// readAll must neither trust a hint nor read past its limit.
func FuzzReadAll(f *testing.F) {
	f.Add([]byte("abcdef"), int64(3), int64(6))
	f.Add([]byte("abcdef"), int64(1<<40), int64(5))
	f.Add([]byte{}, int64(0), int64(0))
	f.Fuzz(func(t *testing.T, in []byte, hint, limit int64) {
		limit &= 0xffff
		r := bytes.NewReader(in)
		b, fits, err := readAll(r, nil, hint, limit)
		if err != nil {
			t.Fatal(err)
		}
		if fits != (int64(len(in)) <= limit) || fits && !bytes.Equal(b, in) {
			t.Fatalf("read %d of %d bytes, limit %d, fits %v", len(b), len(in), limit, fits)
		}
		if read := int64(len(in) - r.Len()); read > limit+1 {
			t.Fatalf("read %d bytes past a limit of %d", read, limit)
		}
	})
}
