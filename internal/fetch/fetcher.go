package fetch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/pillion/pillion/protocol/frame"
)

// Fetcher reads partitions. See the package comment.
type Fetcher struct {
	cfg    Config
	client cluster
	log    hclog.Logger
	room   *room
	small  *decoders
	large  *decoders
	frames *freeList
	parts  atomic.Int64 // how many are read
	goes   sync.WaitGroup

	mu      sync.Mutex
	ctx     context.Context // of Run, nil before
	ended   bool
	waiting []*pump // added before Run
	nodes   map[int32]*node
}

// New makes a fetcher. It reads while Run does.
func New(cfg Config) (*Fetcher, error) {
	if cfg.Client == nil {
		return nil, errors.New("fetch: no kafka client")
	}
	return newFetcher(cfg, cfg.Client)
}

func newFetcher(cfg Config, client cluster) (*Fetcher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	f := &Fetcher{
		cfg: cfg, client: client, log: cfg.Logger,
		room:   newRoom(cfg.BufferBytes/2, newFreeList(keptBuffers*cfg.PartitionBytes)),
		small:  newDecoders(decoderCount(), min(scratchBytes, cfg.BatchBytes)),
		large:  newDecoders(1, cfg.BatchBytes),
		frames: newFreeList(keptFrames * cfg.FrameBytes),
		nodes:  map[int32]*node{},
	}
	f.room.freed = f.wake
	return f, nil
}

// Run reads what was and will be added, until ctx ends. When it returns, each sink has been stopped
// and no goroutine is left. It may run once.
func (f *Fetcher) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.mu.Lock()
	if f.ctx != nil {
		f.mu.Unlock()
		return errors.New("fetch: it has run already")
	}
	f.ctx = ctx
	for _, p := range f.waiting {
		f.start(p)
	}
	f.waiting = nil
	f.mu.Unlock()

	<-ctx.Done()
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.goes.Wait()
	f.small.close()
	f.large.close()
	return nil
}

// Add reads a partition. The returned function removes it; it waits for nothing, Stopped follows.
// When Run has ended already, Stopped is called before Add returns.
func (f *Fetcher) Add(p Partition) (remove func()) {
	pump := newPump(f, p)
	if !f.admit(pump) {
		p.Sink.Stopped(ErrStopped)
	}
	return func() { pump.cancel(errRemoved) }
}

func (f *Fetcher) admit(p *pump) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.ended:
		return false
	case f.ctx == nil:
		f.waiting = append(f.waiting, p)
	default:
		f.start(p)
	}
	return true
}

// start begins a pump on behalf of Run, which waits for it; under mu.
func (f *Fetcher) start(p *pump) {
	ctx := f.ctx
	f.parts.Add(1)
	f.goes.Add(1)
	go func() {
		defer f.goes.Done()
		p.main(ctx)
	}()
}

// share is how many bytes a partition may hold without asking.
func (f *Fetcher) share() int64 {
	n := max(f.parts.Load(), 1)
	return max(min(int64(f.cfg.PartitionBytes), f.cfg.BufferBytes/2/n), 512)
}

// frameBytes is where frames are cut: so many that one for each partition fits the buffers once.
func (f *Fetcher) frameBytes(kind frame.Kind) int {
	most := int64(f.cfg.FrameBytes)
	if kind == frame.Restore {
		most *= restoreFrame
	}
	n := max(f.parts.Load(), 1)
	return int(max(min(most, f.cfg.BufferBytes/n), min(most, 16<<10)))
}

// wake lets all nodes look for room again.
func (f *Fetcher) wake() {
	f.mu.Lock()
	nodes := make([]*node, 0, len(f.nodes))
	for _, n := range f.nodes {
		nodes = append(nodes, n)
	}
	f.mu.Unlock()
	for _, n := range nodes {
		n.wake()
	}
}

// Recycle takes back a frame that nobody looks at any more, to be filled again. It need not be
// called; it saves clearing and collecting memory.
func (f *Fetcher) Recycle(frame []byte) { f.frames.put(frame) }
