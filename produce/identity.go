package produce

import (
	"context"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
)

// identities hands out producer ids. Lanes share one until a lane needs a newer one.
type identities struct {
	token  chan struct{} // held by whoever asks; others wait for the same answer
	latest identity      // guarded by token
}

// identity is a producer id of a generation after the given one; 0 is before all.
func (p *Producer) identity(ctx context.Context, after int) (identity, error) {
	select {
	case p.ids.token <- struct{}{}:
	case <-ctx.Done():
		return identity{}, ctx.Err()
	}
	defer func() { <-p.ids.token }()
	if p.ids.latest.generation > after {
		return p.ids.latest, nil
	}
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionTimeoutMillis = math.MaxInt32 // no transactional id: not used
	req.ProducerID, req.ProducerEpoch = -1, -1
	got, err := p.cluster.Any(ctx, req)
	if err != nil {
		return identity{}, fmt.Errorf("asking for a producer id: %w", err)
	}
	resp, ok := got.(*kmsg.InitProducerIDResponse)
	if !ok {
		return identity{}, fmt.Errorf("asking for a producer id: answered with %T", got)
	}
	if resp.ErrorCode != 0 {
		return identity{}, fmt.Errorf("asking for a producer id: %w", &kafka.Error{Code: resp.ErrorCode, What: "InitProducerId"})
	}
	p.ids.latest = identity{id: resp.ProducerID, epoch: resp.ProducerEpoch, generation: p.ids.latest.generation + 1}
	p.own.add(resp.ProducerID)
	p.log.Info("producer id", "producer", resp.ProducerID)
	return p.ids.latest, nil
}
