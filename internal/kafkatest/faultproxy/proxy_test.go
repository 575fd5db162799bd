package faultproxy

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// frame is a request of a kind with a correlation id and a body.
func frame(key int16, id int32, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(body)))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(id))
	return append(b, body...)
}

// broker answers each request with its body, and keeps what it got.
type broker struct {
	listener net.Listener
	holds    chan bool // nil, or each answer waits for one

	mu  sync.Mutex
	got []byte
	all sync.WaitGroup
}

func newBroker(t *testing.T, secure *tls.Config) *broker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	b := &broker{listener: l}
	b.all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			b.all.Go(func() { b.serve(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); b.all.Wait() })
	return b
}

func (b *broker) serve(conn net.Conn) {
	defer conn.Close()
	for {
		got, err := readFrame(io.TeeReader(conn, b))
		if err != nil {
			return
		}
		if b.holds != nil {
			<-b.holds
		}
		answer := binary.BigEndian.AppendUint32(nil, uint32(len(got)-8))
		if _, err := conn.Write(append(answer, got[8:]...)); err != nil {
			return
		}
	}
}

func (b *broker) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, p...)
	return len(p), nil
}

func (b *broker) heard() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.got)
}

func start(t *testing.T, b *broker, cfg *Config) *Proxy {
	t.Helper()
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.Serve(b.listener.Addr().String())
	t.Cleanup(p.Close)
	return p
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

func ask(t *testing.T, c net.Conn, key int16, id int32, body string) (string, error) {
	t.Helper()
	if _, err := c.Write(frame(key, id, body)); err != nil {
		return "", err
	}
	got, err := readFrame(c)
	if err != nil {
		return "", err
	}
	if n, _ := answerID(got); n != id {
		t.Fatalf("the answer is for %d, not %d", n, id)
	}
	return string(got[8:]), nil
}

func named(net.Addr) string { return "me" }

func TestItPassesEverything(t *testing.T) {
	p := start(t, newBroker(t, nil), &Config{Node: 2, Who: named})
	c := dial(t, p)
	for id, body := range []string{"", "a", string(bytes.Repeat([]byte("b"), 1<<20))} {
		if got, err := ask(t, c, 0, int32(id), body); err != nil || got != body {
			t.Fatalf("%d bytes: %d came, %v", len(body), len(got), err)
		}
	}
	// An answer is passed on before its request stops being in flight, and before the next answer: only the last may be left.
	if n := len(p.InFlight()); n > 1 {
		t.Errorf("%d requests are in flight", n)
	}
}

// Each stage cuts where it says: what the broker has heard, and what the client hears.
func TestCuts(t *testing.T) {
	whole := frame(26, 7, "0123456789")
	for _, stage := range Stages {
		t.Run(string(stage), func(t *testing.T) {
			b := newBroker(t, nil)
			p := start(t, b, &Config{Node: 2, Who: named})
			type struck struct {
				request Request
				flying  int
			}
			hits := make(chan struck, 2)
			p.Arm(Cut{Who: "somebody else", Keys: []int16{26}, Stage: stage}, func(Request) { t.Error("somebody else's cut hit me") })
			p.Arm(Cut{Keys: []int16{0, 26}, Stage: stage}, func(r Request) { hits <- struck{r, len(p.InFlight())} })
			c := dial(t, p)
			if _, err := ask(t, c, 3, 6, "x"); err != nil {
				t.Fatalf("another kind is cut: %v", err)
			}
			before := len(frame(3, 6, "x"))
			_, err := c.Write(whole)
			rest, err2 := io.ReadAll(c)
			if err = errors.Join(err, err2); err != nil && !errors.Is(err, net.ErrClosed) {
				t.Logf("the client sees %v", err)
			}
			b.listener.Close()
			b.all.Wait() // until it has heard the end
			heard := len(b.heard()) - before
			wantHeard := map[Stage]int{BeforeRequest: 0, MidRequest: len(whole) / 2, BeforeAnswer: len(whole), MidAnswer: len(whole)}[stage]
			wantRest := map[Stage]int{MidAnswer: (len(whole) - 4) / 2}[stage]
			if heard != wantHeard || len(rest) != wantRest {
				t.Errorf("the broker heard %d bytes, want %d; the client %d, want %d", heard, wantHeard, len(rest), wantRest)
			}
			if hit := <-hits; len(hits) != 0 || hit.request.Key != 26 || hit.request.Who != "me" || hit.request.Node != 2 || hit.flying != 1 {
				t.Errorf("hit %+v", hit)
			}
		})
	}
}

// A cut is used up, and one that was given up does nothing.
func TestACutIsUsedOnce(t *testing.T) {
	p := start(t, newBroker(t, nil), &Config{})
	gone := p.Arm(Cut{Keys: []int16{1}, Stage: BeforeRequest}, func(Request) { t.Error("it was given up") })
	p.Disarm(gone)
	p.Arm(Cut{Keys: []int16{1}, Stage: BeforeRequest}, func(Request) {})
	if _, err := ask(t, dial(t, p), 2, 1, ""); err != nil {
		t.Error(err)
	}
	p.Disarm(gone)
	if _, err := ask(t, dial(t, p), 1, 1, ""); err == nil {
		t.Error("not cut")
	}
	if _, err := ask(t, dial(t, p), 1, 1, ""); err != nil {
		t.Errorf("cut twice: %v", err)
	}
}

// What is half-open loses silently, and is cut when that is over; others do not notice.
func TestHalfOpen(t *testing.T) {
	for _, lost := range []HalfOpen{Deaf, Dumb} {
		t.Run(string(lost), func(t *testing.T) {
			b := newBroker(t, nil)
			p := start(t, b, &Config{Who: named})
			c := dial(t, p)
			if _, err := ask(t, c, 0, 1, ""); err != nil {
				t.Fatal(err)
			}
			before := len(b.heard())
			p.Set(Weather{Who: "somebody else", HalfOpen: lost})
			lift := p.Set(Weather{Who: "me", HalfOpen: lost})
			if _, err := c.Write(frame(0, 2, "lost")); err != nil {
				t.Fatal(err)
			}
			_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			if _, err := c.Read(make([]byte, 1)); !isTimeout(err) {
				t.Errorf("read: %v, want a timeout", err)
			}
			if n := len(p.InFlight()); n != 1 {
				t.Errorf("%d in flight", n)
			}
			if heard := len(b.heard()) > before; heard != (lost == Dumb) {
				t.Errorf("the broker heard it: %v", heard)
			}
			lift()
			_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
			if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
				t.Errorf("read: %v, want the end", err)
			}
			if _, err := ask(t, dial(t, p), 0, 3, "well"); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func TestDelayAndThrottle(t *testing.T) {
	p := start(t, newBroker(t, nil), &Config{Who: named})
	for name, w := range map[string]Weather{"delay": {Delay: 60 * time.Millisecond}, "throttle": {Throttle: 10_000}} {
		lift := p.Set(w)
		began := time.Now()
		if _, err := ask(t, dial(t, p), 0, 1, string(make([]byte, 588))); err != nil { // 600 and 596 bytes
			t.Fatal(err)
		}
		if took := time.Since(began); took < 115*time.Millisecond {
			t.Errorf("%s: took %v", name, took)
		}
		lift()
	}
}

func TestCutAll(t *testing.T) {
	p := start(t, newBroker(t, nil), &Config{Who: named})
	c := dial(t, p)
	if _, err := ask(t, c, 0, 1, ""); err != nil {
		t.Fatal(err)
	}
	if n := p.CutAll("somebody else"); n != 0 {
		t.Errorf("%d links of nobody", n)
	}
	if n := p.CutAll("me"); n != 1 {
		t.Errorf("%d links", n)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("not cut")
	}
}

// Under TLS on both sides requests are seen, too.
func TestTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	server := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	client := &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
	p := start(t, newBroker(t, server), &Config{Server: server, Client: client})
	cut := make(chan int16, 1)
	p.Arm(Cut{Keys: []int16{28}, Stage: BeforeAnswer}, func(r Request) { cut <- r.Key })
	c := tls.Client(dial(t, p), client)
	if got, err := ask(t, c, 26, 1, "hello"); err != nil || got != "hello" {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := ask(t, c, 28, 2, ""); err == nil {
		t.Error("not cut")
	}
	if got := <-cut; got != 28 {
		t.Errorf("cut %d", got)
	}
}

func TestWhatIsNoKafkaEnds(t *testing.T) {
	p := start(t, newBroker(t, nil), &Config{})
	c := dial(t, p)
	if _, err := c.Write([]byte{0xff, 0xff, 0xff, 0xff, 0, 0}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("it goes on")
	}
}
