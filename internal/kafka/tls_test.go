package kafka

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafkatest/kafkaproc"
)

// listens is a TLS listener with that certificate, which does the handshake and then ends the connection.
func listens(t *testing.T, ca *kafkaproc.CA, leaf kafkaproc.Leaf, change func(*tls.Config)) string {
	t.Helper()
	cert, key, err := ca.Issue(leaf)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{pair}}
	if change != nil {
		change(cfg)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			_ = conn.(*tls.Conn).Handshake()
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func TestCertificatesThatAreOverAreNamed(t *testing.T) {
	ca := authority(t, "ca")
	dir := t.TempDir()
	s := Security{Protocol: SSL, CAFile: filepath.Join(dir, "ca"), CertificateFile: filepath.Join(dir, "cert"), KeyFile: filepath.Join(dir, "key")}
	put(t, s.CAFile, ca.PEM)
	over := time.Now().Add(-time.Hour)
	if err := ca.IssueTo(kafkaproc.Leaf{Name: "app", Expires: over}, s.CertificateFile, s.KeyFile); err != nil {
		t.Fatal(err)
	}
	here := []string{"127.0.0.1"}
	expired := listens(t, ca, kafkaproc.Leaf{Name: "broker", Hosts: here, Expires: over}, nil)
	nobody := listens(t, ca, kafkaproc.Leaf{Name: "broker"}, nil)
	asking := listens(t, ca, kafkaproc.Leaf{Name: "broker", Hosts: here}, func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert })
	old := listens(t, ca, kafkaproc.Leaf{Name: "broker", Hosts: here}, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS11; c.MinVersion = tls.VersionTLS10 })
	good := day(over)
	for address, want := range map[string]string{
		expired: "the certificate of the broker at " + expired + " (CN=broker) is good from ",
		asking:  "broker at " + asking + " asks for our client certificate, but it is good from ",
		nobody:  "the certificate of the broker at " + nobody + " is for no host at all and not for 127.0.0.1: ",
		old:     "the broker at " + old + " ends the TLS handshake (it says \"protocol version not supported\"): check its TLS versions, ciphers and keystore",
	} {
		c, err := New(Config{Bootstrap: []string{address}, Security: s})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		err = c.Admitted(deadline(t, time.Minute))
		var refused *SecurityError
		if !errors.As(err, &refused) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if strings.Contains(want, "good from") && !strings.Contains(err.Error(), " to "+good+" only: renew it ") {
			t.Errorf("got %v\nwhich does not say %s", err, good)
		}
	}
	// A certificate that was renewed in its file is used, without a restart.
	c, err := New(Config{Bootstrap: []string{asking}, Security: s})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := ca.IssueTo(kafkaproc.Leaf{Name: "app"}, s.CertificateFile, s.KeyFile); err != nil {
		t.Fatal(err)
	}
	if err := c.Admitted(deadline(t, time.Minute)); refusal(err) != nil {
		t.Errorf("the renewed certificate is not used: %v", err)
	}
	if got := c.principal(); got != "User:CN=app" {
		t.Errorf("we are %s", got)
	}
}

// A server that is silent in a handshake ends by DialTimeout, and leaves nothing behind.
func TestSilentHandshakesEnd(t *testing.T) {
	address := silent(t)
	for _, s := range []Security{
		{Protocol: SSL},
		{Protocol: SASLPlaintext, Mechanism: MechanismScram256, Username: "carol", Password: Secret{Value: "x"}},
		{Protocol: SASLPlaintext, Mechanism: MechanismOAuthBearer, TokenCommand: "sleep 60"},
	} {
		c, err := New(Config{Bootstrap: []string{address}, Security: s, DialTimeout: 200 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		err = c.Admitted(deadline(t, time.Minute))
		if err == nil || refusal(err) != nil {
			t.Errorf("%s: %v", s.Mechanism, err)
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("%s: it took %v", s.Mechanism, took)
		}
		c.Close()
		if n := c.sockets.count(); n != 0 {
			t.Errorf("%d sockets are left", n)
		}
	}
}

// Close ends what is in a handshake, also where that waits for a token.
func TestCloseEndsHandshakes(t *testing.T) {
	address := saslListener(t, 0)
	began := filepath.Join(t.TempDir(), "began")
	c, err := New(Config{Bootstrap: []string{address}, DialTimeout: time.Hour, RequestTimeout: time.Hour, Security: Security{
		Protocol: SASLPlaintext, Mechanism: MechanismOAuthBearer, TokenCommand: "touch " + began + "; sleep 600",
	}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- c.Reach(context.Background()) }()
	for ctx := deadline(t, time.Minute); ; {
		if _, err := os.Stat(began); err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("no token was asked for")
		}
		time.Sleep(time.Millisecond)
	}
	c.Close()
	if err := <-done; err == nil {
		t.Error("it was admitted")
	}
}

// A handshake that takes longer than a request has time is not begun anew with each try.
func TestSlowHandshakesComeToAnEnd(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	put(t, token, []byte("abc"))
	c, err := New(Config{Bootstrap: []string{saslListener(t, 200*time.Millisecond)}, Security: Security{
		Protocol: SASLPlaintext, Mechanism: MechanismOAuthBearer, TokenFile: token,
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.mu.Lock()
	b := c.brokers[c.cfg.Bootstrap[0]]
	c.mu.Unlock()
	for ctx := deadline(t, 20*time.Second); ; {
		try, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		err := b.send(try, newMessage(kmsg.NewPtrMetadataRequest()))
		cancel()
		if err == nil || !errors.Is(err, context.DeadlineExceeded) {
			break // the listener answers, and not as a broker would
		}
		if ctx.Err() != nil {
			t.Fatal("no handshake ever ended")
		}
	}
}

// saslListener answers every request as a broker does that takes OAUTHBEARER, those of SASL after a while.
func saslListener(t *testing.T, delay time.Duration) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				var head [4]byte
				for {
					if _, err := io.ReadFull(conn, head[:]); err != nil {
						return
					}
					body := make([]byte, binary.BigEndian.Uint32(head[:]))
					if _, err := io.ReadFull(conn, body); err != nil {
						return
					}
					if key := kmsg.Key(binary.BigEndian.Uint16(body)); key == kmsg.SASLHandshake || key == kmsg.SASLAuthenticate {
						time.Sleep(delay)
					}
					_, _ = conn.Write(slices.Concat([]byte{0, 0, 0, 20}, body[4:8], make([]byte, 16)))
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return l.Addr().String()
}

func TestARefusalHoldsForAWhile(t *testing.T) {
	var r refusals
	now := time.Unix(1000, 0)
	refused := &SecurityError{Message: "no"}
	for _, step := range []struct {
		after time.Duration
		note  bool
		held  bool
	}{
		{0, true, true}, {heldFirst - 1, false, true}, {1, false, false}, {0, true, true}, {heldFirst, false, true}, {heldFirst, false, false},
	} {
		now = now.Add(step.after)
		if step.note {
			r.note(now, refused)
		}
		if got := r.held(now) != nil; got != step.held {
			t.Errorf("%+v: held %v", step, got)
		}
	}
	for range 20 {
		r.note(now, refused)
	}
	if r.held(now.Add(heldLast-1)) == nil || r.held(now.Add(heldLast)) != nil {
		t.Error("it does not end at its longest")
	}
	r.note(now, nil)
	if r.held(now) != nil {
		t.Error("an admission does not end it")
	}
	r.note(now, &SecurityError{Message: "perhaps", maybe: true})
	if r.held(now) != nil {
		t.Error("a broker that may only be starting is held off")
	}
}

func TestWhenToAuthenticateAgain(t *testing.T) {
	now := time.Unix(1000, 0)
	for life, want := range map[time.Duration]time.Duration{
		4 * time.Second: 3200 * time.Millisecond, time.Hour: 48 * time.Minute, time.Second: 1100 * time.Millisecond,
	} {
		if got := dueAfter(now, life).Sub(now); got != want {
			t.Errorf("of %v: after %v, want %v", life, got, want)
		}
	}
	if !dueAfter(now, 0).IsZero() {
		t.Error("a session that never ends has to be renewed")
	}
}

// closing is a connection that only counts.
type closing struct{ net.Conn }

func (closing) Close() error                { return nil }
func (closing) SetDeadline(time.Time) error { return nil }
func (closing) Write(p []byte) (int, error) { return len(p), nil }
func (closing) Read(p []byte) (int, error)  { return len(p), nil }

// INVARIANT: no request is written when the broker's time for our authentication is nearly over.
func TestAConnectionIsRenewedBetweenRequestsOnly(t *testing.T) {
	renewed := 0
	c := &conn{Conn: closing{}, speaks: closing{}, limit: time.Second}
	c.renew = func(net.Conn, *who) (time.Time, error) { renewed++; return time.Now().Add(time.Hour), nil }
	write := func() { _, _ = c.Write([]byte("a part of a request")) }
	read := func() { _, _ = c.Read(make([]byte, 1)) }
	write()
	c.due = time.Now() // in the middle of the first request
	write()
	if renewed != 0 {
		t.Error("renewed in the middle of a request")
	}
	read()
	read()
	if renewed != 0 {
		t.Error("renewed in the middle of an answer")
	}
	write()
	if renewed != 1 {
		t.Errorf("renewed %d times before the next request", renewed)
	}
	read()
	write()
	if renewed != 1 {
		t.Error("renewed again at once")
	}
	c.due, c.renew = time.Now(), func(net.Conn, *who) (time.Time, error) { return time.Time{}, &SecurityError{Message: "no"} }
	read()
	if _, err := c.Write(nil); !lost(&transportError{err: err}) {
		t.Errorf("%v must be tried again over a new connection", err)
	}
}
