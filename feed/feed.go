package feed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/pillion/pillion/internal/fetch"
	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// Request is one source partition of an open task.
type Request struct {
	Task      string
	Epoch     uint32
	Topic     string
	Partition int32
	TopicID   [16]byte // that the position belongs to; zero: not known
	Stream    uint32
	Position  int64 // the first offset wanted
	MaxFrame  int64 // the worker's largest frame
	Gate      *gate.Gate
}

// Handler hears of requests. Its methods must not block.
type Handler interface {
	// Sent says that the records before next are in the gate's queue.
	Sent(r Request, next int64)
	// LostPosition says that the log does not hold the position any more. logStart and end are what
	// it holds now, -1 when that cannot be told. The request has ended.
	LostPosition(r Request, code, message string, logStart, end int64)
	// Failed says that repeating does not help. The request has ended.
	Failed(r Request, err error)
}

// Fetcher is what is needed of *fetch.Fetcher.
type Fetcher interface {
	Add(p fetch.Partition) (remove func())
}

// cluster is what is needed of *kafka.Client.
type cluster interface {
	ListOffsets(ctx context.Context, at int64, committed bool, tps ...kafka.TopicPartition) (map[kafka.TopicPartition]kafka.Offset, error)
}

// Config says what to feed with.
type Config struct {
	Client  *kafka.Client
	Fetcher Fetcher
	Handler Handler
	Logger  hclog.Logger
}

// Validate fills in the defaults and says what is wrong.
func (c *Config) Validate() error {
	if c.Client == nil {
		return errors.New("feed: no client")
	}
	return c.settings()
}

func (c *Config) settings() error {
	if c.Fetcher == nil || c.Handler == nil {
		return errors.New("feed: a fetcher and a handler are needed")
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return nil
}

// Feeder feeds source partitions. Its methods may be called from several goroutines.
type Feeder struct {
	cfg     Config
	cluster cluster
	log     hclog.Logger

	work sync.WaitGroup // pumps that have not stopped

	mu    sync.Mutex
	ctx   context.Context // Run's; nil before
	pumps map[*pump]struct{}
}

// New makes a feeder.
func New(cfg Config) (*Feeder, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return newFeeder(cfg, cfg.Client)
}

func newFeeder(cfg Config, c cluster) (*Feeder, error) {
	if err := cfg.settings(); err != nil {
		return nil, err
	}
	return &Feeder{cfg: cfg, cluster: c, log: cfg.Logger, pumps: map[*pump]struct{}{}}, nil
}

// Run feeds until ctx ends, then stops all requests and waits for them.
func (f *Feeder) Run(ctx context.Context) error {
	f.mu.Lock()
	if f.ctx != nil {
		f.mu.Unlock()
		return errors.New("feed: run twice")
	}
	f.ctx = ctx
	for p := range f.pumps {
		p.start()
	}
	f.mu.Unlock()
	<-ctx.Done()
	f.mu.Lock()
	for p := range f.pumps {
		p.remove()
	}
	f.mu.Unlock()
	f.work.Wait()
	return nil
}

// Start begins a request. stop ends it; it does not wait, and one call of the handler may be under
// way when it returns.
func (f *Feeder) Start(r Request) (stop func()) {
	p := &pump{feeder: f, r: r, remove: func() {}}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx != nil && f.ctx.Err() != nil {
		return func() {}
	}
	f.pumps[p] = struct{}{}
	if f.ctx != nil {
		p.start()
	}
	return p.stop
}

// pump is the sink of one request.
type pump struct {
	feeder *Feeder
	r      Request

	// Guarded by feeder.mu.
	remove  func()
	started bool
	stopped bool
}

// start needs feeder.mu. The fetcher calls the sink from its own goroutine only.
func (p *pump) start() {
	p.started = true
	p.feeder.work.Add(1)
	p.remove = p.feeder.cfg.Fetcher.Add(fetch.Partition{
		Topic: p.r.Topic, TopicID: p.r.TopicID, Partition: p.r.Partition,
		Offset: p.r.Position, LastEpoch: -1, Until: -1,
		Kind: frame.Records, Stream: p.r.Stream, Epoch: p.r.Epoch, MaxFrame: p.r.MaxFrame,
		Timestamps: true, Headers: true, Sink: p,
	})
}

// stop is what Start returns.
func (p *pump) stop() {
	p.feeder.mu.Lock()
	defer p.feeder.mu.Unlock()
	p.stopped = true
	p.remove()
	if !p.started {
		delete(p.feeder.pumps, p)
	}
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
