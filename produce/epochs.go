package produce

import (
	"context"
	"sync"
	"time"
)

// epochAge is how long a lane's leader epoch is believed without asking: an epoch may grow without
// any error being seen, and a checkpoint with too low an epoch looks like a truncation later.
const epochAge = 5 * time.Second

// knownEpoch is the leader epoch of a lane's partition as last confirmed by its leader.
type knownEpoch struct {
	epoch int32
	at    time.Time // zero: not known
}

func (l *lane) forgetEpoch() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch.at = time.Time{}
}

func (l *lane) freshEpoch() (int32, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch.epoch, !l.epoch.at.IsZero() && time.Since(l.epoch.at) < epochAge
}

// fillEpochs sets the leader epoch of the last batch of each changelog. Where it cannot be told it
// stays -1.
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

// leaderEpoch is the epoch of what was written just before next.
func (p *Producer) leaderEpoch(ctx context.Context, l *lane, next int64) int32 {
	if epoch, ok := l.freshEpoch(); ok {
		return epoch
	}
	for range 3 {
		_, epoch, err := p.cluster.Leader(ctx, l.tp)
		if err != nil || epoch < 0 {
			return -1
		}
		ended, end, err := p.cluster.EpochEnd(ctx, l.tp, epoch)
		if err == nil && ended >= 0 && end >= next {
			l.mu.Lock()
			l.epoch = knownEpoch{ended, time.Now()}
			l.mu.Unlock()
			return ended
		}
		p.cluster.ForgetLeader(l.tp) // a later epoch has begun
	}
	return -1
}
