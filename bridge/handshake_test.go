package bridge

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

func TestHandshakeRefusals(t *testing.T) {
	s, _ := start(t, func(c *Config) { c.AllowedOrigins = []string{"http://good.example"} })
	port := strings.TrimPrefix(s.URL(), "ws://127.0.0.1:")
	for _, tc := range []struct {
		name    string
		change  func(h http.Header, d *websocket.Dialer)
		path    string
		status  int
		code    string
		message string
	}{
		{name: "good"},
		{name: "good origin", change: func(h http.Header, _ *websocket.Dialer) { h.Set("Origin", "http://good.example") }},
		{name: "localhost", change: func(h http.Header, _ *websocket.Dialer) { h.Set("Host", "localhost:"+port) }},
		{name: "scheme in small letters", change: func(h http.Header, _ *websocket.Dialer) { h.Set("Authorization", "bearer "+testToken) }},
		{name: "several subprotocols", change: func(_ http.Header, d *websocket.Dialer) { d.Subprotocols = []string{"pillion.v9", "pillion.v1"} }},
		{name: "deflate is ignored", change: func(_ http.Header, d *websocket.Dialer) { d.EnableCompression = true }},
		{name: "no token", change: func(h http.Header, _ *websocket.Dialer) { h.Del("Authorization") },
			status: 401, code: "unauthorized", message: "the token is missing or wrong: send the sidecar's token as Authorization: Bearer, see PILLION_TOKEN_FILE"},
		{name: "wrong token", change: func(h http.Header, _ *websocket.Dialer) { h.Set("Authorization", "Bearer "+testToken+"x") },
			status: 401, code: "unauthorized", message: "the token is missing or wrong"},
		{name: "prefix of the token", change: func(h http.Header, _ *websocket.Dialer) { h.Set("Authorization", "Bearer "+testToken[:5]) },
			status: 401, code: "unauthorized", message: "the token is missing or wrong"},
		{name: "empty token", change: func(h http.Header, _ *websocket.Dialer) { h.Set("Authorization", "Bearer ") },
			status: 401, code: "unauthorized", message: "the token is missing or wrong"},
		{name: "other scheme", change: func(h http.Header, _ *websocket.Dialer) { h.Set("Authorization", "Basic "+testToken) },
			status: 401, code: "unauthorized", message: "the token is missing or wrong"},
		{name: "two tokens", change: func(h http.Header, _ *websocket.Dialer) { h.Add("Authorization", "Bearer guess") },
			status: 401, code: "unauthorized", message: "the token is missing or wrong"},
		{name: "no subprotocol", change: func(_ http.Header, d *websocket.Dialer) { d.Subprotocols = nil },
			status: 400, code: "bad_subprotocol", message: "subprotocol pillion.v1 was not offered: the client speaks another version, update the older side"},
		{name: "other subprotocol", change: func(_ http.Header, d *websocket.Dialer) { d.Subprotocols = []string{"pillion.v2"} },
			status: 400, code: "bad_subprotocol", message: "subprotocol pillion.v1 was not offered"},
		{name: "browser", change: func(h http.Header, _ *websocket.Dialer) { h.Set("Origin", "http://evil.example") },
			status: 403, code: "forbidden", message: `origin "http://evil.example" is not allowed: this listener is for workers, not for browsers`},
		{name: "browser without a token", change: func(h http.Header, _ *websocket.Dialer) {
			h.Set("Origin", "null")
			h.Del("Authorization")
		}, status: 403, code: "forbidden", message: `origin "null" is not allowed`},
		{name: "origin of the listener itself", change: func(h http.Header, _ *websocket.Dialer) { h.Set("Origin", "http://127.0.0.1:"+port) },
			status: 403, code: "forbidden", message: "is not allowed"},
		{name: "rebinding", change: func(h http.Header, _ *websocket.Dialer) { h.Set("Host", "evil.example:"+port) },
			status: 403, code: "forbidden", message: fmt.Sprintf(`host "evil.example:%s" is not this listener: connect to ws://127.0.0.1:%s`, port, port)},
		{name: "prefix of a host", change: func(h http.Header, _ *websocket.Dialer) { h.Set("Host", "127.0.0.1.evil.example:"+port) },
			status: 403, code: "forbidden", message: "is not this listener"},
		{name: "other loopback", change: func(h http.Header, _ *websocket.Dialer) { h.Set("Host", "127.0.0.2:"+port) },
			status: 403, code: "forbidden", message: "is not this listener"},
		{name: "other port", change: func(h http.Header, _ *websocket.Dialer) { h.Set("Host", "127.0.0.1:1") },
			status: 403, code: "forbidden", message: "is not this listener"},
		{name: "no port", change: func(h http.Header, _ *websocket.Dialer) { h.Set("Host", "127.0.0.1") },
			status: 403, code: "forbidden", message: "is not this listener"},
		{name: "other path", path: "/metrics", status: 404, code: "not_found", message: `there is nothing at "/metrics": the worker's websocket is at /`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, d := headers(), dialer(s)
			if tc.change != nil {
				tc.change(h, d)
			}
			ws, resp, err := d.Dial(s.URL()+tc.path, h)
			if tc.status == 0 {
				if err != nil {
					t.Fatalf("dial: %v %s", err, body(resp))
				}
				if ws.Subprotocol() != "pillion.v1" || resp.Header.Get("Sec-Websocket-Extensions") != "" {
					t.Fatalf("answer %v", resp.Header)
				}
				ws.Close()
				return
			}
			if err == nil {
				t.Fatal("was let in")
			}
			code, message := jsonOf(t, body(resp))
			if resp.StatusCode != tc.status || code != tc.code || !strings.HasPrefix(message, tc.message) && !strings.Contains(message, tc.message) {
				t.Fatalf("%d %s %q, want %d %s %q", resp.StatusCode, code, message, tc.status, tc.code, tc.message)
			}
		})
	}
}

func TestPlainRequestsAreAnswered(t *testing.T) {
	s, _ := start(t, nil)
	url := "http" + strings.TrimPrefix(s.URL(), "ws")
	for _, tc := range []struct {
		method, part string
		header       http.Header
		status       int
	}{
		{"GET", "this is no websocket handshake", headers(), 400},
		{"POST", "this is no websocket handshake", headers(), 400},
		{"GET", "the token is missing", http.Header{}, 401},
		{"GET", "", http.Header{"Authorization": headers()["Authorization"], "X-Large": {strings.Repeat("x", 20<<10)}}, 431},
		{"GET", "'Sec-WebSocket-Key'", http.Header{"Authorization": headers()["Authorization"], "Connection": {"upgrade"}, "Upgrade": {"websocket"},
			"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Protocol": {"pillion.v1"}}, 400},
	} {
		req, err := http.NewRequest(tc.method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = tc.header
		tr := &http.Transport{}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		b := body(resp)
		resp.Body.Close()
		tr.CloseIdleConnections()
		if resp.StatusCode != tc.status || !strings.Contains(b, tc.part) || !resp.Close {
			t.Fatalf("%d %q (closes: %v), want %d with %q", resp.StatusCode, b, resp.Close, tc.status, tc.part)
		}
	}
}

// A Unix socket's Host is whatever the client's library makes up; a browser cannot reach it, but the
// other checks stand.
func TestUnixSocketChecksToken(t *testing.T) {
	s, _ := start(t, func(c *Config) { c.Listen = "unix:" + t.TempDir() + "/s" })
	_, resp, err := dialer(s).Dial("ws://localhost/", nil)
	if err == nil || resp == nil || resp.StatusCode != 401 {
		t.Fatalf("without a token: %v %v", resp, err)
	}
	h := headers()
	h.Set("Origin", "http://evil.example")
	if _, resp, err = dialer(s).Dial("ws://localhost/", h); err == nil || resp == nil || resp.StatusCode != 403 {
		t.Fatalf("with an origin: %v %v", resp, err)
	}
}

// A request that never becomes whole holds nothing but its socket, and that not for long.
func TestSlowLoris(t *testing.T) {
	s, r := start(t, func(c *Config) { c.headerTimeout = 50 * time.Millisecond })
	addr := strings.TrimPrefix(s.URL(), "ws://")
	var slow []net.Conn
	for i := range maxHTTP + 20 { // more than are accepted at once
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if i%2 == 0 {
			fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: ")
		}
		slow = append(slow, conn)
	}
	worker(t, s, r) // gets in all the same
	for _, conn := range slow {
		conn.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Fatalf("a slow request is still open: %v", err)
		}
	}
}

// A body that never comes is not waited for either.
func TestSlowBody(t *testing.T) {
	s, _ := start(t, func(c *Config) { c.headerTimeout = 50 * time.Millisecond })
	addr := strings.TrimPrefix(s.URL(), "ws://")
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Length: 100000\r\n\r\nx", addr)
	conn.SetReadDeadline(time.Now().Add(patience))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != 401 {
		t.Fatalf("%v %v", resp, err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatal(err)
	}
}

// Strangers that knock, and token holders that never say hello, do not disturb the worker.
func TestFloodOfUpgrades(t *testing.T) {
	s, r := start(t, nil)
	w, c := worker(t, s, r)
	var silent []*client
	for range maxWaiting {
		silent = append(silent, dial(t, s))
	}
	_, resp, err := dialer(s).Dial(target(s), headers())
	if err == nil || resp == nil || resp.StatusCode != 503 {
		t.Fatalf("one silent connection too many: %v %v", resp, err)
	}
	if code, message := jsonOf(t, body(resp)); code != "busy" || message != "8 connections have not said hello yet: try again" {
		t.Fatalf("%s %q", code, message)
	}
	var flood sync.WaitGroup
	for range 20 {
		flood.Go(func() {
			for range 20 {
				ws, _, err := dialer(s).Dial(target(s), http.Header{"Authorization": {"Bearer guess"}})
				if err == nil {
					ws.Close()
					t.Error("a guess was let in")
				}
			}
		})
	}
	for i := range 100 {
		c.OpenStream(uint32(i+1), true)
		w.frame(writes(uint32(i+1), 1, int64(i+1), 1000))
		w.say(commit(int64(i+1), 1))
		c.CommitDone(r.next(t, "message").writes)
	}
	flood.Wait()
	silent[0].Close() // makes room
	for {
		ws, resp, err := dialer(s).Dial(target(s), headers())
		if err == nil {
			ws.Close()
			return
		}
		if resp == nil || resp.StatusCode != 503 {
			t.Fatalf("%v %v", resp, err)
		}
	}
}

func TestWithoutATokenNoneIsAskedFor(t *testing.T) {
	s := &Server{cfg: Config{}}
	if !s.authorized(&http.Request{Header: http.Header{}}) {
		t.Error("a listener without a token asks for one")
	}
}
