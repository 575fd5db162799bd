package cli

import (
	"context"
	"os"
	"syscall"
	"time"
)

// echo is within what time the same signal is the first one once more. timeout(1) sends to the
// process and then to its group, and what a terminal has sent to all, make or uv hand on again.
const echo = 250 * time.Millisecond

type step int

const (
	handOn step = iota // it is the worker's
	drain
	ignore
	endAtOnce
)

// endings says what each signal means: the first SIGTERM or SIGINT drains, a second one ends at once.
type endings struct {
	first os.Signal
	at    time.Time
}

func (e *endings) take(s os.Signal, now time.Time) step {
	switch {
	case s != syscall.SIGTERM && s != syscall.SIGINT:
		return handOn
	case e.first == nil:
		e.first, e.at = s, now
		return drain
	case s == e.first && now.Sub(e.at) < echo:
		return ignore
	default:
		return endAtOnce
	}
}

// relay acts on signals until ctx ends.
func relay(ctx context.Context, signals <-chan os.Signal, pairs []*pair, stop func()) {
	var ends endings
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-signals:
			what := ends.take(s, time.Now())
			for _, p := range pairs {
				switch what {
				case handOn:
					p.signal(s.(syscall.Signal))
				case drain:
					p.drain(s.(syscall.Signal))
				case endAtOnce:
					p.sidecar.log.Warn("a second signal, ending at once", "signal", s.String())
					p.kill()
				}
			}
			if what == endAtOnce {
				stop()
				return
			}
		}
	}
}
