package bridge

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// pipe is a socket whose peer reads when the test says so.
type pipe struct {
	writes chan message // unbuffered: a write blocks until it is read
	closed chan struct{}
	once   sync.Once
}

func newPipe() *pipe { return &pipe{writes: make(chan message), closed: make(chan struct{})} }

func (p *pipe) SetWriteDeadline(time.Time) error { return nil }
func (p *pipe) WriteMessage(kind int, b []byte) error {
	select {
	case p.writes <- message{bytes: slices.Clone(b), key: fmt.Sprint(kind)}:
		return nil
	case <-p.closed:
		return errors.New("closed")
	}
}
func (p *pipe) Close() error { p.once.Do(func() { close(p.closed) }); return nil }

// read gives a short form of the next message: its kind, and the stream of a frame.
func (p *pipe) read(t *testing.T) string {
	t.Helper()
	synctest.Wait()
	select {
	case m := <-p.writes:
		switch m.key {
		case fmt.Sprint(websocket.TextMessage):
			d, err := protocol.Decode(m.bytes)
			if err != nil {
				t.Fatal(err)
			}
			if e, ok := d.(protocol.Waiting); ok {
				return e.Message
			}
			return d.Type()
		case fmt.Sprint(websocket.BinaryMessage):
			h, err := frame.ParseHeader(m.bytes)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf("frame %d", h.Stream)
		case fmt.Sprint(websocket.PingMessage):
			return "ping"
		case fmt.Sprint(websocket.PongMessage):
			return "pong " + string(m.bytes)
		}
		return fmt.Sprintf("close %s", m.bytes[2:])
	default:
		return "nothing"
	}
}

func (p *pipe) want(t *testing.T, all ...string) {
	t.Helper()
	for _, want := range all {
		if got := p.read(t); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

// lanes runs the writer of a connection on a pipe, in a bubble.
func lanes(t *testing.T, change func(*Config), test func(t *testing.T, c *Conn, p *pipe)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := detached(t, change)
		p := newPipe()
		var writer sync.WaitGroup
		writer.Go(func() { c.write(p) })
		test(t, c, p)
		p.Close()
		c.q.end()
		c.credit.Load().Close()
		writer.Wait()
		for _, timer := range c.timers {
			timer.Stop()
		}
	})
}

// detached is a connection without a socket that has said hello.
func detached(t testing.TB, change func(*Config)) *Conn {
	t.Helper()
	cfg := Config{Listen: "127.0.0.1:0", Token: "t"}
	if change != nil {
		change(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	c := newConn(&Server{cfg: cfg, log: cfg.Logger, handler: &recorder{events: make(chan event, 1000)}, conns: map[*Conn]bool{}})
	if v := c.greet(testHello()); v.err != nil {
		t.Fatal(v.err)
	}
	return c
}

func named(s string) protocol.Message {
	return protocol.Waiting{Code: protocol.CodeOk, Message: s}
}

func send(t *testing.T, g *gate.Gate, stream uint32) {
	t.Helper()
	if err := g.Send(t.Context(), stream, records(stream, 1, 0, 100)); err != nil {
		t.Fatal(err)
	}
}

func TestControlOvertakesData(t *testing.T) {
	lanes(t, nil, func(t *testing.T, c *Conn, p *pipe) {
		g := gate.New(1, c.Credit())
		for s := range uint32(4) {
			c.OpenStream(s+1, true)
			send(t, g, s+1)
		}
		p.want(t, "frame 1") // the second is in the writer's hands
		synctest.Wait()
		c.Send(named("a"))
		c.Send(named("b"))
		c.SendInStream(g, named("behind the frames"))
		c.Send(named("c"))
		p.want(t, "frame 2", "a", "b", "c", "frame 3", "frame 4", "behind the frames", "nothing")
	})
}

// INVARIANT: nothing of a closed gate is written after a message that was sent after the close.
func TestNothingOfAClosedGate(t *testing.T) {
	lanes(t, nil, func(t *testing.T, c *Conn, p *pipe) {
		dying, living := gate.New(1, c.Credit()), gate.New(1, c.Credit())
		for s := range uint32(3) {
			c.OpenStream(s+1, true)
		}
		send(t, dying, 1)
		send(t, dying, 2)
		send(t, living, 3)
		c.SendInStream(dying, named("restored"))
		c.SendInStream(living, named("still there"))
		p.want(t, "frame 1") // frame 2 is in the writer's hands
		synctest.Wait()
		send(t, dying, 1)
		before := c.Credit().Outstanding(1 << 20)
		dying.Close()
		c.Send(named("lost"))
		c.CloseStream(1)
		p.want(t, "frame 2", "lost", "frame 3", "still there", "nothing")
		one := int64(len(records(1, 1, 0, 100)))
		if after := c.Credit().Outstanding(1 << 20); after != before-one {
			t.Fatalf("outstanding %d, was %d: the dropped frame was not refunded", after, before)
		}
		c.SendInStream(nil, named("no gate"))
		p.want(t, "no gate")
	})
}

// The memory of a frame is given back once: when it was written, and when it was dropped.
func TestFramesAreRecycled(t *testing.T) {
	recycled := make(chan uint32, 10)
	keep := func(cfg *Config) {
		cfg.Recycle = func(f []byte) {
			h, _ := frame.ParseHeader(f)
			recycled <- h.Stream
		}
	}
	lanes(t, keep, func(t *testing.T, c *Conn, p *pipe) {
		dying, living := gate.New(1, c.Credit()), gate.New(1, c.Credit())
		for s := range uint32(3) {
			c.OpenStream(s+1, true)
		}
		send(t, living, 1)
		send(t, dying, 2)
		send(t, living, 3)
		dying.Close()
		p.want(t, "frame 1", "frame 3", "nothing")
		for _, want := range []uint32{1, 2, 3} {
			if got := <-recycled; got != want {
				t.Errorf("the frame of stream %d was recycled, want %d", got, want)
			}
		}
		if len(recycled) > 0 {
			t.Errorf("a frame of stream %d was recycled twice", <-recycled)
		}
	})
}

func TestGoodbyeFlushesControl(t *testing.T) {
	lanes(t, nil, func(t *testing.T, c *Conn, p *pipe) {
		g := gate.New(1, c.Credit())
		c.OpenStream(1, true)
		for range 5 {
			send(t, g, 1)
		}
		synctest.Wait()
		c.Send(named("a"))
		c.fail(protocol.CloseBadMessage, protocol.CodeBadMessage, "because")
		c.Send(named("too late"))
		p.want(t, "frame 1", "a", "error", "close because", "nothing")
		if err := g.Send(t.Context(), 1, nil); !errors.Is(err, gate.ErrClosed) {
			t.Fatal(err)
		}
	})
}

// A worker that reads nothing is not dead, however long: one ping waits for it, and no more.
func TestMissingPongIsNotDeath(t *testing.T) {
	lanes(t, nil, func(t *testing.T, c *Conn, p *pipe) {
		time.Sleep(time.Hour) // the bubble's time
		c.Send(named("a"))
		p.want(t, "ping", "a", "nothing")
		time.Sleep(time.Hour)
		p.want(t, "nothing") // the pong is still owed
		c.pinged.Store(false)
		time.Sleep(time.Minute)
		p.want(t, "ping", "nothing")
	})
}

func TestPongsOfAFloodAreOne(t *testing.T) {
	lanes(t, nil, func(t *testing.T, c *Conn, p *pipe) {
		c.Send(named("blocks"))
		synctest.Wait()
		for i := range 1000 {
			c.q.sendPong([]byte(fmt.Sprint(i)))
		}
		c.Send(named("a"))
		p.want(t, "blocks", "a", "pong 999", "nothing")
	})
}

func TestRestoringIsReplaced(t *testing.T) {
	lanes(t, nil, func(t *testing.T, c *Conn, p *pipe) {
		c.Send(named("blocks"))
		synctest.Wait()
		for i := range int64(1000) {
			for _, table := range []string{"a", "b"} {
				c.Send(protocol.Restoring{Task: "s/0", Epoch: 1, Table: table, Records: i})
			}
		}
		c.Send(named("end"))
		p.want(t, "blocks", "restoring", "restoring", "end", "nothing")
		c.Send(protocol.Restoring{Task: "s/0", Epoch: 1, Table: "a"}) // is new again
		p.want(t, "restoring", "nothing")
	})
}

func TestFullControlLaneCloses(t *testing.T) {
	lanes(t, func(c *Config) { c.MaxQueuedControl = 10_000 }, func(t *testing.T, c *Conn, p *pipe) {
		for i := range 1000 {
			c.Send(named(fmt.Sprint(i)))
		}
		if control, _ := c.q.sizes(); control > 10_000 {
			t.Fatalf("%d bytes are queued", control)
		}
		last := ""
		for got := p.read(t); got != "nothing"; got = p.read(t) {
			last = got
		}
		if last != "close the worker does not read its control messages" {
			t.Fatalf("last %q", last)
		}
	})
}

// A worker that reads nothing for a while finds everything in order.
func TestTenThousandMessagesWaitForTheReader(t *testing.T) {
	s, r := start(t, nil)
	w, c := worker(t, s, r)
	const n = 10_000
	for i := range n {
		c.Send(named(fmt.Sprintf("%d %s", i, strings.Repeat("x", 300)))) // more than the kernel takes
	}
	for i := range n {
		m, ok := w.hear().(protocol.Waiting)
		if got, _, _ := strings.Cut(m.Message, " "); !ok || got != fmt.Sprint(i) {
			t.Fatalf("message %d is %q", i, got)
		}
	}
}

// The worker reads why it was cut off, although it had sent more than was read.
func TestGoodbyeReachesAFloodingWorker(t *testing.T) {
	s, r := start(t, func(c *Config) { c.Window = protocol.Window{Connection: 10_000, Stream: 10_000} })
	w, c := worker(t, s, r)
	c.OpenStream(1, true)
	var flood sync.WaitGroup
	flood.Go(func() {
		b := writes(1, 1, 1, 1000)
		for range 20_000 { // no credit is waited for
			if w.WriteMessage(websocket.BinaryMessage, b) != nil {
				return
			}
		}
	})
	for { // grants may come first
		m := w.hear()
		if e, ok := m.(protocol.Error); ok {
			if e.Code != protocol.CodeCreditOverrun || !strings.Contains(e.Message, "granted to") {
				t.Fatalf("%+v", e)
			}
			break
		}
	}
	w.closed(protocol.CloseCreditOverrun, "")
	w.Close()
	flood.Wait()
	r.next(t, "disconnected")
}

func TestWithheldCreditOverTheSocket(t *testing.T) {
	s, r := start(t, func(c *Config) {
		c.MaxCommitBytes, c.MaxBufferedWrites = 5000, 5000
		c.Window = protocol.Window{Connection: 1000, Stream: 1 << 20}
	})
	w, c := worker(t, s, r)
	c.OpenStream(1, true)
	var under []*protocol.Writes
	for id := int64(1); id <= 10; id++ {
		w.frame(writes(1, 1, id, 1000))
		if m, ok := w.hear().(protocol.Credit); !ok || m.Connection != 1000*id+1000 {
			t.Fatalf("commit %d: %+v", id, m)
		}
		w.say(commit(id, 1))
		under = append(under, r.next(t, "message").writes)
	}
	w.frame(writes(1, 1, 11, 1000))
	w.say(protocol.Progress{})
	r.next(t, "message")
	c.Send(named("no credit came before this"))
	w.hear()
	c.CommitDone(under[0])
	if m, ok := w.hear().(protocol.Credit); !ok || m.Connection != 12_000 {
		t.Fatalf("%+v", m)
	}
}
