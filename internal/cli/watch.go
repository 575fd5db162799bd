package cli

import (
	"context"
	"time"

	"github.com/pillion/pillion/session"
)

// topicsEvery is how often the topics of a declaration are looked at again.
const topicsEvery = 30 * time.Second

// watch has the declaration checked anew when its topics are not those that were checked: partitions that
// were added would never be read.
func (p *groupPort) watch(ctx context.Context) error {
	ticker := time.NewTicker(topicsEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			p.lookAgain(ctx)
		}
	}
}

func (p *groupPort) lookAgain(ctx context.Context) {
	p.mu.Lock()
	declared := p.declared
	p.mu.Unlock()
	if declared == nil {
		return
	}
	why, err := declared.Changed(ctx, p.client)
	if err != nil {
		p.log.Debug("the declared topics are not looked at", "error", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if why != "" && p.declared == declared { // not checked since
		p.declared = nil
		p.post(session.TopicsChanged{Message: why})
	}
}
