package restore

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
)

// Kind says who writes the topic behind a table.
type Kind string

// The kinds of tables.
const (
	Changelog Kind = "changelog" // our own: the task's active only
	Source    Kind = "source"    // others, upstream
	Global    Kind = "global"    // others, upstream; every worker reads every partition
)

// Request is one partition of one table.
type Request struct {
	Task       string
	Epoch      uint32
	Table      string
	Stream     uint32
	Topic      string
	Partition  int32
	Kind       Kind
	Checkpoint string // of the worker's store; empty: the store is empty
	End        int64  // of a changelog: captured by the take-over; negative: the high watermark at the start
	Follow     bool   // go on after the end, until FinishAt; source and global tables always do
	MaxFrame   int64  // the worker's largest frame
	Gate       *gate.Gate
}

// Progress tells how far a replay has come.
type Progress struct {
	Records   int64         // sent
	Bytes     int64         // of frames sent
	Rate      int64         // records per second, lately
	Remaining int64         // offsets to the end: an upper bound of records
	ETA       time.Duration // negative: not known
	Waits     string        // what it has waited for some time, in words; usually for nothing: ""
}

// Handler hears of requests. Its methods must not block.
type Handler interface {
	// Reached says that the frames up to the end are in the gate's queue. at is the checkpoint there. It
	// comes again, with that end in the request, after FinishAt.
	Reached(r Request, at string, records int64)
	// Reset says that the store cannot go on from its checkpoint: wipe it, then Start with an empty
	// one; the replay will begin at start. The request has ended.
	Reset(r Request, code, message string, start int64)
	// Progress comes about once a second until Reached.
	Progress(r Request, p Progress)
	// Failed says that repeating does not help. The request has ended.
	Failed(r Request, err error)
}

// Fetcher is what is needed of *fetch.Fetcher.
type Fetcher interface {
	Add(p fetch.Partition) (remove func())
}

// cluster is what is needed of *kafka.Client.
type cluster interface {
	Refresh(ctx context.Context, names ...string) (map[string]kafka.Topic, error)
	ForgetLeader(tp kafka.TopicPartition)
	ListOffsets(ctx context.Context, at int64, committed bool, tps ...kafka.TopicPartition) (map[kafka.TopicPartition]kafka.Offset, error)
	EpochEnd(ctx context.Context, tp kafka.TopicPartition, leaderEpoch int32) (endEpoch int32, endOffset int64, err error)
	TopicConfigs(ctx context.Context, topic string, keys ...string) (map[string]string, error)
}

// Config says what to restore with. Zero durations mean the defaults.
type Config struct {
	Client        *kafka.Client
	Fetcher       Fetcher
	Handler       Handler
	ProgressEvery time.Duration // between two Progress calls; default 1s
	IdleEvery     time.Duration // at most, between two checkpoints of a followed table without records; default 3m
	LostAfter     time.Duration // how long a log that ends before the captured end is waited for; default 30s
	Logger        hclog.Logger
}

// Validate fills in the defaults and says what is wrong.
func (c *Config) Validate() error {
	if c.Client == nil {
		return errors.New("restore: no client")
	}
	return c.settings()
}

func (c *Config) settings() error {
	if c.Fetcher == nil || c.Handler == nil {
		return errors.New("restore: a fetcher and a handler are needed")
	}
	for _, d := range []struct {
		v      *time.Duration
		preset time.Duration
	}{{&c.ProgressEvery, time.Second}, {&c.IdleEvery, 3 * time.Minute}, {&c.LostAfter, 30 * time.Second}} {
		if *d.v == 0 {
			*d.v = d.preset
		}
		if *d.v < 0 {
			return errors.New("restore: a negative duration")
		}
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return nil
}

// Manager restores and follows tables. Its methods may be called from several goroutines.
type Manager struct {
	cfg     Config
	cluster cluster
	log     hclog.Logger

	work sync.WaitGroup // requests at work

	mu      sync.Mutex
	ctx     context.Context // Run's; nil before
	closed  bool            // Run waits for the last requests
	waiting []*replay       // started before Run
}

// New makes a manager. It does nothing before Run.
func New(cfg Config) (*Manager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return newManager(cfg, cfg.Client)
}

func newManager(cfg Config, c cluster) (*Manager, error) {
	if err := cfg.settings(); err != nil {
		return nil, err
	}
	return &Manager{cfg: cfg, cluster: c, log: cfg.Logger}, nil
}

// Run works on the requests until ctx ends, then waits for them.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	if m.ctx != nil {
		m.mu.Unlock()
		return errors.New("restore: run twice")
	}
	m.ctx = ctx
	for _, s := range m.waiting {
		m.work.Go(func() { s.run(ctx) })
	}
	m.waiting = nil
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.work.Wait()
	return nil
}

// Start begins a request.
func (m *Manager) Start(r Request) *Replay {
	s := newReplay(m, r)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.ctx == nil:
		m.waiting = append(m.waiting, s)
	case !m.closed:
		ctx := m.ctx
		m.work.Go(func() { s.run(ctx) })
	}
	return &Replay{s}
}

// String names a request in errors and logs.
func (r Request) String() string {
	return fmt.Sprintf("table %s of task %s (%s/%d)", r.Table, r.Task, r.Topic, r.Partition)
}

func (r Request) tp() kafka.TopicPartition {
	return kafka.TopicPartition{Topic: r.Topic, Partition: r.Partition}
}

// follows says whether the request goes on after its end.
func (r Request) follows() bool { return r.Follow || r.Kind != Changelog }
