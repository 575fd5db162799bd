package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gorilla/websocket"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// mini is the worker of PROTOCOL.md, section 12, in Go: nothing of a client that people use. With a
// mutation it makes one mistake, which some case must find.
type mini struct {
	mutation string
	job      string
	dir      string

	ws       *websocket.Conn
	incoming chan message
	stop     chan os.Signal
	stopping bool
	welcome  protocol.Welcome
	nextID   int64
	tasks    map[string]*miniTask
	streams  map[uint32]*miniStream
	commits  map[int64]*miniCommit
	again    []*miniCommit // of the connection before; only a mutant has any
	queue    []queued
	out      []outgoing
	taken    int64
	granted  int64
	due      map[uint32]*miniStream
	sent     int64
	limit    int64
	closed   int // by us; 0: not
	lastCode int
}

type message struct {
	binary bool
	data   []byte
	err    error
}

// queued is a frame, or a message that keeps its place among frames.
type queued struct {
	frame   *frame.Frame
	size    int64
	message protocol.Message
	resets  int
}

type outgoing struct {
	task   *miniTask
	stream *miniStream
	data   []byte // a frame
	commit *protocol.Commit
	tell   protocol.Message // released
}

type miniTask struct {
	name        string
	set         string
	partition   int32
	epoch       uint32
	role        protocol.Role
	state       string
	holding     bool
	resets      int
	promoted    bool
	framed      bool // a restore frame came
	outstanding int
	layers      []map[string]*[]byte
	next, told  map[string]int64
	stores      map[string]*miniStore
	kinds       map[string]protocol.TableKind
	ids         map[string]*miniStream
}

type miniStream struct {
	id      uint32
	task    *miniTask
	name    string
	records bool
	next    int64 // -1: any
	refused bool
	taken   int64
	sent    int64
	limit   int64
}

type miniCommit struct {
	task   *miniTask
	rows   map[string]*[]byte
	out    []record
	frames []outgoing
	end    protocol.Commit
}

const (
	windowConnection = 400 << 10
	windowStream     = 200 << 10
)

func (w *mini) is(mutations ...string) bool { return slices.Contains(mutations, w.mutation) }

// miniMain is the process.
func miniMain(mutation string) int {
	w := &mini{mutation: mutation, job: os.Getenv("PILLION_CONFORMANCE_JOB"), dir: os.Getenv("PILLION_CONFORMANCE_DIR"), stop: make(chan os.Signal, 1)}
	signal.Notify(w.stop, syscall.SIGTERM)
	pause := 100 * time.Millisecond
	for {
		err := w.connect()
		if err == nil {
			pause = 100 * time.Millisecond
			w.serve()
			if w.closed != 0 {
				return 0
			}
			switch w.lastCode {
			case 4411:
				return map[bool]int{true: 5}[w.is("drained-fails")]
			case 4400, 4404, 4409, 4410, 4413, 4429, 4503:
				if w.lastCode == 4404 && w.is("refused-exits-0") {
					return 0
				}
				if w.is("comes-again-always") {
					break
				}
				if w.lastCode != 4409 || !w.is("reconnects-when-superseded") {
					return 2
				}
			}
		}
		var refused refusal
		if errors.As(err, &refused) {
			final := slices.Contains([]refusal{400, 401, 403, 404}, refused)
			if final && !w.is("comes-again-unauthorized") || refused < 500 && w.is("redirects-are-final") {
				return 2
			}
		}
		if w.is("no-pause") {
			pause = time.Millisecond
		}
		time.Sleep(pause)
		pause = min(2*pause, 5*time.Second)
	}
}

type refusal int

func (refusal) Error() string { return "refused" }

func (w *mini) connect() error {
	token, _ := os.ReadFile(os.Getenv("PILLION_TOKEN_FILE"))
	text := strings.TrimSpace(string(token))
	if w.is("token-untrimmed") {
		text = strings.Trim(string(token), "\n") + " "
	}
	header := http.Header{"Authorization": {"Bearer " + text}}
	if w.is("no-token") {
		header = http.Header{}
	}
	if w.is("origin") {
		header.Set("Origin", "http://localhost")
	}
	where := os.Getenv("PILLION_URL")
	d := websocket.Dialer{Subprotocols: []string{protocol.Subprotocol}, HandshakeTimeout: 5 * time.Second, EnableCompression: w.is("deflate")}
	if w.is("proxy") {
		d.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(os.Getenv("HTTP_PROXY")) }
	}
	if path, ok := strings.CutPrefix(where, "unix:"); ok && !w.is("tcp-only") {
		where = "ws://localhost/"
		d.NetDialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	}
	ws, response, err := d.Dial(where, header)
	if err != nil {
		if response != nil {
			return refusal(response.StatusCode)
		}
		return err
	}
	if ws.Subprotocol() == "" {
		ws.Close()
		return errors.New("no sidecar")
	}
	if w.is("small-messages") {
		ws.SetReadLimit(1 << 20)
	}
	w.begin(ws)
	return nil
}

// begin forgets the connection before.
func (w *mini) begin(ws *websocket.Conn) {
	w.again = nil
	if w.is("sends-commits-again") {
		for _, c := range w.commits {
			w.again = append(w.again, c)
		}
	}
	w.ws, w.nextID, w.lastCode = ws, 0, 0
	w.tasks, w.streams, w.commits, w.due = map[string]*miniTask{}, map[uint32]*miniStream{}, map[int64]*miniCommit{}, map[uint32]*miniStream{}
	w.queue, w.out, w.taken, w.granted, w.sent = nil, nil, 0, windowConnection, 0
	w.incoming = make(chan message, 4096)
	go func(to chan<- message) {
		for {
			kind, data, err := w.read(ws)
			to <- message{kind == websocket.BinaryMessage, data, err}
			if err != nil {
				close(to)
				return
			}
		}
	}(w.incoming)
	w.hello()
}

// read takes a message. A mutant takes what comes first for all of it.
func (w *mini) read(ws *websocket.Conn) (int, []byte, error) {
	if !w.is("reads-once") {
		return ws.ReadMessage()
	}
	kind, r, err := ws.NextReader()
	if err != nil {
		return 0, nil, err
	}
	data := make([]byte, 1<<20)
	n, err := r.Read(data)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return kind, data[:n], err
}

func (w *mini) hello() {
	h := protocol.Hello{ID: w.id(), Versions: []int{1}, Client: protocol.Software{Name: "mini", Version: "1"}, MaxFrame: 128 << 20,
		Credit: protocol.Window{Connection: windowConnection, Stream: windowStream}, Group: "conformance", Level: protocol.LevelStandby,
		Sets: []protocol.Set{{Name: "words", Sources: []string{"words"}}}, Outputs: []string{"changes"}}
	if w.is("level-stateless") {
		h.Level = protocol.LevelStateless
	}
	if w.is("level-tables") {
		h.Level = protocol.LevelTables
	}
	if w.job == jobTables {
		h.Sets[0].Tables = []protocol.Table{{Name: "counts"}, {Name: "names", SourceTopic: "names"}}
		h.Globals = []protocol.Global{{Name: "places", Topic: "places"}}
	}
	w.say(h)
}

func (w *mini) id() int64 { w.nextID++; return w.nextID }

func (w *mini) say(m protocol.Message) {
	b, err := protocol.Encode(m)
	if err != nil {
		panic(err)
	}
	_ = w.ws.WriteMessage(websocket.TextMessage, b)
}

// serve is the loop of section 12, until the connection has ended.
func (w *mini) serve() {
	for {
		select {
		case m := <-w.incoming:
			if m.err != nil {
				w.end(m.err)
				return
			}
			w.arrived(m)
			continue
		case <-w.stop:
			w.stopping = true
			if w.is("dies-at-sigterm") {
				os.Exit(143)
			}
		default:
		}
		if w.sendOne() || !w.stopping && w.workOne() {
			continue
		}
		if w.stopping && len(w.commits) == 0 && len(w.out) == 0 {
			w.close(1000)
			return
		}
		w.grant(true)
		select {
		case m := <-w.incoming:
			if m.err != nil {
				w.end(m.err)
				return
			}
			w.arrived(m)
		case <-w.stop:
			w.stopping = true
			if w.is("dies-at-sigterm") {
				os.Exit(143)
			}
		}
	}
}

func (w *mini) end(err error) {
	var closed *websocket.CloseError
	w.lastCode = 0
	if errors.As(err, &closed) {
		w.lastCode = closed.Code
	}
	for _, t := range w.tasks {
		w.over(t)
	}
	w.ws.Close()
}

func (w *mini) close(code int) {
	w.closed = code
	_ = w.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""), time.Now().Add(time.Second))
	for m := range w.incoming {
		if m.err != nil {
			break
		}
	}
	w.end(nil)
}

func (w *mini) arrived(m message) {
	if m.binary {
		f, err := frame.Parse(m.data)
		if err != nil && w.is("bad-frames-skipped") {
			return
		}
		if err == nil && f.Has(frame.FlagHeaders) && w.is("refuses-headers") {
			err = errors.New("headers")
		}
		if err != nil {
			w.say(protocol.Error{Code: protocol.CodeBadMessage, Message: err.Error()})
			w.close(4400)
			os.Exit(2)
		}
		if w.is("grants-on-arrival") {
			w.took(w.streams[f.Stream], int64(len(m.data)))
			w.grant(true)
		}
		w.queue = append(w.queue, queued{frame: f, size: int64(len(m.data))})
		return
	}
	if w.is("unknown-field") {
		dec := json.NewDecoder(strings.NewReader(string(m.data)))
		var any map[string]json.RawMessage
		if dec.Decode(&any) == nil && any["x_nobody_knows"] != nil {
			w.say(protocol.Error{Code: protocol.CodeBadMessage, Message: "a field that I do not know"})
			return
		}
	}
	p, err := protocol.Decode(m.data)
	var bad *protocol.DecodeError
	if errors.As(err, &bad) {
		w.say(bad.Answer())
		if bad.Fatal() && !w.is("goes-on-after-nonsense") {
			w.close(4400)
			os.Exit(2)
		}
		return
	}
	if p == nil {
		if w.is("optional-refused") {
			w.say(protocol.Error{Code: protocol.CodeUnknownType, Message: "what is that"})
		}
		return
	}
	switch p := p.(type) {
	case protocol.Restored:
		resets := 0
		if t := w.tasks[p.Task]; t != nil {
			resets = t.resets
		}
		w.queue = append(w.queue, queued{message: p, resets: resets})
	case protocol.Promoted, protocol.Demoted:
		w.queue = append(w.queue, queued{message: p})
	default:
		w.takeBefore(p)
		w.handle(p)
	}
}
