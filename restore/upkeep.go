package restore

import (
	"fmt"
	"time"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol/frame"
)

// heldAfter is how long a log may stand still at an open transaction before it is said. Usual ones end in
// less.
const heldAfter = 5 * time.Second

// logEvery is how often the log hears of the progress of a long replay; the worker hears more often.
const logEvery = 10 * time.Second

// tick reports, keeps the checkpoint of an idle table young, and looks for a log that lost its end.
func (s *replay) tick() error {
	if s.isReached() {
		return s.keepYoung()
	}
	if err := s.shorter(); err != nil {
		return err
	}
	now := time.Now()
	s.mu.Lock()
	p := Progress{Records: s.records, Bytes: s.bytes, Remaining: max(0, s.end-s.pos.Next)}
	next, reached := s.pos.Next, s.reached
	waits, news := s.waits(now)
	p.Waits = waits
	log := now.Sub(s.logged) >= logEvery || news
	if log {
		s.logged = now
	}
	s.mu.Unlock()
	if p.Rate, p.ETA = s.meter.tick(now, p.Records, next, p.Remaining); reached {
		return nil
	}
	s.m.cfg.Handler.Progress(s.r, p)
	if log {
		eta := "unknown"
		if p.ETA >= 0 {
			eta = p.ETA.Round(time.Second).String()
		}
		fields := s.fields("records", p.Records, "bytes", p.Bytes, "rate", p.Rate, "remaining", p.Remaining, "eta", eta)
		if waits != "" {
			s.m.log.Warn("a restore waits", append(fields, "waits_for", waits)...)
		} else {
			s.m.log.Info("still restoring", fields...)
		}
	}
	return nil
}

// waits says what a replay waits for that has read all that is stable: somebody has a transaction open
// there. News: it is said for the first time. It needs mu.
func (s *replay) waits(now time.Time) (text string, news bool) {
	stable := s.pos.StableOffset
	if stable < 0 || s.pos.Next < stable || s.pos.HighWatermark <= stable || s.pos.Next >= s.end {
		s.held, s.heldAt = time.Time{}, -1
		return "", false
	}
	if s.held.IsZero() || s.heldAt != stable {
		s.held, s.heldAt = now, stable
	}
	since := now.Sub(s.held)
	if since < heldAfter {
		return "", false
	}
	news = since < heldAfter+s.m.cfg.ProgressEvery
	return fmt.Sprintf("a transaction that is open at offset %d of %s/%d, and has been for %v: what follows it is read when its writer ends it, or its transaction.timeout.ms is over",
		stable, s.r.Topic, s.r.Partition, since.Round(time.Second)), news
}

// keepYoung sends a frame of no records that moves the checkpoint's time.
func (s *replay) keepYoung() error {
	s.mu.Lock()
	idle := time.Since(s.lastSent)
	s.mu.Unlock()
	if idle < s.m.cfg.IdleEvery {
		return nil
	}
	select {
	case s.sending <- struct{}{}:
		defer func() { <-s.sending }()
	default:
		return nil // a frame is on its way
	}
	s.mu.Lock()
	base, next := s.framed, s.pos.Next
	at := s.checkpoint(next, s.pos.LeaderEpoch)
	s.mu.Unlock()
	if s.builder == nil {
		s.builder = frame.NewBuilder(frame.Restore)
	}
	s.builder.Reset(s.r.Stream, s.r.Epoch, base)
	if err := s.r.Gate.Send(s.ctx, s.r.Stream, s.builder.Finish(nil, next, at.append(nil))); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.framed, s.lastSent = next, time.Now()
	return nil
}

// shorter notices a changelog that ends before the end that was captured: acknowledged records are
// gone, which nothing here can heal. What is left of the log is the truth then.
func (s *replay) shorter() error {
	s.mu.Lock()
	high, next, end := s.pos.HighWatermark, s.pos.Next, s.end
	if s.r.Kind != Changelog || high < 0 || high >= end || next < high {
		s.short = time.Time{}
		s.mu.Unlock()
		return nil
	}
	if s.short.IsZero() {
		s.short = time.Now()
	}
	waited := time.Since(s.short)
	s.mu.Unlock()
	if waited < s.m.cfg.LostAfter {
		return nil
	}
	s.m.cluster.ForgetLeader(s.r.tp())
	high, err := s.offset(s.ctx, kafka.Latest, false)
	if err != nil || high >= end {
		return nil // it is back, or will be asked again
	}
	s.m.log.Error("the changelog ends before its end at the take-over: records that Kafka had acknowledged are gone; restoring what is left",
		s.fields("offset", high, "end", end)...)
	s.mu.Lock()
	s.end = high
	s.mu.Unlock()
	return s.arrive()
}
