package groupclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pillion/pillion/internal/kafka"
)

// Confirm answers whether a task is still ours, before something of it is written that Kafka does not fence:
// at once when the coordinator has answered lately, otherwise after asking it. It fails with ErrLost, or when
// ctx ends.
//
// INVARIANT: a member that was stopped, and is a member no more without knowing it, begins no write.
func (g *Group) Confirm(ctx context.Context, t Task) error {
	g.mu.Lock()
	mine := g.owned[t]
	g.mu.Unlock()
	for attempt := 0; ; attempt++ {
		g.mu.Lock()
		now, id, fresh := g.owned[t], g.identity, g.confirmed.fresh(g.cfg.SessionTimeout/2)
		g.mu.Unlock()
		switch {
		case now == nil || now != mine || !now.taken:
			return fmt.Errorf("task %s is not ours any more: %w", t, ErrLost)
		case fresh:
			return nil
		}
		asked := time.Now()
		err := g.checkGeneration(ctx, id)
		switch {
		case err == nil:
			g.confirm(asked)
		case !errors.Is(err, ErrRebalancing):
			return fmt.Errorf("confirming task %s: %w", t, err)
		case !kafka.Pause(ctx, attempt):
			return fmt.Errorf("confirming task %s: %w", t, ctx.Err())
		}
	}
}

// moment is a point in time on both clocks: the monotonic one may stand still while a machine sleeps, the
// other one may be set.
type moment struct{ at time.Time }

func (m moment) fresh(within time.Duration) bool {
	now := time.Now()
	wall := now.Round(0).Sub(m.at.Round(0))
	return !m.at.IsZero() && now.Sub(m.at) < within && wall >= 0 && wall < within
}

// stay notes that a heartbeat of this time was answered 0. A coordinator that is loading answers so without
// looking, but it also takes nobody's membership away: only where the answers before were lately too does it
// tell anything. False: it does not.
func (g *Group) stay(asked time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.confirmed.fresh(g.cfg.SessionTimeout / 2) {
		return false
	}
	if asked.After(g.confirmed.at) {
		g.confirmed.at = asked
	}
	return true
}

// confirm notes that a request of this time was answered to a member of the present generation.
func (g *Group) confirm(asked time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if asked.After(g.confirmed.at) {
		g.confirmed.at = asked
	}
}
