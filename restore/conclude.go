package restore

import (
	"context"
	"errors"
	"fmt"

	"github.com/pillion/pillion/internal/fetch"
	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol"
)

// ended says that the request was to end: nothing is wrong with its log.
func ended(err error) bool {
	return err == nil || errors.Is(err, gate.ErrClosed) || errors.Is(err, fetch.ErrStopped) || errors.Is(err, context.Canceled)
}

// changed says that the log is not as it was.
func changed(err error) bool {
	var (
		out       *fetch.OutOfRangeError
		truncated *fetch.TruncatedError
		recreated *fetch.RecreatedError
	)
	return errors.As(err, &out) || errors.As(err, &truncated) || errors.As(err, &recreated)
}

// conclude tells the handler the end.
func (s *replay) conclude(err error) {
	var (
		reset     *resetError
		out       *fetch.OutOfRangeError
		truncated *fetch.TruncatedError
		recreated *fetch.RecreatedError
	)
	switch {
	case errors.As(err, &reset):
		s.reset(reset.code, reset.reason, reset.start)
	case errors.As(err, &out) && out.Position < out.LogStart:
		s.reset(protocol.CodeBelowLogStart, err.Error(), out.LogStart)
	case errors.As(err, &out):
		s.reset(protocol.CodePastEnd, err.Error(), out.LogStart)
	case errors.As(err, &truncated):
		s.reset(protocol.CodeTruncated, err.Error(), s.logStart())
	case errors.As(err, &recreated) && s.r.Kind != Changelog: // our own is the truth: nothing is wiped for it
		s.reset(protocol.CodeRecreated, err.Error(), s.logStart())
	default:
		s.m.log.Debug("a table cannot be restored", s.fields("error", err)...)
		s.m.cfg.Handler.Failed(s.r, fmt.Errorf("%s: %w", s.r, err))
	}
}

func (s *replay) reset(code, reason string, start int64) {
	message := fmt.Sprintf("%s: %s; the store is wiped and replayed from offset %d", s.r, reason, start)
	s.m.log.Debug("a store is reset", s.fields("error", reason, "offset", start)...)
	s.m.cfg.Handler.Reset(s.r, code, message, start)
}

// logStart is where the log starts now, or 0 when that cannot be told.
func (s *replay) logStart() int64 {
	start, err := s.offset(s.ctx, kafka.Earliest, false)
	if err != nil {
		return 0
	}
	return start
}
