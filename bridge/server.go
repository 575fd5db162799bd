package bridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"

	"github.com/pillion/pillion/protocol"
)

// Handler is told what happens on the connections. Its calls come from the reader goroutines, never
// two at once, and must not block long. Nothing comes for a connection before its Connected, nor
// after its Disconnected; the Disconnected of an older connection comes before the Connected of the
// newer one.
type Handler interface {
	Connected(c *Conn, hello protocol.Hello)
	// Message is any valid message of the worker but hello. w comes with a Commit only, and is
	// given back with CommitDone.
	Message(c *Conn, m protocol.Message, w *protocol.Writes)
	Disconnected(c *Conn, err error)
}

// ErrSuperseded is the end of a connection whose place a newer one has taken.
var ErrSuperseded = errors.New("a newer worker has connected")

// Server is the worker's listener.
type Server struct {
	cfg       Config
	log       hclog.Logger
	sparse    sparse
	handler   Handler
	listeners []net.Listener
	url       string
	hosts     []string
	http      http.Server
	slots     chan struct{} // accepted connections that are not upgraded
	upgrader  websocket.Upgrader

	life      context.Context // until stop
	end       context.CancelFunc
	answering sync.WaitGroup // drains that were asked for

	requests sync.WaitGroup // of net/http's connections until hijacked
	workers  sync.WaitGroup // upgraded connections

	mu      sync.Mutex
	stopped bool
	conns   map[*Conn]bool // true: has said hello

	deliver sync.Mutex // held while the handler is called; never taken by Conn's methods
	current *Conn
}

// New listens. Run serves; Close gives up a server that was never run.
func New(cfg Config, h Handler) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	listeners, url, err := listen(cfg.Listen)
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg:       cfg,
		log:       cfg.Logger,
		handler:   h,
		listeners: listeners,
		url:       url,
		hosts:     hostsOf(listeners),
		slots:     make(chan struct{}, maxHTTP),
		conns:     map[*Conn]bool{},
		upgrader: websocket.Upgrader{
			HandshakeTimeout: cfg.headerTimeout,
			ReadBufferSize:   64 << 10,
			WriteBufferSize:  4 << 10, // larger messages go out in the same writev
			Subprotocols:     []string{protocol.Subprotocol},
			CheckOrigin:      func(*http.Request) bool { return true }, // refuse has checked
		},
	}
	s.upgrader.Error = func(w http.ResponseWriter, _ *http.Request, status int, reason error) {
		s.answer(w, &refusal{status, "bad_subprotocol", reason.Error()})
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.http = http.Server{
		Handler:           s,
		ReadHeaderTimeout: cfg.headerTimeout,
		ReadTimeout:       2 * cfg.headerTimeout,
		WriteTimeout:      2 * cfg.headerTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          s.log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
		ConnState:         s.connState,
	}
	s.http.SetKeepAlivesEnabled(false)
	return s, nil
}

// URL is what the worker connects to: ws://host:port or unix:/path.
func (s *Server) URL() string { return s.url }

// Close stops listening. It is for a server whose Run is never called.
func (s *Server) Close() {
	s.end()
	for _, l := range s.listeners {
		l.Close()
	}
}

// Run serves until ctx ends. Then the worker is told that the sidecar goes away, what is queued for
// it is flushed within CloseTimeout, and every goroutine has ended when Run returns.
func (s *Server) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, l := range s.listeners {
		g.Go(func() error {
			err := s.http.Serve(&limited{Listener: l, slots: s.slots, done: ctx.Done()})
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("the worker's listener %s: %w", l.Addr(), err)
		})
	}
	g.Go(func() error {
		<-ctx.Done()
		s.stop()
		return nil
	})
	err := g.Wait()
	s.requests.Wait()
	s.workers.Wait()
	return err
}

func (s *Server) stop() {
	s.mu.Lock()
	s.stopped = true
	conns := make([]*Conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	s.end()
	for _, c := range conns {
		c.Close(protocol.CloseGoingAway, "the sidecar stops")
	}
	s.answering.Wait()
	s.http.Close() // hijacked connections are not its own any more
	s.Close()
}

// limited holds back Accept while too many connections are not upgraded yet. It hands out the
// connections themselves: a wrapped one would lose writev.
type limited struct {
	net.Listener
	slots chan struct{}
	done  <-chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
	}
	return c, err
}

func (s *Server) connState(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.requests.Add(1)
	case http.StateHijacked, http.StateClosed:
		<-s.slots
		s.requests.Done()
	}
}

// ServeHTTP answers one request; for a worker it returns when the connection has ended, for a drain
// when that has.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if no := s.refuseStranger(r); no != nil {
		s.answer(w, no)
		return
	}
	if r.URL.Path == drainPath && s.cfg.Drain != nil {
		s.drain(w, r)
		return
	}
	if no := s.refuse(r); no != nil {
		s.answer(w, no)
		return
	}
	c := newConn(s)
	if no := s.enter(c); no != nil {
		s.answer(w, no)
		return
	}
	defer s.workers.Done()
	defer s.leave(c)
	ws, err := s.upgrader.Upgrade(w, r, nil)
	if err != nil {
		s.log.Debug("a websocket handshake failed", "error", err)
		return
	}
	c.serve(ws)
}

// enter counts a connection that has not said hello yet.
func (s *Server) enter(c *Conn) *refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := 0
	for _, hello := range s.conns {
		if !hello {
			waiting++
		}
	}
	switch {
	case s.stopped:
		return &refusal{protocol.HTTPBusy, "busy", "the sidecar stops"}
	case waiting >= maxWaiting:
		return &refusal{protocol.HTTPBusy, "busy",
			fmt.Sprintf("%d connections have not said hello yet: try again", waiting)}
	}
	s.conns[c] = false
	s.workers.Add(1)
	return nil
}

func (s *Server) leave(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// connected makes c the worker and ends the one before.
func (s *Server) connected(c *Conn, hello protocol.Hello) {
	s.deliver.Lock()
	defer s.deliver.Unlock()
	if c.q.closing() || s.sentAway(c, hello) {
		return
	}
	s.mu.Lock()
	s.conns[c] = true
	s.mu.Unlock()
	if old := s.current; old != nil {
		s.log.Warn("a newer worker has connected, the older one is closed", "older", old.id, "newer", c.id)
		old.fail(protocol.CloseSuperseded, protocol.CodeSuperseded,
			"a newer worker has connected to this sidecar: run one worker for each sidecar")
		s.handler.Disconnected(old, ErrSuperseded)
	}
	s.current = c
	s.cfg.Metrics.connected()
	s.log.Debug("the worker has connected", "session", c.id, "client", clip(hello.Client.Name+" "+hello.Client.Version, 80))
	s.handler.Connected(c, hello)
}

// sentAway refuses a worker that cannot become the worker. The present one goes on.
func (s *Server) sentAway(c *Conn, hello protocol.Hello) bool {
	if s.cfg.Vet == nil {
		return false
	}
	no := s.cfg.Vet(hello)
	if no == nil {
		return false
	}
	s.warn("refused a worker", "session", c.id, "code", no.Close, "error", no.Message)
	if no.Code != "" {
		c.Send(protocol.Error{Re: hello.ID, Code: no.Code, Message: no.Message})
	}
	c.Close(no.Close, no.Message)
	return true
}

func (s *Server) message(c *Conn, m protocol.Message, w *protocol.Writes) bool {
	s.deliver.Lock()
	defer s.deliver.Unlock()
	if s.current != c {
		return false
	}
	s.handler.Message(c, m, w)
	return true
}

func (s *Server) disconnected(c *Conn, err error) {
	s.deliver.Lock()
	defer s.deliver.Unlock()
	if s.current != c {
		return
	}
	s.current = nil
	s.log.Debug("the worker has disconnected", "session", c.id, "error", err)
	s.handler.Disconnected(c, err)
}

// Stats are sizes of the present worker connection, for gauges.
type Stats struct {
	Connected      bool
	QueuedControl  int64 // bytes that wait for the socket
	QueuedData     int64
	BufferedWrites int64 // writes frames of commits that have not ended
	Unacknowledged int64 // bytes sent that the worker has not granted anew
	LastActivity   time.Time
}

// Stats may be called at any time.
func (s *Server) Stats() Stats {
	s.deliver.Lock()
	c := s.current
	s.deliver.Unlock()
	if c == nil {
		return Stats{}
	}
	st := Stats{Connected: true, BufferedWrites: c.in.bufferedBytes(), LastActivity: c.LastActivity(), Unacknowledged: c.unacknowledged()}
	st.QueuedControl, st.QueuedData = c.q.sizes()
	return st
}
