package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"go.uber.org/goleak"

	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testToken = "correct-horse-battery-staple"

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// event is one call of the handler.
type event struct {
	what   string
	conn   *Conn
	hello  protocol.Hello
	m      protocol.Message
	writes *protocol.Writes
	err    error
}

// recorder is a Handler that keeps its calls.
type recorder struct{ events chan event }

func (r *recorder) Connected(c *Conn, h protocol.Hello) {
	r.events <- event{what: "connected", conn: c, hello: h}
}
func (r *recorder) Message(c *Conn, m protocol.Message, w *protocol.Writes) {
	r.events <- event{what: "message", conn: c, m: m, writes: w}
}
func (r *recorder) Disconnected(c *Conn, err error) {
	r.events <- event{what: "disconnected", conn: c, err: err}
}

func (r *recorder) next(t testing.TB, what string) event {
	t.Helper()
	select {
	case e := <-r.events:
		if e.what != what {
			t.Fatalf("the handler got %s %v, want %s", e.what, e.m, what)
		}
		return e
	case <-time.After(patience):
		t.Fatalf("no %s within %v", what, patience)
	}
	return event{}
}

// start runs a server until the test ends.
func start(t testing.TB, change func(*Config)) (*Server, *recorder) {
	t.Helper()
	cfg := Config{Listen: "127.0.0.1:0", Token: testToken, CloseTimeout: 2 * time.Second}
	if change != nil {
		change(&cfg)
	}
	r := &recorder{events: make(chan event, 100_000)}
	s, err := New(cfg, r)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return s, r
}

// client is a worker.
type client struct {
	*websocket.Conn
	t testing.TB
}

func headers() http.Header {
	return http.Header{"Authorization": {"Bearer " + testToken}}
}

func dialer(s *Server) *websocket.Dialer {
	d := &websocket.Dialer{Subprotocols: []string{protocol.Subprotocol}, HandshakeTimeout: patience}
	if path, ok := strings.CutPrefix(s.URL(), "unix:"); ok {
		d.NetDialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	}
	return d
}

func target(s *Server) string {
	if strings.HasPrefix(s.URL(), "unix:") {
		return "ws://anything/"
	}
	return s.URL()
}

func dial(t testing.TB, s *Server) *client {
	t.Helper()
	ws, resp, err := dialer(s).Dial(target(s), headers())
	if err != nil {
		t.Fatalf("dial: %v %s", err, body(resp))
	}
	t.Cleanup(func() { ws.Close() })
	ws.SetReadDeadline(time.Now().Add(patience))
	return &client{ws, t}
}

func body(resp *http.Response) string {
	if resp == nil {
		return ""
	}
	b, _ := io.ReadAll(resp.Body)
	return string(b)
}

func testHello() protocol.Hello {
	return protocol.Hello{
		ID: 1, Versions: []int{1}, Client: protocol.Software{Name: "test", Version: "0"},
		MaxFrame: 1 << 20, Credit: protocol.Window{Connection: 1 << 20, Stream: 1 << 20},
	}
}

// worker connects and says hello.
func worker(t testing.TB, s *Server, r *recorder) (*client, *Conn) {
	t.Helper()
	return workerWith(t, s, r, testHello())
}

func workerWith(t testing.TB, s *Server, r *recorder, h protocol.Hello) (*client, *Conn) {
	t.Helper()
	c := dial(t, s)
	c.say(h)
	return c, r.next(t, "connected").conn
}

func (c *client) say(m protocol.Message) {
	c.t.Helper()
	b, err := protocol.Encode(m)
	if err != nil {
		c.t.Fatal(err)
	}
	c.text(string(b))
}

func (c *client) text(s string) {
	c.t.Helper()
	if err := c.WriteMessage(websocket.TextMessage, []byte(s)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) frame(b []byte) {
	c.t.Helper()
	if err := c.WriteMessage(websocket.BinaryMessage, b); err != nil {
		c.t.Fatal(err)
	}
}

// hear reads the next control message.
func (c *client) hear() protocol.Message {
	c.t.Helper()
	kind, b, err := c.ReadMessage()
	if err != nil {
		c.t.Fatalf("want a message, got %v", err)
	}
	if kind != websocket.TextMessage {
		c.t.Fatalf("want a control message, got a frame of %d bytes", len(b))
	}
	m, err := protocol.Decode(b)
	if err != nil {
		c.t.Fatalf("%s: %v", b, err)
	}
	return m
}

func (c *client) hearError(code, part string) protocol.Error {
	c.t.Helper()
	m := c.hear()
	e, ok := m.(protocol.Error)
	if !ok || e.Code != code || !strings.Contains(e.Message, part) {
		c.t.Fatalf("heard %#v, want error %s with %q", m, code, part)
	}
	return e
}

func (c *client) hearFrame() []byte {
	c.t.Helper()
	kind, b, err := c.ReadMessage()
	if err != nil || kind != websocket.BinaryMessage {
		c.t.Fatalf("want a frame, got %q %v", b, err)
	}
	return b
}

// closed reads the goodbye, which must be the next thing.
func (c *client) closed(code int, part string) {
	c.t.Helper()
	kind, b, err := c.ReadMessage()
	if err == nil {
		c.t.Fatalf("want close %d, got message %d %.200q", code, kind, b)
	}
	ce, ok := err.(*websocket.CloseError)
	if !ok || ce.Code != code || !strings.Contains(ce.Text, part) {
		c.t.Fatalf("closed with %v, want %d %q", err, code, part)
	}
}

// refused reads the error and the goodbye that end a connection.
func (c *client) refused(closeCode int, code, part string) {
	c.t.Helper()
	c.hearError(code, part)
	c.closed(closeCode, "")
}

// writes makes a writes frame of at least size bytes.
func writes(stream, epoch uint32, commit int64, size int) []byte {
	b := frame.NewBuilder(frame.Writes)
	b.Reset(stream, epoch, commit)
	b.Append(0, 0, []byte("k"), make([]byte, max(0, size-frame.HeaderSize-9)), nil)
	return b.Finish(nil, 0, nil)
}

// records makes a records frame of at least size bytes.
func records(stream, epoch uint32, base int64, size int) []byte {
	b := frame.NewBuilder(frame.Records)
	b.Reset(stream, epoch, base)
	b.Append(base, 0, []byte("k"), make([]byte, max(0, size-frame.HeaderSize-9)), nil)
	return b.Finish(nil, base+1, nil)
}

func commit(id int64, epoch uint32) protocol.Commit {
	return protocol.Commit{ID: id, Task: "s/0", Epoch: epoch, SourceNext: map[string]int64{"t": 1}}
}

func TestConversation(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "localhost:0", "[::1]:0", "unix"} {
		t.Run(listen, func(t *testing.T) {
			s, r := start(t, func(c *Config) {
				if c.Listen = listen; listen == "unix" {
					c.Listen = "unix:" + t.TempDir() + "/s"
				}
			})
			w, c := worker(t, s, r)
			if h := c.Hello(); h.Client.Name != "test" {
				t.Fatalf("hello %+v", h)
			}
			c.Send(protocol.Waiting{Code: protocol.CodeOk})
			if m, ok := w.hear().(protocol.Waiting); !ok || m.Code != protocol.CodeOk {
				t.Fatalf("heard %v", m)
			}
			c.OpenStream(3, true)
			w.frame(writes(3, 1, 7, 100))
			w.frame(writes(3, 1, 7, 100))
			w.say(commit(7, 1))
			e := r.next(t, "message")
			if e.writes == nil || e.writes.ID != 7 || len(e.writes.Frames) != 2 || e.writes.Err != nil || e.writes.Bytes < 200 {
				t.Fatalf("writes %+v", e.writes)
			}
			c.CommitDone(e.writes)
			c.CommitDone(e.writes)
			if st := s.Stats(); st.BufferedWrites != 0 || !st.Connected || st.LastActivity.IsZero() {
				t.Fatalf("stats %+v", st)
			}
			g := gate.New(1, c.Credit())
			if err := g.Send(t.Context(), 3, records(3, 1, 0, 1000)); err != nil {
				t.Fatal(err)
			}
			c.SendInStream(g, protocol.Restored{ID: 1, Task: "s/0", Epoch: 1})
			if f, err := frame.Parse(w.hearFrame()); err != nil || f.Stream != 3 {
				t.Fatalf("frame %v %v", f, err)
			}
			if !c.Owes() {
				t.Fatal("a worker that has not granted owes")
			}
			w.hear()
			n := int64(len(records(3, 1, 0, 1000)))
			w.say(protocol.Credit{Connection: 1<<20 + n, Streams: map[uint32]int64{3: 1<<20 + n}})
			if m := r.next(t, "message").m; m.Type() != protocol.TypeCredit {
				t.Fatalf("message %v", m)
			}
			if c.Owes() {
				t.Fatal("all is granted")
			}
			w.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1000, "bye"), time.Now().Add(patience))
			w.closed(1000, "")
			if e := r.next(t, "disconnected"); !errors.Is(e.err, ErrGoodbye) {
				t.Fatalf("disconnected: %v", e.err)
			}
			if s.Stats().Connected {
				t.Fatal("still connected")
			}
		})
	}
}

func TestVanishedWorker(t *testing.T) {
	s, r := start(t, nil)
	w, c := worker(t, s, r)
	w.NetConn().Close()
	e := r.next(t, "disconnected")
	if e.conn != c || e.err != ErrVanished {
		t.Fatalf("disconnected %v", e.err)
	}
	c.Send(protocol.Waiting{Code: protocol.CodeOk}) // late: nothing happens
	c.Close(protocol.CloseDone, "")
	if err := gate.New(1, c.Credit()).Send(t.Context(), 1, nil); err == nil {
		t.Fatal("a gate outlives its connection")
	}
}

func TestStopSaysGoodbye(t *testing.T) {
	cfg := Config{Listen: "127.0.0.1:0", Token: testToken}
	r := &recorder{events: make(chan event, 10)}
	s, err := New(cfg, r)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	w, c := worker(t, s, r)
	silent := dial(t, s) // has not said hello
	c.Send(protocol.Waiting{Code: protocol.CodeDrain})
	cancel()
	w.hear()
	w.closed(protocol.CloseGoingAway, "the sidecar stops")
	silent.closed(protocol.CloseGoingAway, "")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.next(t, "disconnected")
	if _, _, err := dialer(s).Dial(target(s), headers()); err == nil {
		t.Fatal("a stopped server lets workers in")
	}
}

func TestCloseReasonIsCut(t *testing.T) {
	s, r := start(t, nil)
	w, c := worker(t, s, r)
	c.Close(protocol.CloseRefused, strings.Repeat("ä", 100))
	c.Close(protocol.CloseInternal, "the first one counts")
	w.closed(protocol.CloseRefused, strings.Repeat("ä", 60)+"…")
	r.next(t, "disconnected")
}

func jsonOf(t *testing.T, s string) (code, message string) {
	t.Helper()
	var b struct{ Code, Message string }
	if err := json.Unmarshal([]byte(s), &b); err != nil {
		t.Fatalf("body %q: %v", s, err)
	}
	return b.Code, b.Message
}

func ExampleConfig_MemoryBound() {
	c := Config{Listen: "127.0.0.1:7420", Token: "t"}
	if err := c.Validate(); err != nil {
		fmt.Println(err)
	}
	fmt.Println(c.MemoryBound()>>20, "MiB")
	// Output: 101 MiB
}
