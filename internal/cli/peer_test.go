package cli

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// patience is how long anything may take.
const patience = 30 * time.Second

const testToken = "a secret of the test"

// peer is a worker written by hand. It answers what it is asked, grants what it takes, and says whatever a
// test wants it to say.
type peer struct {
	t       *testing.T
	ws      *websocket.Conn
	tasks   map[string]*peerTask
	streams map[uint32]*peerStream
	taken   int64
	greedy  bool // grants nothing
	lastID  int64
}

type peerTask struct {
	protocol.Assign
	running bool
	rows    map[string]string
	records []frame.Record
	next    int64
}

type peerStream struct {
	task  *peerTask
	taken int64
}

// heard is one thing that the sidecar said.
type heard struct {
	message protocol.Message
	close   int // 0: not closed; -1: without a code
}

var peerWindow = protocol.Window{Connection: 4 << 20, Stream: 1 << 20}

// peerHello is what every worker of these tests declares, so that the group never has to join anew.
func peerHello() protocol.Hello {
	return protocol.Hello{
		ID: 1, Versions: []int{1}, Client: protocol.Software{Name: "peer", Version: "1"}, MaxFrame: 1 << 27, Credit: peerWindow,
		Sets: []protocol.Set{
			{Name: "s", Sources: []string{"in"}, Tables: []protocol.Table{{Name: "t"}}}, {Name: "bulk", Sources: []string{"bulk"}},
		},
		Outputs: []string{"out"},
	}
}

func peerHeader() http.Header { return http.Header{"Authorization": {"Bearer " + testToken}} }

// dial connects a worker that has said nothing yet.
func dial(t *testing.T, url string) *peer {
	t.Helper()
	d := websocket.Dialer{
		Subprotocols: []string{protocol.Subprotocol}, HandshakeTimeout: patience,
		NetDial: func(network, addr string) (net.Conn, error) {
			c, err := net.Dial(network, addr)
			if err == nil {
				err = c.(*net.TCPConn).SetReadBuffer(64 << 10) // little waits in the kernel
			}
			return c, err
		},
	}
	ws, _, err := d.Dial(url, peerHeader())
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, ws: ws, tasks: map[string]*peerTask{}, streams: map[uint32]*peerStream{}, lastID: 1}
	t.Cleanup(func() { ws.Close() })
	return p
}

// greet says hello and waits for welcome.
func (p *peer) greet() *peer {
	p.t.Helper()
	p.say(peerHello())
	p.until("welcome", func(h heard) bool { _, ok := h.message.(protocol.Welcome); return ok })
	return p
}

// work is a peer whose tasks run.
func work(t *testing.T, url string) *peer {
	t.Helper()
	p := dial(t, url).greet()
	p.allRun()
	return p
}

func (p *peer) allRun() {
	p.t.Helper()
	p.until("running tasks", func(heard) bool {
		running := 0
		for _, t := range p.tasks {
			if t.running {
				running++
			}
		}
		return running == 3
	})
}

func (p *peer) say(m protocol.Message) {
	p.t.Helper()
	b, err := protocol.Encode(m)
	if err != nil {
		p.t.Fatal(err)
	}
	p.send(websocket.TextMessage, b)
}

func (p *peer) text(format string, args ...any) {
	p.t.Helper()
	p.send(websocket.TextMessage, fmt.Appendf(nil, format, args...))
}

func (p *peer) binary(b []byte) { p.t.Helper(); p.send(websocket.BinaryMessage, b) }

func (p *peer) send(kind int, b []byte) {
	p.t.Helper()
	if err := p.ws.WriteMessage(kind, b); err != nil {
		p.t.Fatalf("cannot send: %v", err)
	}
}

// hear takes one message and does what an honest worker does about it.
func (p *peer) hear() heard {
	p.t.Helper()
	if err := p.ws.SetReadDeadline(time.Now().Add(patience)); err != nil {
		p.t.Fatal(err)
	}
	kind, b, err := p.ws.ReadMessage()
	var closed *websocket.CloseError
	switch {
	case errors.As(err, &closed):
		return heard{close: closed.Code}
	case errors.Is(err, net.ErrClosed) || err != nil && !strings.Contains(err.Error(), "timeout"):
		return heard{close: -1}
	case err != nil:
		p.t.Fatalf("nothing comes: %v", err)
	}
	if kind == websocket.BinaryMessage {
		p.frame(b)
		return heard{}
	}
	m, err := protocol.Decode(b)
	if err != nil {
		p.t.Fatalf("the sidecar says %s: %v", b, err)
	}
	p.answer(m)
	return heard{message: m}
}

func (p *peer) frame(b []byte) {
	p.t.Helper()
	f, err := frame.Parse(b)
	if err != nil {
		p.t.Fatal(err)
	}
	s := p.streams[f.Stream]
	for r := range f.Records {
		if f.Kind == frame.Restore {
			s.task.rows[string(r.Key)] = string(r.Value)
		} else {
			s.task.records = append(s.task.records, r)
		}
	}
	if f.Kind == frame.Records {
		s.task.next = f.Next
	}
	p.taken, s.taken = p.taken+int64(len(b)), s.taken+int64(len(b))
	if !p.greedy {
		p.say(protocol.Credit{Connection: p.taken + peerWindow.Connection, Streams: map[uint32]int64{f.Stream: s.taken + peerWindow.Stream}})
	}
}

func (p *peer) answer(m protocol.Message) {
	switch m := m.(type) {
	case protocol.Assign:
		t := &peerTask{Assign: m, rows: map[string]string{}}
		points := map[string]*string{}
		for _, s := range m.Sources {
			p.streams[s.Stream] = &peerStream{task: t}
		}
		for _, s := range m.Tables {
			p.streams[s.Stream], points[s.Name] = &peerStream{task: t}, nil
		}
		p.tasks[m.Task] = t
		p.say(protocol.Opened{Re: m.ID, Task: m.Task, Epoch: m.Epoch, Checkpoints: points})
	case protocol.Restored:
		if t := p.tasks[m.Task]; t.Epoch == m.Epoch {
			t.running = true
			p.say(protocol.Ready{Re: m.ID, Task: m.Task, Epoch: m.Epoch})
		}
	case protocol.Lost:
		if t := p.tasks[m.Task]; t.Epoch == m.Epoch {
			t.running = false
		}
	}
}

// until hears on until something is so. A close that nobody waits for is a failure.
func (p *peer) until(what string, so func(heard) bool) heard {
	p.t.Helper()
	for {
		h := p.hear()
		if so(h) {
			return h
		}
		if h.close != 0 {
			p.t.Fatalf("closed with %d while waiting for %s", h.close, what)
		}
	}
}

func (p *peer) hearsError(code string) protocol.Error {
	p.t.Helper()
	h := p.until("error "+code, func(h heard) bool { e, ok := h.message.(protocol.Error); return ok && e.Code == code })
	return h.message.(protocol.Error)
}

// isClosed hears an error with a code and then the close.
func (p *peer) isClosed(closeCode int, code string) {
	p.t.Helper()
	p.hearsError(code)
	if h := p.until("the close", func(h heard) bool { return h.close != 0 }); h.close != closeCode {
		p.t.Fatalf("closed with %d, want %d", h.close, closeCode)
	}
}

// hearsOf waits for a message of type M that fits.
func hearsOf[M protocol.Message](p *peer, fits func(M) bool) M {
	p.t.Helper()
	var want M
	h := p.until(want.Type(), func(h heard) bool { m, ok := h.message.(M); return ok && fits(m) })
	return h.message.(M)
}

// isAborted hears that a commit is refused, that its epoch is over, and that the task is opened anew.
func (p *peer) isAborted(id int64, code string) {
	p.t.Helper()
	a := hearsOf(p, func(m protocol.Aborted) bool { return m.Re == id })
	if a.Code != code {
		p.t.Fatalf("aborted with %s (%s), want %s", a.Code, a.Message, code)
	}
	hearsOf(p, func(m protocol.Lost) bool { return m.Task == a.Task && m.Epoch == a.Epoch })
	p.allRun()
}

// writes is a frame of one record; a nil key is null.
func writes(stream, epoch uint32, id int64, key []byte, value string) []byte {
	b := frame.NewBuilder(frame.Writes)
	b.Reset(stream, epoch, id)
	b.Append(id, 0, key, []byte(value), nil)
	return b.Finish(nil, 0, nil)
}

func (p *peer) id() int64 { p.lastID++; return p.lastID }

func (p *peer) task(name string) *peerTask { return p.tasks[name] }

func (t *peerTask) changelog() uint32 { return t.Tables[0].Stream }

// commit ends the writes with an id at a position of the first source.
func (p *peer) commit(t *peerTask, id, next int64) {
	p.t.Helper()
	p.say(protocol.Commit{ID: id, Task: t.Task, Epoch: t.Epoch, SourceNext: map[string]int64{t.Sources[0].Topic: next}})
}

func (p *peer) String() string { return fmt.Sprint(slices.Sorted(maps.Keys(p.tasks))) }
