package restore

// Replay is a request that was started. Its methods do not wait and may be called from any goroutine.
type Replay struct{ s *replay }

// Stop ends the request. One call of the handler may be under way when it returns.
func (r *Replay) Stop() { r.s.cancel() }

// FinishAt makes a changelog that is followed go on to end, say Reached with it, and end: at once when
// the position is there already. Whoever calls it has taken over the task, so that nobody writes behind
// end any more.
func (r *Replay) FinishAt(end int64) {
	s := r.s
	s.mu.Lock()
	s.finish, s.last, s.end, s.reached = true, end, end, false
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Records is how many were sent.
func (r *Replay) Records() int64 {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.s.records
}

// Lag is how many offsets the high watermark that was seen last is ahead; negative: none was seen yet.
func (r *Replay) Lag() int64 {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.s.pos.HighWatermark < 0 {
		return -1
	}
	return max(0, r.s.pos.HighWatermark-r.s.pos.Next)
}
