package transcripts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/hashicorp/go-hclog"

	"github.com/pillion/pillion/bridge"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/session"
)

// patience is how long anything may take.
const patience = 20 * time.Second

// player plays one transcript.
type player struct {
	t      *testing.T
	lines  []line
	at     int // of the present line
	world  *world
	runner *session.Runner
	server *bridge.Server
	events *events

	*connection
	connections int
	released    sync.WaitGroup // readers of sockets
}

// connection is what is known of the present connection.
type connection struct {
	ws      *websocket.Conn
	conn    *bridge.Conn // the sidecar's side; nil before welcome
	items   chan item
	pongs   chan string
	pending []item // came and not compared yet
	credit  map[string]int64
	renaming
	tasks   map[string]object // last assign, in the sidecar's numbers
	owner   map[int64]string  // task by the sidecar's stream
	flows   map[uint32]*flow  // latest by the sidecar's stream
	pushed  map[int]bool      // frames given to their flow, by line
	writes  map[int64][][]byte
	commits map[int64]object
	opened  map[uint32]string // checkpoints that opened named
	points  map[int64]string  // checkpoints of the stores, by the sidecar's stream
}

func (p *player) play() {
	for p.at = range p.lines {
		l := &p.lines[p.at]
		switch {
		case l.Connect:
			p.connect()
		case l.Cause != "":
			p.quiet(l)
			p.happen(l)
		case l.From == "worker":
			p.say(l)
		case l.From == "sidecar":
			p.hear(l)
		}
	}
	p.at = len(p.lines) - 1
	p.quiet(nil)
}

func (p *player) fail(format string, args ...any) {
	p.t.Helper()
	l := p.lines[p.at]
	p.t.Fatalf("line %d: %s\n%s", l.number, fmt.Sprintf(format, args...), l.text)
}

// await takes the next value, or fails.
func await[T any](p *player, from <-chan T, what string) T {
	p.t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		p.fail("%s did not come; pending: %v; session: %+v", what, p.pending, p.runner.Status())
		panic("unreachable")
	}
}

func (p *player) connect() {
	if p.connection != nil {
		p.ws.NetConn().Close()
	}
	p.connections++
	p.connection = &connection{
		ws: p.dial(), items: make(chan item, 9999), pongs: make(chan string, 9), credit: map[string]int64{}, renaming: *newRenaming(),
		tasks: map[string]object{}, owner: map[int64]string{}, flows: map[uint32]*flow{}, pushed: map[int]bool{},
		writes: map[int64][][]byte{}, commits: map[int64]object{}, opened: map[uint32]string{}, points: map[int64]string{},
	}
	c := p.connection
	c.ws.SetPongHandler(func(mark string) error { c.pongs <- mark; return nil })
	p.released.Go(func() { c.read() })
}

func (p *player) dial() *websocket.Conn {
	p.t.Helper()
	d := websocket.Dialer{Subprotocols: []string{protocol.Subprotocol}, HandshakeTimeout: patience}
	url := p.server.URL()
	if path, ok := strings.CutPrefix(url, "unix:"); ok {
		url = "ws://localhost/"
		d.NetDialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	}
	ws, _, err := d.Dial(url, nil)
	if err != nil {
		p.fail("cannot connect: %v", err)
	}
	p.t.Cleanup(func() { ws.Close() })
	return ws
}

// say plays a line of the worker.
func (p *player) say(l *line) {
	switch {
	case l.Held:
	case l.Close != nil:
		p.ws.NetConn().Close()
		p.conn = nil
	case l.Frame != nil:
		b := p.frame(l.bytes(p.t), p.taskOf(l))
		id := int64(b[16]) // commit ids of transcripts are small
		p.writes[id] = append(p.writes[id], b)
		p.send(websocket.BinaryMessage, b)
	default:
		if l.kind() == "credit" {
			p.holdsBack()
		}
		m := p.real(l.Message, false)
		switch l.kind() {
		case "commit":
			p.commits[number(m, "id")] = m
		case "opened":
			p.remember(m)
		}
		b, err := json.Marshal(m)
		if err != nil {
			p.fail("%v", err)
		}
		p.send(websocket.TextMessage, b)
	}
}

func (p *player) send(kind int, b []byte) {
	p.t.Helper()
	if err := p.ws.WriteMessage(kind, b); err != nil {
		p.fail("cannot send: %v", err)
	}
}

// taskOf is the task whose stream the frame is on.
func (p *player) taskOf(l *line) string {
	return p.owner[p.streams[int64(l.Frame.Stream)]]
}

// remember notes from which checkpoint each replay has to begin.
func (p *player) remember(opened object) {
	tables, _ := p.tasks[text(opened, "task")]["tables"].([]any)
	points, _ := opened["checkpoints"].(object)
	for _, v := range tables {
		t := v.(object)
		if _, named := points[text(t, "name")]; named {
			p.opened[uint32(number(t, "stream"))] = text(points, text(t, "name"))
		}
	}
}

// flow is the replay or feed behind a stream of the sidecar.
func (p *player) flow(stream uint32) *flow {
	p.t.Helper()
	for p.flows[stream] == nil {
		f := await(p, p.world.flows, fmt.Sprintf("a feed or replay of stream %d", stream))
		p.flows[f.stream] = f
		if f.restore != nil && f.restore.Checkpoint != p.opened[f.stream] {
			p.fail("table %s is replayed from %q, the worker said %q", f.restore.Table.Name, f.restore.Checkpoint, p.opened[f.stream])
		}
	}
	return p.flows[stream]
}

// push gives a frame of the sidecar, and those that follow it on its stream, to its feed or replay.
func (p *player) push(at int) {
	first := &p.lines[at]
	task := p.taskOf(first)
	for i := at; i < len(p.lines); i++ {
		l := &p.lines[i]
		switch {
		case l.Note != "" || l.Store != "" || l.From == "worker" && l.kind() == "credit":
		case l.From == "sidecar" && l.Frame != nil && l.Frame.Stream == first.Frame.Stream && l.Frame.Epoch == first.Frame.Epoch:
			if !p.pushed[i] {
				p.pushed[i] = true
				b := p.frame(l.bytes(p.t), task)
				p.flow(uint32(p.streams[int64(l.Frame.Stream)])).frames <- b
			}
		default:
			return
		}
	}
}

// quiet checks that the sidecar has said nothing more than the lines so far. Unless time passes at
// this line, nothing can be on its way: everything waits for us.
func (p *player) quiet(l *line) {
	p.t.Helper()
	if l != nil && l.Do["pass"] != nil || p.conn == nil {
		return
	}
	if p.pingSession() {
		p.expect("barrier", func(i item) bool { return i.lane() == "barrier" })
	}
	for _, i := range p.pending {
		if i.lane() != "" {
			p.fail("the sidecar says more: %v", i)
		}
	}
}

// pingSession puts a mark behind everything that the sidecar has to say now; false: it has closed.
func (p *player) pingSession() bool {
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	if p.events.over(p.conn) {
		return false
	}
	if err := p.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(patience)); err != nil {
		p.fail("cannot ping: %v", err)
	}
	await(p, p.pongs, "a pong") // what the worker said before has been posted
	if err := p.runner.Alive(ctx); err != nil {
		p.fail("the session does not turn: %v", err)
	}
	p.conn.SendInStream(nil, protocol.Waiting{Code: "barrier", Message: "of the test"})
	return true
}

// events is the handler of the bridge, as internal/cli has it.
type events struct {
	runner *session.Runner

	mu   sync.Mutex
	ids  map[*bridge.Conn]session.ConnID
	last session.ConnID
	conn *bridge.Conn
	gone map[*bridge.Conn]bool
}

func (h *events) Connected(c *bridge.Conn, hello protocol.Hello) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	h.ids[c], h.conn = h.last, c
	h.runner.Attach(h.last, c, hello)
}

func (h *events) Message(c *bridge.Conn, m protocol.Message, w *protocol.Writes) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := m.(protocol.Credit); ok {
		h.runner.Offer(session.Active{Conn: h.ids[c]})
		return
	}
	h.runner.Offer(session.Received{Conn: h.ids[c], Message: m, Writes: w})
}

func (h *events) Disconnected(c *bridge.Conn, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone[c] = true
	h.runner.Post(session.Disconnected{Conn: h.ids[c], Err: err})
}

func (h *events) current() *bridge.Conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.conn
}

func (h *events) over(c *bridge.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gone[c]
}

// start makes the sidecar that the first welcome of the transcript describes.
func start(t *testing.T, lines []line, listen string) *player {
	t.Helper()
	welcome := welcomed(lines)
	limits, window := welcome.Limits, welcome.Credit
	cfg := bridge.Config{
		Listen: listen, MaxControl: limits.MaxControl, MaxFrame: limits.MaxFrame, MaxCommitBytes: limits.MaxCommitBytes,
		Window: window, Logger: hclog.NewNullLogger(),
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	runner, err := session.NewRunner(session.Config{
		Version: "0.1.0", Guarantee: "at_least_once", WorkerGrace: 10 * time.Second, RevokeTimeout: 10 * time.Second,
		MaxProcessing: time.Duration(welcome.Deadlines.MaxProcessing) * time.Millisecond, DrainTimeout: 10 * time.Second, RetryDelay: time.Millisecond,
		Limits: cfg.Limits(), Credit: cfg.Window,
	}, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Vet = func(h protocol.Hello) *bridge.Refusal {
		if no := runner.Vet(h); no != nil {
			return &bridge.Refusal{Close: no.Close, Code: no.Code, Message: no.Message}
		}
		return nil
	}
	events := &events{runner: runner, ids: map[*bridge.Conn]session.ConnID{}, gone: map[*bridge.Conn]bool{}}
	server, err := bridge.New(cfg, events)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.post = runner.Post
	p := &player{t: t, lines: lines, world: w, runner: runner, server: server, events: events}
	ctx, cancel := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := server.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	parts.Go(func() {
		err := runner.Run(ctx, session.Ports{Group: w, Restorer: restorer{w}, Feeder: feeder{w}, Producer: w, Locator: w})
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		if p.connection != nil {
			p.ws.Close()
		}
		cancel()
		parts.Wait()
		w.pumps.Wait()
		p.released.Wait()
	})
	return p
}

func welcomed(lines []line) protocol.Welcome {
	for _, l := range lines {
		if l.kind() != "welcome" {
			continue
		}
		b, _ := json.Marshal(l.Message)
		if m, err := protocol.Decode(bytes.TrimSpace(b)); err == nil {
			return m.(protocol.Welcome)
		}
	}
	return protocol.Welcome{}
}
