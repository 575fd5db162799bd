package feed

import (
	"context"
	"errors"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/pillion/pillion/internal/fetch"
	"github.com/pillion/pillion/internal/gate"
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
	// LostPosition says that the log does not hold the position any more. The request has ended.
	LostPosition(r Request, message string)
	// Failed says that repeating does not help. The request has ended.
	Failed(r Request, err error)
}

// Fetcher is what is needed of *fetch.Fetcher.
type Fetcher interface {
	Add(p fetch.Partition) (remove func())
}

// Config says what to feed with.
type Config struct {
	Fetcher Fetcher
	Handler Handler
	Logger  hclog.Logger
}

// Validate fills in the defaults and says what is wrong.
func (c *Config) Validate() error {
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
	cfg Config
	log hclog.Logger

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
	return &Feeder{cfg: cfg, log: cfg.Logger, pumps: map[*pump]struct{}{}}, nil
}

// Run feeds until ctx ends, then stops all requests and waits for them.
func (f *Feeder) Run(ctx context.Context) error {
	f.mu.Lock()
	if f.ctx != nil {
		f.mu.Unlock()
		return errors.New("feed: run twice")
	}
	f.ctx = ctx
	var waiting []*pump
	for p := range f.pumps {
		p.claim()
		waiting = append(waiting, p)
	}
	f.mu.Unlock()
	for _, p := range waiting {
		p.add()
	}
	<-ctx.Done()
	f.removeAll()
	f.work.Wait()
	return nil
}

func (f *Feeder) removeAll() {
	f.mu.Lock()
	var removes []func()
	for p := range f.pumps {
		removes = append(removes, p.remove)
	}
	f.mu.Unlock()
	for _, remove := range removes {
		remove()
	}
}

// Start begins a request. stop ends it; it does not wait, and one call of the handler may be under
// way when it returns.
func (f *Feeder) Start(r Request) (stop func()) {
	p := &pump{feeder: f, r: r, remove: func() {}}
	f.mu.Lock()
	running := f.ctx != nil
	if running && f.ctx.Err() != nil {
		f.mu.Unlock()
		return func() {}
	}
	f.pumps[p] = struct{}{}
	if running {
		p.claim()
	}
	f.mu.Unlock()
	if running {
		p.add()
	}
	return p.stop
}
