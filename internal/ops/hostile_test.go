package ops

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pillion/pillion/session"
)

const patience = 60 * time.Second

// serving runs a server until the test ends, and gives its address.
func serving(t *testing.T, head time.Duration) string {
	t.Helper()
	s := server(t, &session.Status{}, nil)
	s.patience = head
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s.Addr().String()
}

func probe(t *testing.T, addr string) {
	t.Helper()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + addr + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// Whatever a stranger sends, he is answered or cut off, and the probes are answered meanwhile.
func TestHostileStrangers(t *testing.T) {
	for _, test := range []struct{ name, say, want string }{
		{"nothing", "", ""},
		{"a head without end", "GET /livez HTTP/1.1\r\nHost: x\r\nX-", ""},
		{"a head that is too large", "GET /livez HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", "431"},
		{"a path that is too large", "GET /" + strings.Repeat("x", 64<<10) + " HTTP/1.1\r\n", "431"},
		{"a body that never comes", "GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 9223372036854775807\r\n\r\nx", "200"},
		{"chunks without end", "GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "200"},
		{"no GET", "POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab", "405"},
		{"another method", "DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "405"},
		{"nothing there", "GET /drain HTTP/1.1\r\nHost: x\r\n\r\n", "404"},
		{"a proxy's request", "CONNECT example.com:80 HTTP/1.1\r\nHost: x\r\n\r\n", "405"},
		{"no HTTP", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400"},
	} {
		t.Run(test.name, func(t *testing.T) {
			addr := serving(t, 50*time.Millisecond)
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprint(c, test.say)
			probe(t, addr)
			if strings.HasSuffix(test.say, "Host: x\r\n\r\n") {
				_ = c.(*net.TCPConn).CloseWrite() // a request that is whole: the connection would be kept
			}
			_ = c.SetReadDeadline(time.Now().Add(patience))
			said, err := io.ReadAll(c)
			if err != nil && !strings.Contains(err.Error(), "reset") {
				t.Fatalf("it is still open: %v", err)
			}
			if line, _, _ := strings.Cut(string(said), "\r\n"); !strings.Contains(line, test.want) {
				t.Errorf("answered %q, want %s", line, test.want)
			}
		})
	}
}

// A crowd that says nothing does not keep the probes out, however long it may stay.
func TestSilentCrowd(t *testing.T) {
	addr := serving(t, time.Hour)
	var crowd []net.Conn
	for range 2 * maxSilent {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		crowd = append(crowd, c)
	}
	probe(t, addr)
	for _, c := range crowd[:maxSilent] {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if _, err := c.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Fatalf("one of the oldest is still open: %v", err)
		}
	}
}
