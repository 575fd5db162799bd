package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pillion/pillion/bridge"
)

// drains answers those who ask for a drain over the worker's listener: each waits for the end of the
// session, whoever began the drain.
type drains struct {
	begin func()     // may be called again
	tasks func() int // that this sidecar has now
	ended chan struct{}

	// Written once, before ended is closed.
	failure error
	gaveUp  bool

	mu    sync.Mutex
	begun bool
	had   int // tasks when it was first asked for
}

// wait begins the drain and says how it went. It returns with ctx at the latest.
func (d *drains) wait(ctx context.Context) (bridge.Drained, error) {
	began := time.Now()
	d.mu.Lock()
	if !d.begun {
		d.begun, d.had = true, d.tasks()
	}
	done := bridge.Drained{Tasks: d.had}
	d.mu.Unlock()
	d.begin()
	select {
	case <-d.ended:
	case <-ctx.Done():
	}
	done.Took = time.Since(began)
	select {
	case <-d.ended: // ctx ends with it
	default:
		return done, errors.New("this sidecar was ended before it had drained; the group takes its tasks when the session has timed out")
	}
	switch {
	case errors.Is(d.failure, context.Canceled):
		return done, errors.New("a signal ended this sidecar before it had drained; the group takes its tasks when the session has timed out")
	case d.failure != nil:
		return done, d.failure
	case d.gaveUp:
		return done, fmt.Errorf("%w: what the worker had not committed within drain_timeout is given up, and comes again where the tasks go", bridge.ErrDrainTimeout)
	}
	return done, nil
}

// over says that the session has ended, and how.
func (d *drains) over(failure error, gaveUp bool) {
	d.failure, d.gaveUp = failure, gaveUp
	close(d.ended)
}
