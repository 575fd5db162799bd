package produce

import (
	"context"
	"sync"

	"github.com/pillion/pillion/internal/kafka"
)

// fillEpochs sets the leader epoch of the last batch of each changelog. It must be exact, for a
// checkpoint with too low an epoch looks like a truncation later, and a broker that restarts raises
// it without any error being seen here. So its leader is asked, each time. Where it cannot be told
// it stays -1.
func (p *Producer) fillEpochs(ctx context.Context, c *commit, r Result) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.RequestTimeout)
	defer cancel()
	last := map[string]*batch{}
	for _, b := range c.batches {
		if b.changelog {
			last[b.tp.Topic] = b
		}
	}
	var (
		mu    sync.Mutex
		group sync.WaitGroup
	)
	for topic, b := range last {
		group.Go(func() {
			epoch := p.leaderEpoch(ctx, b.lane, b.base+int64(b.count))
			mu.Lock()
			defer mu.Unlock()
			at := r.Changelogs[topic]
			at.LeaderEpoch = epoch
			r.Changelogs[topic] = at
		})
	}
	group.Wait()
}

// leaderEpoch is the epoch of what was written just before next: the lowest, from that of the commit
// before on, that does not end before next.
func (p *Producer) leaderEpoch(ctx context.Context, l *lane, next int64) int32 {
	known := l.epoch.Load()
	for attempt := 0; ; attempt++ {
		_, current, err := p.cluster.Leader(ctx, l.tp)
		if err != nil || current < 0 {
			return -1
		}
		first := known
		if first < 0 || first > current {
			first = current
		}
		for asked := first; asked <= current; asked++ {
			epoch, end, err := p.cluster.EpochEnd(ctx, l.tp, asked)
			if err != nil { // for good: what passes was repeated
				return -1
			}
			if epoch >= 0 && end >= next {
				l.epoch.Store(epoch)
				return epoch
			}
		}
		p.cluster.ForgetLeader(l.tp) // a later epoch has begun
		if !kafka.Pause(ctx, attempt) {
			return -1
		}
	}
}
