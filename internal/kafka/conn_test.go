package kafka

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// silent is a server that accepts and says nothing.
func silent(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// INVARIANT: no read and no write of a socket is without a deadline. The Transport clears it before
// its SASL handshake.
func TestNoReadIsWithoutDeadline(t *testing.T) {
	c, err := New(Config{Bootstrap: []string{silent(t)}, DialTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.dial(t.Context(), "tcp", c.cfg.Bootstrap[0])
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	for _, clear := range []func(time.Time) error{raw.SetDeadline, raw.SetReadDeadline} {
		if err := clear(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := clear(time.Time{}); err != nil {
			t.Fatal(err)
		}
		within(t, "read", func() {
			if _, err := raw.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
		})
	}
	if err := raw.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	within(t, "write", func() {
		for err = nil; err == nil; {
			_, err = raw.Write(make([]byte, 1<<20))
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestSilentServerEndsByDialTimeout(t *testing.T) {
	address := silent(t)
	c, err := New(Config{Bootstrap: []string{address}, DialTimeout: 50 * time.Millisecond, RequestTimeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	within(t, "call", func() {
		_, err := c.Any(t.Context(), listGroups())
		if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), address) {
			t.Error(err)
		}
	})
}
