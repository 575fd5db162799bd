package bridge

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ask sends a request for a path of the listener, over TCP or its Unix socket.
func ask(s *Server, method, path string, h http.Header) (*http.Response, error) {
	tr := &http.Transport{DisableKeepAlives: true}
	url := "http" + strings.TrimPrefix(s.URL(), "ws") + path
	if socket, ok := strings.CutPrefix(s.URL(), "unix:"); ok {
		url = "http://localhost" + path
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}
	}
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header = h
	if host := h.Get("Host"); host != "" {
		req.Host = host
	}
	return tr.RoundTrip(req)
}

func withHeader(name, value string) http.Header {
	h := http.Header{"Authorization": headers()["Authorization"]}
	if value == "" {
		h.Del(name)
	} else {
		h.Set(name, value)
	}
	return h
}

func TestWhoMayDrain(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "unix:" + filepath.Join(t.TempDir(), "w.sock")} {
		asked := 0
		s, _ := start(t, func(c *Config) {
			c.Listen = listen
			c.Drain = func(context.Context) (Drained, error) {
				asked++
				return Drained{Tasks: 3, Took: 1200 * time.Millisecond}, nil
			}
		})
		for _, c := range []struct {
			method string
			header http.Header
			status int
			want   string
		}{
			{"POST", withHeader("Authorization", ""), 401, "the token is missing"},
			{"POST", withHeader("Authorization", "Bearer guess"), 401, "the token is missing"},
			{"POST", withHeader("Origin", "http://127.0.0.1"), 403, "is not allowed"},
			{"POST", withHeader("Host", "evil.example"), 403, "is not this listener"},
			{"GET", withHeader("Authorization", ""), 401, "the token is missing"},
			{"GET", withHeader("X", "y"), 405, "asked for with POST"},
			{"PUT", withHeader("X", "y"), 405, "asked for with POST"},
			{"POST", withHeader("X", "y"), 200, `{"drained":true,"tasks":3,"took_ms":1200}`},
		} {
			if c.status == 403 && strings.HasPrefix(listen, "unix:") && c.header.Get("Host") != "" {
				continue // any Host will do
			}
			resp, err := ask(s, c.method, "/drain", c.header)
			if err != nil {
				t.Fatal(err)
			}
			if got := body(resp); resp.StatusCode != c.status || !strings.Contains(got, c.want) {
				t.Errorf("%s %v: %d %s, want %d %s", c.method, c.header, resp.StatusCode, got, c.status, c.want)
			}
			if c.status == 405 && resp.Header.Get("Allow") != "POST" {
				t.Errorf("405 without Allow: %v", resp.Header)
			}
		}
		if asked != 1 {
			t.Errorf("%s: drained %d times", listen, asked)
		}
	}
}

func TestDrainsThatFail(t *testing.T) {
	for status, fault := range map[int]error{
		503: fmt.Errorf("Kafka refuses"),
		504: fmt.Errorf("%w after 25s", ErrDrainTimeout),
	} {
		s, _ := start(t, func(c *Config) {
			c.Drain = func(context.Context) (Drained, error) { return Drained{}, fault }
		})
		resp, err := ask(s, "POST", "/drain", withHeader("X", "y"))
		if err != nil {
			t.Fatal(err)
		}
		if _, message := jsonOf(t, body(resp)); resp.StatusCode != status || message != fault.Error() {
			t.Errorf("%d %q, want %d %q", resp.StatusCode, message, status, fault)
		}
	}
	s, _ := start(t, nil)
	resp, err := ask(s, "POST", "/drain", withHeader("X", "y"))
	if err != nil || resp.StatusCode != 404 {
		t.Fatalf("without a Drain: %v %v", resp, err)
	}
	resp.Body.Close()
}

// INVARIANT: who asked for a drain gets an answer before the server stops, also when the server stops
// for another reason.
func TestADrainIsAnsweredBeforeTheServerStops(t *testing.T) {
	for name, ends := range map[string]bool{"the drain ends the server": true, "the server stops": false} {
		t.Run(name, func(t *testing.T) {
			const many = 3 // the later ones join the first
			asked, drained := make(chan struct{}, many), make(chan struct{})
			s, err := New(Config{Listen: "127.0.0.1:0", Token: testToken, Drain: func(ctx context.Context) (Drained, error) {
				asked <- struct{}{}
				select {
				case <-drained:
				case <-ctx.Done():
				}
				select {
				case <-drained: // both may have come at once
					return Drained{Tasks: 1}, nil
				default:
					return Drained{}, fmt.Errorf("ended before it was done")
				}
			}}, &recorder{events: make(chan event, 9)})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			over, answers := make(chan error, 1), make(chan string, many)
			go func() { over <- s.Run(ctx) }()
			for range many {
				go func() {
					resp, err := ask(s, "POST", "/drain", withHeader("X", "y"))
					if err != nil {
						answers <- err.Error()
						return
					}
					b, _ := io.ReadAll(resp.Body)
					resp.Body.Close()
					answers <- fmt.Sprint(resp.StatusCode, " ", string(b))
				}()
			}
			for range many {
				<-asked
			}
			want := "503 "
			if ends {
				want = `200 {"drained":true,"tasks":1,`
				close(drained)
			}
			cancel()
			for range many {
				if got := <-answers; !strings.HasPrefix(got, want) {
					t.Errorf("got %s, want %s", got, want)
				}
			}
			if err := <-over; err != nil {
				t.Error(err)
			}
		})
	}
}
