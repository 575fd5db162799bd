package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/pillion/pillion/protocol"
)

// maxMessage is more than any worker may send here.
const maxMessage = 64 << 20

// server takes the handshakes of one case and gives what comes to the player.
type server struct {
	listener net.Listener
	http     *http.Server
	url      string
	host     string
	token    string
	events   chan<- any
	done     <-chan struct{}
}

// handshake is an event: the player says what becomes of it.
type handshake struct {
	request *http.Request
	answer  chan verdict
}

// verdict lets a worker in (status 0) or sends it away; 101: it is let in without the subprotocol.
type verdict struct {
	status int
	code   string
	conn   int // number of the connection
}

// opening, arrived and ended are the events of a connection.
type (
	opening struct {
		conn int
		wire *wire
	}
	arrived struct {
		conn   int
		binary bool
		data   []byte
	}
	ended struct {
		conn int
		code int // 0: none came
		why  string
	}
)

func listen(network, address, token string, events chan<- any, done <-chan struct{}) (*server, error) {
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the worker at %s: %w", address, err)
	}
	s := &server{listener: wrapped{l}, token: token, events: events, done: done}
	s.url, s.host = "ws://"+l.Addr().String(), l.Addr().String()
	if network == "unix" {
		s.url, s.host = "unix:"+address, ""
	}
	s.http = &http.Server{
		Handler: s, ReadHeaderTimeout: 5 * time.Second,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, wireKey{}, c) },
	}
	return s, nil
}

type wireKey struct{}

// wrapped makes a wire of each connection, so that the player can write below gorilla.
type wrapped struct{ net.Listener }

func (w wrapped) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newWire(c), nil
}

// ServeHTTP holds a handshake until the player wants it.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := handshake{request: r, answer: make(chan verdict, 1)}
	if !s.post(h) {
		return
	}
	var v verdict
	select {
	case v = <-h.answer:
	case <-s.done:
		return
	}
	if v.status == http.StatusSwitchingProtocols {
		s.mistake(w, r)
		return
	}
	if v.status != 0 {
		if v.status/100 == 3 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Connection", "close")
		w.WriteHeader(v.status)
		fmt.Fprintf(w, `{"code": %q, "message": "the case wants it so"}`, v.code)
		return
	}
	up := websocket.Upgrader{Subprotocols: []string{protocol.Subprotocol}, CheckOrigin: func(*http.Request) bool { return true }}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		s.post(ended{conn: v.conn, why: err.Error()})
		return
	}
	s.read(ws, r.Context().Value(wireKey{}).(*wire), v.conn)
}

// mistake lets a worker in without the subprotocol, as a server does that is no sidecar.
func (s *server) mistake(w http.ResponseWriter, r *http.Request) {
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer ws.Close()
	go func() {
		<-s.done
		ws.Close()
	}()
	for err == nil {
		_, _, err = ws.ReadMessage()
	}
}

func (s *server) read(ws *websocket.Conn, below *wire, conn int) {
	defer ws.Close()
	over := make(chan struct{})
	defer close(over)
	go below.run(over)
	ws.SetReadLimit(maxMessage)
	s.post(opening{conn, below})
	for {
		kind, data, err := ws.ReadMessage()
		if err != nil {
			e := ended{conn: conn, why: err.Error()}
			var closed *websocket.CloseError
			if errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure && closed.Code != websocket.CloseNoStatusReceived {
				e.code = closed.Code
			}
			s.post(e)
			return
		}
		if !s.post(arrived{conn, kind == websocket.BinaryMessage, data}) {
			return
		}
	}
}

func (s *server) post(event any) bool {
	select {
	case s.events <- event:
		return true
	case <-s.done:
		return false
	}
}

// check compares a handshake with section 2 of the protocol.
func (s *server) check(r *http.Request) error {
	const section = "PROTOCOL.md, section 2 shows the whole request"
	switch {
	case r.URL.Path != "/":
		return fail("the path /", "the path "+r.URL.Path, section)
	case r.Header.Get("Origin") != "":
		return fail("no Origin", "Origin: "+r.Header.Get("Origin"), "only browsers send it, and a sidecar refuses them; switch it off in the library")
	case r.Header.Get("Sec-WebSocket-Extensions") != "":
		return fail("no extensions", "Sec-WebSocket-Extensions: "+r.Header.Get("Sec-WebSocket-Extensions"), "switch permessage-deflate off in the library")
	case !strings.Contains(r.Header.Get("Sec-WebSocket-Protocol"), protocol.Subprotocol):
		return fail("the subprotocol "+protocol.Subprotocol, fmt.Sprintf("%q", r.Header.Get("Sec-WebSocket-Protocol")), section)
	case r.Header.Get("Authorization") == "":
		return fail("Authorization: Bearer and the token", "no Authorization", "the token is in the file that PILLION_TOKEN_FILE names")
	case r.Header.Get("Authorization") != "Bearer "+s.token:
		return fail("Authorization: Bearer and the token of the file", fmt.Sprintf("%q", r.Header.Get("Authorization")), "white space around the token in the file is not part of it")
	case s.host != "" && r.Host != s.host:
		return fail("Host: "+s.host, "Host: "+r.Host, "Host is what PILLION_URL says")
	}
	return nil
}
