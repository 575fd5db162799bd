package kafka

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire lies between the client and kfake's brokers and does what brokers and networks do: connections
// die, processes stop, ports are closed, answers come in part.
type wire struct {
	dials atomic.Int32

	mu     sync.Mutex
	change sync.Cond // something below, dials, or the client's connections changed
	client int       // connections that the client has
	held   int       // requests that a frozen broker has not seen
	conns  map[*wireConn]bool
	frozen map[string]chan struct{} // by address of the broker; closed at the thaw
	down   map[string]bool
	tried  map[string]int // dials, also refused ones
	halves bool
}

func newWire() *wire {
	w := &wire{conns: map[*wireConn]bool{}, frozen: map[string]chan struct{}{}, down: map[string]bool{}, tried: map[string]int{}}
	w.change.L = &w.mu
	return w
}

// await waits until done, which is called with the lock held.
func (w *wire) await(done func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !done() {
		w.change.Wait()
	}
}

func (w *wire) add(count *int, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*count += n
	w.change.Broadcast()
}

// clientConn tells when the client closes it.
type clientConn struct {
	net.Conn
	close func()
}

func (c *clientConn) Close() error {
	c.close()
	return c.Conn.Close()
}

func (w *wire) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	return &wireListener{Listener: l, wire: w}, err
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	down := w.down[address]
	w.tried[address]++
	w.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	w.dials.Add(1)
	raw, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.add(&w.client, 1)
	return &clientConn{Conn: raw, close: sync.OnceFunc(func() { w.add(&w.client, -1) })}, nil
}

// cut closes all connections from the broker's side.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		c.Conn.Close()
	}
}

// refuse closes the ports of brokers, and open opens them.
func (w *wire) refuse(addresses ...string) {
	w.mu.Lock()
	for _, a := range addresses {
		w.down[a] = true
	}
	w.mu.Unlock()
	w.cut()
}

func (w *wire) open(addresses ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range addresses {
		delete(w.down, a)
	}
}

// freeze stops brokers as SIGSTOP does: the kernel goes on accepting and buffering.
func (w *wire) freeze(addresses ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range addresses {
		w.frozen[a] = make(chan struct{})
	}
}

func (w *wire) thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for a, thawed := range w.frozen {
		close(thawed)
		delete(w.frozen, a)
	}
}

// halve lets only the first half of each long answer through.
func (w *wire) halve(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.halves = on
}

type wireListener struct {
	net.Listener
	wire *wire
}

func (l *wireListener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &wireConn{Conn: raw, wire: l.wire, closed: make(chan struct{})}
	l.wire.mu.Lock()
	defer l.wire.mu.Unlock()
	l.wire.conns[c] = true
	return c, nil
}

type wireConn struct {
	net.Conn
	wire   *wire
	once   sync.Once
	closed chan struct{}
}

func (c *wireConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.wire.mu.Lock()
	thawed := c.wire.frozen[c.LocalAddr().String()]
	c.wire.mu.Unlock()
	if thawed != nil {
		c.wire.add(&c.wire.held, 1)
		select {
		case <-thawed:
		case <-c.closed:
		}
		c.wire.add(&c.wire.held, -1)
	}
	return n, err
}

func (c *wireConn) Write(p []byte) (int, error) {
	c.wire.mu.Lock()
	halves := c.wire.halves
	c.wire.mu.Unlock()
	if !halves || len(p) < 2<<10 { // a handshake is shorter
		return c.Conn.Write(p)
	}
	_, err := c.Conn.Write(p[:len(p)/2])
	return len(p), err
}

func (c *wireConn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.wire.mu.Lock()
		delete(c.wire.conns, c)
		c.wire.mu.Unlock()
	})
	return c.Conn.Close()
}

// cluster is a kfake of three brokers behind a wire.
type cluster struct {
	*kfake.Cluster
	wire  *wire
	addrs []string // by node id
}

func newCluster(t *testing.T, opts ...kfake.Opt) *cluster {
	t.Helper()
	w := newWire()
	opts = append([]kfake.Opt{kfake.NumBrokers(3), kfake.ListenFn(w.listen)}, opts...)
	k, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	t.Cleanup(w.thaw)
	return &cluster{Cluster: k, wire: w, addrs: k.ListenAddrs()}
}

// client is one that knows the first broker only.
func (k *cluster) client(t *testing.T, change ...func(*Config)) *Client {
	t.Helper()
	cfg := Config{Bootstrap: k.addrs[:1], Dial: k.wire.dial}
	for _, f := range change {
		f(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// kill removes a node, with its connections.
func (k *cluster) kill(t *testing.T, node int32) {
	t.Helper()
	if err := k.RemoveNode(node); err != nil {
		t.Fatal(err)
	}
	k.wire.cut()
}

const inTime = 8 * time.Second

func impatient(c *Config) {
	c.RequestTimeout, c.DialTimeout = 400*time.Millisecond, 300*time.Millisecond
}

// watch calls seen for each request of that key, with the node that received it.
func (k *cluster) watch(key kmsg.Key, seen func(node int32, req kmsg.Request)) {
	k.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		seen(k.CurrentNode(), req)
		return nil, nil, false
	})
}

func (k *cluster) count(key kmsg.Key) *atomic.Int32 {
	n := new(atomic.Int32)
	k.watch(key, func(int32, kmsg.Request) { n.Add(1) })
	return n
}

// within runs what has a limit of its own, of less than half a second or of nothing to wait for. Without
// that limit it would take 10 s (a default) or more; a slow machine takes less.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if took := time.Since(start); took > inTime {
		t.Errorf("%s took %v, want at most %v", what, took, inTime)
	}
}
