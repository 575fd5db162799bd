package feed

import (
	"context"
	"errors"
	"fmt"

	"github.com/pillion/pillion/internal/fetch"
	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/protocol/frame"
)

// pump is the sink of one request.
type pump struct {
	feeder *Feeder
	r      Request

	// Guarded by feeder.mu.
	remove  func()
	started bool
	stopped bool
}

// claim makes Run wait for the pump; it needs feeder.mu.
func (p *pump) claim() {
	p.started = true
	p.feeder.work.Add(1)
}

// add gives the partition to the fetcher, which may stop it at once: no lock may be held.
func (p *pump) add() {
	remove := p.feeder.cfg.Fetcher.Add(fetch.Partition{
		Topic: p.r.Topic, TopicID: p.r.TopicID, Partition: p.r.Partition,
		Offset: p.r.Position, LastEpoch: -1, Until: -1,
		Kind: frame.Records, Stream: p.r.Stream, Epoch: p.r.Epoch, MaxFrame: p.r.MaxFrame,
		Timestamps: true, Headers: true, Sink: p,
	})
	p.feeder.mu.Lock()
	p.remove = remove
	late := p.stopped || p.feeder.ctx.Err() != nil
	p.feeder.mu.Unlock()
	if late {
		remove()
	}
}

// stop is what Start returns.
func (p *pump) stop() {
	p.feeder.mu.Lock()
	p.stopped = true
	remove := p.remove
	if !p.started {
		delete(p.feeder.pumps, p)
	}
	p.feeder.mu.Unlock()
	remove()
}

// Frame sends a frame to the worker when gate and credit allow it.
func (p *pump) Frame(ctx context.Context, f []byte, _ fetch.Position) error {
	return p.r.Gate.Send(ctx, p.r.Stream, f)
}

// Progress is of no interest: a position that moves comes with a frame.
func (p *pump) Progress(fetch.Position) {}

// Stopped draws the conclusion from the end.
func (p *pump) Stopped(err error) {
	f := p.feeder
	defer f.work.Done()
	f.mu.Lock()
	silent := p.stopped || f.ctx.Err() != nil
	delete(f.pumps, p)
	f.mu.Unlock()
	if !silent && !ended(err) {
		p.conclude(err)
	}
}

// ended says that the request was to end: nothing is wrong with the partition.
func ended(err error) bool {
	return err == nil || errors.Is(err, gate.ErrClosed) || errors.Is(err, fetch.ErrStopped) || errors.Is(err, context.Canceled)
}

// conclude tells the handler the end.
func (p *pump) conclude(err error) {
	var (
		out       *fetch.OutOfRangeError
		truncated *fetch.TruncatedError
		recreated *fetch.RecreatedError
	)
	where := fmt.Sprintf("task %s, source %s/%d, position %d", p.r.Task, p.r.Topic, p.r.Partition, p.r.Position)
	lost := errors.As(err, &out) || errors.As(err, &truncated) || errors.As(err, &recreated)
	what := "a source cannot be read"
	if lost {
		what = "the position of a source is gone"
	}
	p.feeder.log.Error(what, "task", p.r.Task, "topic", p.r.Topic, "partition", p.r.Partition, "error", err)
	if lost {
		p.feeder.cfg.Handler.LostPosition(p.r, fmt.Sprintf("%s: %v", where, err))
		return
	}
	p.feeder.cfg.Handler.Failed(p.r, fmt.Errorf("reading %s: %w", where, err))
}
