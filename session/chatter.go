package session

import (
	"strings"
	"time"
)

// chatter keeps the log from being flooded: a few lines at once, then one a second.
type chatter struct {
	tokens  float64
	last    time.Time
	skipped int
}

const chatterBurst = 10

// logChatter writes a line that the worker, or a Kafka that is away, can cause again and again.
func (m *Machine) logChatter(message string, args ...any) {
	c := &m.chatter
	if c.last.IsZero() {
		c.tokens = chatterBurst
	}
	c.tokens = min(chatterBurst, c.tokens+max(0, m.now.Sub(c.last).Seconds()))
	c.last = m.now
	if c.tokens < 1 {
		c.skipped++
		return
	}
	c.tokens--
	if c.skipped > 0 {
		args = append(args, "left_out", c.skipped)
		c.skipped = 0
	}
	m.log("warn", message, args...)
}

// clip shortens what the worker wrote, for a line of the log.
func clip(s string) string {
	const most = 300
	if s = strings.ToValidUTF8(s, "?"); len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
