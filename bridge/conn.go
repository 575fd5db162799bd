package bridge

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// Conn is one worker connection. Its methods may be called from anywhere, also from the Handler,
// and never block.
type Conn struct {
	s  *Server
	id string
	q  *queue
	in *inbox

	credit   atomic.Pointer[gate.Credit] // from hello on
	hello    protocol.Hello              // written once, before Connected
	activity atomic.Int64                // unix nanoseconds
	pinged   atomic.Bool                 // a ping is not answered yet
	greeted  atomic.Bool                 // a valid hello came, or its deadline passed
	reader   reader                      // owned by the reader goroutine

	mu     sync.Mutex
	ws     *websocket.Conn // nil until upgraded
	timers []*time.Timer
	sent   int // close code that we said
}

func newConn(s *Server) *Conn {
	return &Conn{s: s, id: rand.Text()[:10], q: newQueue(s.cfg.MaxQueuedControl), in: newInbox(&s.cfg)}
}

// ID names the connection in the logs of both sides (welcome.session).
func (c *Conn) ID() string { return c.id }

// Hello is what the worker said.
func (c *Conn) Hello() protocol.Hello { return c.hello }

// Window is the worker's initial credit, for welcome.
func (c *Conn) Window() protocol.Window { return c.s.cfg.Window }

// Credit is the ledger that the connection's gates spend from.
func (c *Conn) Credit() *gate.Credit { return c.credit.Load() }

// LastActivity is when the worker last sent anything, pongs included.
func (c *Conn) LastActivity() time.Time { return time.Unix(0, c.activity.Load()) }

// Owes says whether the worker has been sent bytes that it has not granted anew.
func (c *Conn) Owes() bool { return c.unacknowledged() > 0 }

func (c *Conn) unacknowledged() int64 {
	credit := c.credit.Load()
	if credit == nil {
		return 0
	}
	return credit.Outstanding(c.hello.Credit.Connection)
}

// Send queues a control message; it overtakes all data. A restoring message replaces one of the same
// table that still waits.
func (c *Conn) Send(m protocol.Message) {
	b, ok := c.encode(m)
	if !ok {
		return
	}
	key := ""
	if r, is := m.(protocol.Restoring); is {
		key = fmt.Sprintf("%d/%s/%s", r.Epoch, r.Task, r.Table)
	}
	if !c.q.send(b, key) {
		c.s.log.Error("the worker does not read: its queue of control messages is full", "session", c.id, "bytes", c.s.cfg.MaxQueuedControl)
		c.Close(protocol.CloseHung, "the worker does not read its control messages")
	}
}

// SendInStream queues a message behind the frames that are queued now. It is dropped when g is
// closed by the time its turn comes.
func (c *Conn) SendInStream(g *gate.Gate, m protocol.Message) {
	if b, ok := c.encode(m); ok {
		c.q.sendData(item{text: true, bytes: b, gate: g})
	}
}

// Enqueue makes Conn the gate.Out of its gates.
func (c *Conn) Enqueue(g *gate.Gate, stream uint32, b []byte) {
	c.q.sendData(item{bytes: b, gate: g, stream: stream})
}

func (c *Conn) encode(m protocol.Message) ([]byte, bool) {
	b, err := protocol.Encode(m)
	if err != nil {
		c.s.log.Error("a message cannot be encoded", "session", c.id, "type", m.Type(), "error", err)
		c.Close(protocol.CloseInternal, "a message cannot be encoded")
		return nil, false
	}
	return b, true
}

// OpenStream registers a stream in both directions. Only a writable one takes writes frames.
func (c *Conn) OpenStream(stream uint32, writable bool) {
	c.in.openStream(stream, writable)
	if credit := c.credit.Load(); credit != nil {
		credit.Open(stream)
	}
}

// CloseStream forgets a stream when its epoch is over: frames of it are credited and dropped from
// now on, so that the last commit of a revoked task has to be in before.
func (c *Conn) CloseStream(stream uint32) {
	c.in.closeStream(stream)
	if credit := c.credit.Load(); credit != nil {
		credit.Forget(stream)
	}
}

// CommitDone gives the buffered bytes of a commit back.
func (c *Conn) CommitDone(w *protocol.Writes) {
	c.in.done(w)
	c.announce()
}

func (c *Conn) announce() {
	if c.in.grantDue() {
		c.q.sendGrant()
	}
}

// fail tells the worker why and closes.
func (c *Conn) fail(closeCode int, code, message string) {
	c.Send(protocol.Error{Code: code, Message: message})
	c.Close(closeCode, message)
}

// Close ends the connection behind the control messages queued so far; data is dropped. The first
// close counts. After CloseTimeout the socket is closed, flushed or not.
func (c *Conn) Close(code int, reason string) {
	if !c.q.close(code, clip(reason, maxReason)) {
		return
	}
	if credit := c.credit.Load(); credit != nil {
		credit.Close()
	}
	c.mu.Lock()
	c.sent = code
	c.mu.Unlock()
	c.cutAfter(c.s.cfg.CloseTimeout)
}

// ErrVanished is the end of a connection whose socket was closed without a goodbye.
var ErrVanished = errors.New("the worker closed its socket without a goodbye")

// ErrGoodbye is the end of a connection that the worker closed as the protocol says.
var ErrGoodbye = errors.New("the worker said goodbye")

// maxReason is what a close frame can hold.
const maxReason = 123

// cutAfter closes the socket after a while, whoever is blocked on it.
func (c *Conn) cutAfter(d time.Duration) {
	c.after(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.ws != nil {
			c.ws.Close()
		}
	})
}

func (c *Conn) after(d time.Duration, f func()) *time.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := time.AfterFunc(d, f)
	c.timers = append(c.timers, t)
	return t
}

// serve runs an upgraded connection until its socket is closed.
func (c *Conn) serve(ws *websocket.Conn) {
	c.mu.Lock()
	c.ws = ws
	c.mu.Unlock()
	if c.q.closing() { // while upgrading: the timer found no socket
		c.cutAfter(c.s.cfg.CloseTimeout)
	}
	shrink(ws.NetConn())
	c.touch()
	c.after(c.s.cfg.HelloTimeout, func() {
		if c.greeted.CompareAndSwap(false, true) {
			c.fail(protocol.CloseHelloTimeout, protocol.CodeHelloTimeout,
				fmt.Sprintf("no hello within %v: it is the first message of a connection", c.s.cfg.HelloTimeout))
		}
	})
	ws.SetPingHandler(func(b string) error { c.touch(); c.q.sendPong([]byte(b)); return nil })
	ws.SetPongHandler(func(string) error { c.touch(); c.pinged.Store(false); return nil })
	ws.SetCloseHandler(func(int, string) error { return nil }) // the writer answers

	var writer sync.WaitGroup
	writer.Go(func() { c.write(ws) })
	var err error
	defer func() { // also when the handler panics
		c.end(ws, err)
		writer.Wait()
		ws.Close()
		c.finish(err)
	}()
	err = c.read(ws)
}

// shrink bounds what waits in the kernel, where control cannot overtake data.
func shrink(conn net.Conn) {
	if b, ok := conn.(interface{ SetWriteBuffer(int) error }); ok {
		b.SetWriteBuffer(frame.DefaultTarget) // without it only the latency is worse
	}
}

// end lets the writer stop: behind an answer to the peer's close, or at once.
func (c *Conn) end(ws *websocket.Conn, err error) {
	var peer *websocket.CloseError
	if errors.As(err, &peer) && peer.Code != websocket.CloseAbnormalClosure {
		c.q.goodbye(peer.Code)
		c.cutAfter(min(time.Second, c.s.cfg.CloseTimeout))
		return
	}
	c.q.end()
	ws.Close()
}

func (c *Conn) finish(err error) {
	c.mu.Lock()
	for _, t := range c.timers {
		t.Stop()
	}
	code := c.sent
	c.mu.Unlock()
	if credit := c.credit.Load(); credit != nil {
		credit.Close()
	}
	switch {
	case err == nil || errors.Is(err, io.EOF) || websocket.IsCloseError(err, websocket.CloseAbnormalClosure):
		err = ErrVanished
	case websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway):
		err = ErrGoodbye
	}
	c.s.cfg.Metrics.closed(code)
	c.s.disconnected(c, err)
}

func (c *Conn) touch() { c.activity.Store(time.Now().UnixNano()) }
