package produce

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol/frame"
)

// Config says how to write. Zero values mean the defaults.
type Config struct {
	Client          *kafka.Client
	Compression     string        // none, gzip, snappy, lz4 (default) or zstd
	MaxBatchBytes   int           // of a batch before compression, unless one record is larger; default 512 KiB
	DeliveryTimeout time.Duration // how long a commit is repeated before it ends as unknown; default 2m
	RequestTimeout  time.Duration // of one attempt; default 10s
	Logger          hclog.Logger
}

// Validate fills in the defaults and says what is wrong.
func (c *Config) Validate() error {
	if c.Client == nil {
		return errors.New("produce: no client")
	}
	return c.settings()
}

func (c *Config) settings() error {
	if c.Compression == "" {
		c.Compression = "lz4"
	}
	if c.MaxBatchBytes == 0 {
		c.MaxBatchBytes = 512 << 10
	}
	if c.DeliveryTimeout == 0 {
		c.DeliveryTimeout = 2 * time.Minute
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = 10 * time.Second
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	switch {
	case c.MaxBatchBytes < 1<<10 || c.MaxBatchBytes > 64<<20:
		return fmt.Errorf("produce: batches of %d bytes: must be 1 KiB to 64 MiB", c.MaxBatchBytes)
	case c.DeliveryTimeout < 0 || c.RequestTimeout < 0:
		return errors.New("produce: a negative timeout")
	}
	return nil
}

// Write is what one commit writes to one topic.
type Write struct {
	Topic     string
	Partition int32 // >= 0: this one (the task's number, for a changelog); -1: by key
	Changelog bool
	Head      int64    // of a changelog: the offset that its next record must get, markers and aborted batches of ours not counted; -1: not checked
	Frames    [][]byte // writes frames, in order; must not change until Write has returned
}

// Landed says where the records of a commit are in a changelog partition.
type Landed struct {
	Base, Next  int64 // first offset, and the one after the last
	LeaderEpoch int32 // of the last batch; -1: not known
	TopicID     [16]byte
	Foreign     bool // somebody else has written between Head and Base, or Head is not there any more
}

// Result is what a whole commit has become.
type Result struct {
	Changelogs map[string]Landed // by topic; a changelog without records is left out
	Records    int64
	Bytes      int64 // as sent
}

// cluster is what the producer needs of *kafka.Client.
type cluster interface {
	Do(ctx context.Context, node int32, req kmsg.Request) (kmsg.Response, error)
	Any(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
	Topics(ctx context.Context, names ...string) (map[string]kafka.Topic, error)
	Refresh(ctx context.Context, names ...string) (map[string]kafka.Topic, error)
	Leader(ctx context.Context, tp kafka.TopicPartition) (node, leaderEpoch int32, err error)
	ForgetLeader(tp kafka.TopicPartition)
	ListOffsets(ctx context.Context, at int64, committed bool, tps ...kafka.TopicPartition) (map[kafka.TopicPartition]kafka.Offset, error)
	EpochEnd(ctx context.Context, tp kafka.TopicPartition, leaderEpoch int32) (endEpoch int32, endOffset int64, err error)
	TopicConfigs(ctx context.Context, topic string, keys ...string) (map[string]string, error)
}

// Producer writes commits. All methods may be called from several goroutines.
type Producer struct {
	cfg     Config
	cluster cluster
	log     hclog.Logger
	codec   *codec
	packers sync.Pool
	limits  limits
	ids     identities
	own     owned
	tails   tails
	spread  atomic.Uint32 // the next partition for records without a key

	started chan struct{}
	work    sync.WaitGroup // lanes at work

	mu      sync.Mutex
	ctx     context.Context // Run's; nil before
	closed  bool
	lanes   map[kafka.TopicPartition]*lane
	senders map[int32]*sender
}

// New makes a producer. It does no I/O; Run must be called for anything to be sent.
func New(cfg Config) (*Producer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return newProducer(cfg, cfg.Client)
}

func newProducer(cfg Config, c cluster) (*Producer, error) {
	if err := cfg.settings(); err != nil {
		return nil, err
	}
	codec, err := newCodec(cfg.Compression)
	if err != nil {
		return nil, fmt.Errorf("produce: %w", err)
	}
	p := &Producer{
		cfg: cfg, cluster: c, log: cfg.Logger, codec: codec,
		packers: sync.Pool{New: func() any { return new(packer) }},
		started: make(chan struct{}),
		lanes:   map[kafka.TopicPartition]*lane{},
		senders: map[int32]*sender{},
	}
	p.ids.token = make(chan struct{}, 1)
	p.spread.Store(rand.Uint32())
	return p, nil
}

// Run sends what Write is given until ctx ends, then waits for the attempts under way. Commits that
// have not ended by then end as stopped.
func (p *Producer) Run(ctx context.Context) error {
	p.mu.Lock()
	if p.ctx != nil {
		p.mu.Unlock()
		return errors.New("produce: run twice")
	}
	p.ctx = ctx
	p.mu.Unlock()
	close(p.started)
	<-ctx.Done()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.work.Wait()
	return nil
}

// Check says whether Kafka would take the commit, without sending any of it: a *RejectedError, or
// what stands in the way of finding out.
func (p *Producer) Check(ctx context.Context, writes []Write) error {
	return p.scan(ctx, writes, func(*target, int32, frame.Record, int) error { return nil })
}

// Write sends a commit and returns when it is whole in Kafka. It returns a *RejectedError only when
// nothing of it is or will be in Kafka, otherwise an *UnknownError. Commits that write to the same
// partition land there in the order in which Write queued them; a caller to whom that order matters
// calls Write for one after the other.
func (p *Producer) Write(ctx context.Context, writes []Write) (Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.cfg.DeliveryTimeout, errDeadline)
	defer cancel()
	c, err := p.plan(ctx, writes)
	if err != nil {
		return Result{}, err
	}
	if len(c.batches) == 0 {
		return c.result(), nil
	}
	select {
	case <-p.started:
	case <-ctx.Done():
		return Result{}, rejectedBy(context.Cause(ctx))
	}
	if !p.enqueue(c) {
		return Result{}, rejectedBy(ErrStopped)
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		c.abandon(context.Cause(ctx))
	}
	if err := c.verdict(); err != nil {
		return Result{}, err
	}
	r := c.result()
	foreign := make(chan map[string]bool, 1)
	go func() { foreign <- p.checkTails(ctx, c) }()
	p.fillEpochs(ctx, c, r)
	for topic := range <-foreign {
		at := r.Changelogs[topic]
		at.Foreign = true
		r.Changelogs[topic] = at
	}
	return r, nil
}

// enqueue gives the batches to their lanes, all in one step, so that two commits are in the same
// order on every lane. It refuses when Run has ended.
func (p *Producer) enqueue(c *commit) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.ctx.Err() != nil {
		return false
	}
	for _, b := range c.batches {
		l := p.lanes[b.tp]
		if l == nil {
			l = newLane(p, b.tp)
			p.lanes[b.tp] = l
		}
		b.lane = l
		if l.push(b) {
			ctx := p.ctx
			p.work.Go(func() { l.run(ctx) })
		}
	}
	return true
}

// sender is the one for a broker.
func (p *Producer) sender(node int32) *sender {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.senders[node]
	if s == nil {
		s = &sender{node: node, cluster: p.cluster, timeout: p.cfg.RequestTimeout}
		p.senders[node] = s
	}
	return s
}
