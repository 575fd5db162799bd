package kafka

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// conn is a connection that was admitted, and on which nothing can block for ever. The Transport
// clears the deadline after its first exchange; a read or write that would then have none gets the
// limit of a handshake. Exchanges always carry the deadline of their context.
//
// INVARIANT: no request is written when the broker's time for our authentication is nearly over. The
// broker would end the connection; instead we authenticate again first, over the same connection.
type conn struct {
	net.Conn          // the guard of speaks
	speaks   net.Conn // raw, or TLS over it
	raw      net.Conn
	limit    time.Duration
	limited  atomic.Bool
	once     sync.Once
	closed   func()

	// Used by the goroutine of the connection.
	who   *who
	due   time.Time // when to authenticate again; zero: never
	heard bool      // something was read since the last write: the next one begins a request
	renew func(net.Conn, *who) (due time.Time, err error)
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
	c.heard = true
	n, err := c.Conn.Read(p)
	if errors.Is(err, errAlert) {
		err = c.who.wantsTLS()
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	if err := c.bound(); err != nil {
		return 0, err
	}
	if c.heard && !c.due.IsZero() && !time.Now().Before(c.due) {
		due, err := c.renew(c.speaks, c.who)
		if err != nil {
			return 0, &renewError{err: err}
		}
		c.due = due
	}
	c.heard = false
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
	err := c.speaks.Close()
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

// dial is the Transport's Dial. What it returns has TLS and SASL behind it.
func (b *broker) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if refused := b.gate.held(time.Now()); refused != nil {
		return nil, &dialError{err: refused}
	}
	opened, err := b.client.dial(ctx, network, address)
	b.gate.note(time.Now(), refusal(err))
	if err != nil {
		return nil, err
	}
	return opened, nil
}

// dial is not cut short by the request that it is for: its handshakes may take longer than a short
// request has time, and would begin anew with each try, for ever. The Transport keeps what comes late
// for the next request.
func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.DialTimeout)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)() // a token that is fetched is no socket that Close could end
	raw, err := c.cfg.Dial(ctx, network, address)
	if err != nil {
		return nil, &dialError{err: err}
	}
	opened := &conn{raw: raw, limit: c.cfg.DialTimeout, renew: c.renew}
	opened.closed = func() { c.sockets.remove(opened) }
	if !c.sockets.add(opened) {
		_ = raw.Close()
		return nil, errClosed
	}
	if err := c.admit(ctx, opened, address); err != nil {
		_ = raw.Close()
		opened.once.Do(opened.closed)
		return nil, err
	}
	return opened, nil
}

// admit does the handshakes of a new connection within its context.
func (c *Client) admit(ctx context.Context, opened *conn, address string) error {
	deadline, _ := ctx.Deadline()
	if err := opened.raw.SetDeadline(deadline); err != nil {
		return &dialError{err: err}
	}
	stop := context.AfterFunc(ctx, func() { _ = opened.raw.SetDeadline(longAgo) })
	speaks, who, due, err := c.auth.admit(ctx, opened.raw, address)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return &dialError{err: err}
	}
	opened.speaks, opened.who, opened.due = speaks, who, due
	opened.Conn = &guard{Conn: speaks}
	return opened.raw.SetDeadline(time.Time{})
}

// renew authenticates a connection again. The deadline of the request that is about to be sent holds.
func (c *Client) renew(speaks net.Conn, w *who) (time.Time, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.DialTimeout)
	defer cancel()
	due, err := c.auth.authenticate(ctx, speaks, w)
	if err == nil {
		c.renewed.Add(1)
	}
	return due, err
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
		_ = c.raw.Close() // TLS would first say goodbye to a broker that may not listen
	}
	s.mu.Unlock()
	s.gone.Wait()
}

// dialError marks a connection that could not be made, beside one that was lost.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// renewError marks a connection whose authentication could not be renewed. What is wrong a new
// connection will say: a broker refuses here also what it would take there, as another principal.
type renewError struct{ err error }

func (e *renewError) Error() string { return "authenticating again: " + e.err.Error() }
func (e *renewError) Unwrap() error { return e.err }

const (
	heldFirst = 250 * time.Millisecond
	heldLast  = 5 * time.Second
)

// refusals keeps a broker that refused us from being asked again at once, by each of many callers:
// it would count failed logins, and may lock the user out.
type refusals struct {
	mu    sync.Mutex
	last  *SecurityError
	until time.Time
	pause time.Duration
}

// held is the refusal that still holds.
func (r *refusals) held(now time.Time) *SecurityError {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil && now.Before(r.until) {
		return r.last
	}
	return nil
}

func (r *refusals) note(now time.Time, refused *SecurityError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if refused == nil || refused.maybe { // a broker that starts again is not kept waiting
		r.last, r.pause = nil, 0
		return
	}
	r.pause = min(max(r.pause*2, heldFirst), heldLast)
	r.last, r.until = refused, now.Add(r.pause)
}
