package restore

import "time"

// meter measures a replay between ticks.
type meter struct {
	at      time.Time // of the last tick
	records int64     // then
	next    int64     // then
	rate    float64   // records per second, smoothed
	speed   float64   // offsets per second, smoothed
}

const smoothing = 0.3 // the share of the newest tick

// tick takes the counters and returns rate and time to go (negative: not known).
func (m *meter) tick(now time.Time, records, next, remaining int64) (rate int64, eta time.Duration) {
	if passed := now.Sub(m.at).Seconds(); !m.at.IsZero() && passed > 0 {
		m.rate = smooth(m.rate, float64(records-m.records)/passed)
		m.speed = smooth(m.speed, float64(next-m.next)/passed)
	}
	m.at, m.records, m.next = now, records, next
	switch {
	case remaining == 0:
		return int64(m.rate), 0
	case m.speed < 1:
		return int64(m.rate), -1
	}
	return int64(m.rate), time.Duration(float64(remaining) / m.speed * float64(time.Second)).Round(time.Millisecond)
}

func smooth(before, now float64) float64 {
	if before == 0 {
		return now
	}
	return before + smoothing*(now-before)
}
