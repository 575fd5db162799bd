package restore

import (
	"context"
	"time"

	"github.com/pillion/pillion/internal/fetch"
	"github.com/pillion/pillion/protocol/frame"
)

// Frame sends a frame to the worker when gate and credit allow it.
func (s *replay) Frame(ctx context.Context, f []byte, p fetch.Position) error {
	h, err := frame.ParseHeader(f)
	if err != nil {
		return err
	}
	select {
	case s.sending <- struct{}{}:
		defer func() { <-s.sending }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.r.Gate.Send(ctx, s.r.Stream, f); err != nil {
		return err
	}
	s.mu.Lock()
	s.records += int64(h.Count)
	s.bytes += int64(len(f))
	s.framed, s.lastSent, s.sent = h.Next, time.Now(), true
	s.mu.Unlock()
	s.moved(p)
	return nil
}

// Progress takes note of where the log is.
func (s *replay) Progress(p fetch.Position) {
	s.moved(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reached && p.StableOffset >= 0 && p.Next >= p.StableOffset {
		if whole := time.Now().Add(-wholeSlack); whole.After(s.asOf) {
			s.asOf = whole
		}
	}
}

// Stopped is the fetcher's last word.
func (s *replay) Stopped(err error) { s.over <- err }

// moved takes the new position and wakes the request's goroutine when the end is there.
func (s *replay) moved(p fetch.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pos = p
	if s.reached || p.Next < s.end {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// checkpointAt is what goes with a frame.
func (s *replay) checkpointAt(next int64, leaderEpoch int32) []byte {
	s.mu.Lock()
	c := s.checkpoint(next, leaderEpoch)
	s.mu.Unlock()
	return c.append(make([]byte, 0, 64))
}

// checkpoint needs mu.
func (s *replay) checkpoint(next int64, leaderEpoch int32) Checkpoint {
	return Checkpoint{TopicID: s.topicID, Next: next, LeaderEpoch: leaderEpoch, Time: s.asOf}
}
