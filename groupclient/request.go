package groupclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
)

const (
	// shortLimit is how long a heartbeat or a look-up may take before it counts as unanswered.
	shortLimit = 1200 * time.Millisecond
	// probeEvery is how often the coordinator is looked up while a JoinGroup or SyncGroup waits.
	probeEvery = time.Second
	// longMargin is added to the rebalance timeout for the limit of JoinGroup and SyncGroup.
	longMargin = 5 * time.Second
	// tellAfter is how long requests fail before the worker is told.
	tellAfter = time.Second
	// patience is how long a JoinGroup waits for other members before the worker is told.
	patience = 2 * time.Second
)

var (
	errMoved       = errors.New("the group's coordinator has moved")
	errInterrupted = errors.New("interrupted by leave")
)

// reach tells the worker that Kafka does not answer, and that it does again.
type reach struct {
	since  time.Time // of the first request that failed
	told   string    // code reported last; empty: none
	why    string    // the refusal reported last; empty: it was none
	logged time.Time
}

// tellEvery is how often the log hears of a waiting that goes on: who looks at a log sees its end first.
const tellEvery = time.Minute

func (g *Group) tell(code, message string) {
	if g.reach.told == code {
		if time.Since(g.reach.logged) >= tellEvery {
			g.reach.logged = time.Now()
			g.log.Warn("still waiting", "error", message)
		}
		return
	}
	g.reach.told, g.reach.logged = code, time.Now()
	g.log.Warn("waiting", "error", message)
	g.handler.Waiting(code, message)
}

// answered: the coordinator has answered, whatever it said.
func (g *Group) answered() {
	g.reach.since = time.Time{}
	if g.reach.told == codeUnreachable {
		g.over()
	}
}

// over ends whatever was waited for.
func (g *Group) over() {
	if g.reach.told == "" {
		return
	}
	g.reach.told, g.reach.why, g.toldWait = "", "", false // what take-overs wait for is told again
	g.log.Info("no longer waiting")
	g.handler.Waiting(codeOK, "")
}

// failed: a request that began at start was not answered.
func (g *Group) failed(start time.Time, err error) {
	if g.reach.since.IsZero() {
		g.reach.since = start
	}
	g.log.Debug("request failed", "error", err)
	if time.Since(g.reach.since) < tellAfter {
		return
	}
	message := g.unreachable(err)
	var refused *kafka.SecurityError
	if errors.As(err, &refused) && g.reach.why != message {
		g.reach.told, g.reach.why = "", message // not what was told before: somebody has to do something
	}
	g.tell(codeUnreachable, message)
}

func (g *Group) unreachable(err error) string {
	var refused *kafka.SecurityError
	if errors.As(err, &refused) {
		return refused.Error() // it does answer, and says what to do
	}
	if errors.Is(err, kafka.ErrUnreachable) {
		return err.Error()
	}
	return fmt.Sprintf("the coordinator of group %q does not answer (%s); waiting for it, check the brokers", g.cfg.Group, err)
}

// short sends a request that the coordinator answers at once.
func (g *Group) short(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, shortLimit)
	defer cancel()
	node, err := g.client.Coordinator(ctx, coordinatorOf, g.cfg.Group)
	if err == nil {
		var resp kmsg.Response
		if resp, err = g.client.Do(ctx, node, req); err == nil {
			g.answered()
			return resp, nil
		}
	}
	g.client.ForgetCoordinator(coordinatorOf, g.cfg.Group)
	g.failed(start, err)
	return nil, err
}

// long sends a request that the coordinator may keep for the rebalance timeout. Meanwhile it looks
// the coordinator up, so that one which died or moved is not waited for.
func (g *Group) long(ctx context.Context, req kmsg.Request, waiting string) (kmsg.Response, error) {
	start := time.Now()
	find, cancelFind := context.WithTimeout(ctx, shortLimit)
	node, err := g.client.Coordinator(find, coordinatorOf, g.cfg.Group)
	cancelFind()
	if err == nil {
		var resp kmsg.Response
		if resp, err = g.await(ctx, node, req, waiting); err == nil {
			g.answered()
			return resp, nil
		}
	}
	if errors.Is(err, errInterrupted) {
		return nil, err
	}
	g.client.ForgetCoordinator(coordinatorOf, g.cfg.Group)
	if !errors.Is(err, errMoved) {
		g.failed(start, err)
	}
	return nil, err
}

type answer struct {
	resp kmsg.Response
	err  error
}

// await sends the request and watches until it is answered. Its goroutine ends before it returns.
func (g *Group) await(ctx context.Context, node int32, req kmsg.Request, waiting string) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.RebalanceTimeout+longMargin)
	answers := make(chan answer, 1)
	go func() {
		resp, err := g.client.Do(ctx, node, req)
		answers <- answer{resp, err}
	}()
	give := func(err error) (kmsg.Response, error) {
		cancel()
		<-answers
		return nil, err
	}
	start := time.Now()
	probe := time.NewTicker(probeEvery)
	defer probe.Stop()
	for {
		select {
		case a := <-answers:
			cancel()
			return a.resp, a.err
		case <-g.poke:
			if g.interrupted() {
				return give(errInterrupted)
			}
		case <-probe.C:
			if g.moved(ctx, node) {
				return give(errMoved)
			}
			if time.Since(start) >= patience && g.reach.since.IsZero() {
				g.tell(codeRebalance, waiting)
			}
		}
	}
}

// moved looks the coordinator up anew.
func (g *Group) moved(ctx context.Context, node int32) bool {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, shortLimit)
	defer cancel()
	g.client.ForgetCoordinator(coordinatorOf, g.cfg.Group)
	now, err := g.client.Coordinator(ctx, coordinatorOf, g.cfg.Group)
	if err != nil {
		g.failed(start, err)
		return false
	}
	g.answered()
	return now != node
}

// again pauses before a request is repeated: longer each time, and never past the heartbeat interval.
func (g *Group) again(ctx context.Context) {
	pause := min(kafka.Backoff(g.failures), g.cfg.HeartbeatInterval)
	g.failures++
	g.pause(ctx, pause)
}
