package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pillion/pillion/internal/fetch"
	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol"
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
func (p *pump) Frame(ctx context.Context, f []byte, at fetch.Position) error {
	if err := p.r.Gate.Send(ctx, p.r.Stream, f); err != nil {
		return err
	}
	p.feeder.cfg.Handler.Sent(p.r, at.Next)
	return nil
}

// Progress is of no interest: a position that moves comes with a frame.
func (p *pump) Progress(fetch.Position) {}

// Stopped draws the conclusion from the end.
func (p *pump) Stopped(err error) {
	f := p.feeder
	f.mu.Lock()
	silent := p.stopped || f.ctx.Err() != nil
	ctx := f.ctx
	delete(f.pumps, p)
	f.mu.Unlock()
	if silent || ended(err) {
		f.work.Done()
		return
	}
	// Where the log is now may have to be asked, which the fetcher's goroutine must not wait for.
	go func() {
		defer f.work.Done()
		p.conclude(ctx, err)
	}()
}

// ended says that the request was to end: nothing is wrong with the partition.
func ended(err error) bool {
	return err == nil || errors.Is(err, gate.ErrClosed) || errors.Is(err, fetch.ErrStopped) || errors.Is(err, context.Canceled)
}

func (p *pump) conclude(ctx context.Context, err error) {
	var (
		out       *fetch.OutOfRangeError
		truncated *fetch.TruncatedError
		recreated *fetch.RecreatedError
	)
	where := fmt.Sprintf("task %s, source %s/%d, position %d", p.r.Task, p.r.Topic, p.r.Partition, p.r.Position)
	switch {
	case errors.As(err, &out):
		p.lost(protocol.CodeLostPosition, fmt.Sprintf("%s: %v", where, err), out.LogStart, out.End)
	case errors.As(err, &truncated):
		start, end := p.bounds(ctx)
		p.lost(protocol.CodeTruncated, fmt.Sprintf("%s: %v", where, err), start, end)
	case errors.As(err, &recreated):
		start, end := p.bounds(ctx)
		p.lost(protocol.CodeRecreated, fmt.Sprintf("%s: %v", where, err), start, end)
	default:
		p.feeder.log.Error("a source cannot be read", "task", p.r.Task, "topic", p.r.Topic, "partition", p.r.Partition, "error", err)
		p.feeder.cfg.Handler.Failed(p.r, fmt.Errorf("reading %s: %w", where, err))
	}
}

func (p *pump) lost(code, message string, start, end int64) {
	p.feeder.log.Error("the position of a source is gone", "task", p.r.Task, "topic", p.r.Topic, "partition", p.r.Partition, "error", message)
	p.feeder.cfg.Handler.LostPosition(p.r, code, message, start, end)
}

// bounds is what the log holds now.
func (p *pump) bounds(ctx context.Context) (start, end int64) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tp := kafka.TopicPartition{Topic: p.r.Topic, Partition: p.r.Partition}
	at := func(place int64) int64 {
		found, err := p.feeder.cluster.ListOffsets(ctx, place, false, tp)
		if err != nil || found[tp].Err != nil {
			return -1
		}
		return found[tp].Offset
	}
	return at(kafka.Earliest), at(kafka.Latest)
}
