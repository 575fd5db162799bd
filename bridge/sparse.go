package bridge

import (
	"sync"
	"time"
)

// sparse keeps a stranger or a broken worker from flooding the log: a few lines at once, then one a
// second, which says how many were left out.
type sparse struct {
	mu      sync.Mutex
	tokens  float64
	last    time.Time
	skipped int
}

const sparseBurst = 10

// allow says whether to write a line, and how many were left out before it.
func (s *sparse) allow(now time.Time) (skipped int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.IsZero() {
		s.tokens = sparseBurst
	} else {
		s.tokens = min(sparseBurst, s.tokens+now.Sub(s.last).Seconds())
	}
	s.last = now
	if s.tokens < 1 {
		s.skipped++
		return 0, false
	}
	s.tokens--
	skipped, s.skipped = s.skipped, 0
	return skipped, true
}

// warn writes a line that strangers can cause.
func (s *Server) warn(message string, args ...any) {
	if skipped, ok := s.sparse.allow(time.Now()); ok {
		if skipped > 0 {
			args = append(args, "left_out", skipped)
		}
		s.log.Warn(message, args...)
	}
}
