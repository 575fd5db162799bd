package kafka

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// conn is a socket on which nothing can block for ever. The Transport clears the deadline before
// its SASL handshake; a read or write that would then have none gets the limit of a handshake.
// Exchanges always carry the deadline of their context.
type conn struct {
	net.Conn
	limit   time.Duration
	limited atomic.Bool
	once    sync.Once
	closed  func()
}

func (c *conn) SetDeadline(t time.Time) error {
	c.limited.Store(!t.IsZero())
	return c.Conn.SetDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.limited.Store(!t.IsZero())
	return c.Conn.SetReadDeadline(t)
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.limited.Store(!t.IsZero())
	return c.Conn.SetWriteDeadline(t)
}

func (c *conn) Read(p []byte) (int, error) {
	if err := c.bound(); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *conn) Write(p []byte) (int, error) {
	if err := c.bound(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// bound sets the deadline of an operation that has none.
func (c *conn) bound() error {
	if c.limited.Load() {
		return nil
	}
	return c.Conn.SetDeadline(time.Now().Add(c.limit))
}

func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.closed)
	return err
}

// sockets knows the open ones, so that Close can end what hangs on a stopped broker: the
// Transport's own CloseIdleConnections leaves those alone.
type sockets struct {
	mu     sync.Mutex
	open   map[*conn]struct{}
	closed bool
	gone   sync.WaitGroup
}

// dial is the Transport's Dial.
func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.DialTimeout)
	defer cancel()
	raw, err := c.cfg.Dial(ctx, network, address)
	if err != nil {
		return nil, &dialError{err: err}
	}
	opened := &conn{Conn: raw, limit: c.cfg.DialTimeout}
	opened.closed = func() { c.sockets.remove(opened) }
	if !c.sockets.add(opened) {
		_ = raw.Close()
		return nil, errClosed
	}
	return opened, nil
}

func (s *sockets) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.open == nil {
		s.open = make(map[*conn]struct{})
	}
	s.open[c] = struct{}{}
	s.gone.Add(1)
	return true
}

func (s *sockets) remove(c *conn) {
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
	s.gone.Done()
}

// close ends all sockets and waits until the Transport has let go of them.
func (s *sockets) close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		_ = c.Conn.Close()
	}
	s.mu.Unlock()
	s.gone.Wait()
}

// dialError marks a connection that could not be made, beside one that was lost.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }
