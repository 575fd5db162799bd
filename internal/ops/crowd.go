package ops

import (
	"net"
	"net/http"
	"slices"
	"sync"
)

// maxSilent is how many connections may be open on which no request is under way.
const maxSilent = 256

// crowd closes the oldest of the connections that say nothing when there are too many. Turning away the
// newest would let anybody who can reach the port hold off the probes, and have the sidecar restarted.
type crowd struct {
	mu     sync.Mutex
	silent []net.Conn // oldest first
}

// state is http.Server's ConnState.
func (c *crowd) state(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.silent, conn); i >= 0 {
		c.silent = slices.Delete(c.silent, i, i+1)
	}
	if state != http.StateNew && state != http.StateIdle {
		return
	}
	if c.silent = append(c.silent, conn); len(c.silent) > maxSilent {
		_ = c.silent[0].Close()
		c.silent = slices.Delete(c.silent, 0, 1)
	}
}
