package bridge

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gorilla/websocket"

	"github.com/pillion/pillion/protocol"
)

// refusal is the answer to a request that is not upgraded.
type refusal struct {
	status  int
	code    string
	message string
}

// refuseStranger says why a request is not from somebody who may ask anything here; nil: it may.
// What a browser cannot forge comes first, so that a web page learns nothing of tokens.
func (s *Server) refuseStranger(r *http.Request) *refusal {
	if s.hosts != nil && !slices.Contains(s.hosts, r.Host) {
		return &refusal{protocol.HTTPForbidden, "forbidden",
			fmt.Sprintf("host %q is not this listener: connect to %s", clip(r.Host, 100), s.URL())}
	}
	for _, origin := range r.Header.Values("Origin") {
		if !slices.Contains(s.cfg.AllowedOrigins, origin) {
			return &refusal{protocol.HTTPForbidden, "forbidden",
				fmt.Sprintf("origin %q is not allowed: this listener is for workers, not for browsers", clip(origin, 100))}
		}
	}
	if !s.authorized(r) {
		return &refusal{protocol.HTTPUnauthorized, "unauthorized",
			"the token is missing or wrong: send the sidecar's token as Authorization: Bearer, see PILLION_TOKEN_FILE"}
	}
	return nil
}

// refuse says why a request is not from a worker that may connect; nil: it may.
func (s *Server) refuse(r *http.Request) *refusal {
	if r.URL.Path != "/" {
		return &refusal{protocol.HTTPNotFound, "not_found",
			fmt.Sprintf("there is nothing at %q: the worker's websocket is at /", clip(r.URL.Path, 100))}
	}
	if !websocket.IsWebSocketUpgrade(r) {
		return &refusal{protocol.HTTPBadSubprotocol, "bad_subprotocol",
			"this is no websocket handshake: connect with a websocket and subprotocol " + protocol.Subprotocol}
	}
	if !slices.Contains(websocket.Subprotocols(r), protocol.Subprotocol) {
		return &refusal{protocol.HTTPBadSubprotocol, "bad_subprotocol",
			"subprotocol " + protocol.Subprotocol + " was not offered: the client speaks another version, update the older side"}
	}
	return nil
}

// authorized compares the bearer token in constant time, whatever its length.
func (s *Server) authorized(r *http.Request) bool {
	if s.cfg.Token == "" {
		return true
	}
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	got, want := sha256.Sum256([]byte(strings.TrimSpace(token))), sha256.Sum256([]byte(s.cfg.Token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

func (s *Server) answer(w http.ResponseWriter, no *refusal) {
	s.cfg.Metrics.refused(no.status)
	s.warn("refused a connection", "status", no.status, "error", no.message)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Sec-WebSocket-Version", "13")
	if no.status == protocol.HTTPUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	body := errorBody(no)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(no.status)
	w.Write(body)
}

// hostsOf lists the only Host headers that a listener answers to; nil for Unix sockets.
func hostsOf(listeners []net.Listener) []string {
	addr, ok := listeners[0].Addr().(*net.TCPAddr)
	if !ok {
		return nil
	}
	var hosts []string
	for _, host := range []string{"127.0.0.1", "[::1]", "localhost"} {
		hosts = append(hosts, fmt.Sprintf("%s:%d", host, addr.Port))
		if addr.Port == 80 {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// clip shortens what a stranger sent before it goes into a message.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= n {
		return s
	}
	cut := n - len("…")
	for cut > 0 && s[cut]&0xc0 == 0x80 {
		cut--
	}
	return s[:cut] + "…"
}
