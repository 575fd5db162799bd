package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Reach asks whether any broker answers. When none does before the context ends, the error is one
// sentence for the user.
func (c *Client) Reach(ctx context.Context) error {
	ctx, end := c.begin(ctx)
	defer end()
	_, err := c.refresh(ctx)
	var none *unreachableError
	if errors.As(err, &none) {
		return none
	}
	return err
}

// Admitted asks each bootstrap broker once, in turn, until one takes us in. A *SecurityError says that
// those which answer refuse us: a process that begins had better end with it, for it is most likely a
// mistake in its settings. Any other error says only that none can be reached yet.
func (c *Client) Admitted(ctx context.Context) error {
	ctx, end := c.begin(ctx)
	defer end()
	var failure error
	for attempt := 0; attempt < 2; attempt++ {
		again, away := false, error(nil)
		for i, address := range c.cfg.Bootstrap {
			err := c.tryBroker(ctx, address, len(c.cfg.Bootstrap)-i)
			if err == nil {
				return nil
			}
			if refused := refusal(err); refused != nil {
				failure, again = refused, again || refused.maybe
			} else {
				away = err
			}
		}
		if refused := refusal(failure); failure == nil || refused != nil && refused.maybe && away != nil {
			failure = away // brokers are going down: that one of them looks like a refusal says nothing
		}
		if !again { // what may have been a broker that goes down is looked at twice
			break
		}
		select {
		case <-time.After(2 * heldFirst):
		case <-ctx.Done():
		}
	}
	return failure
}

func (c *Client) tryBroker(ctx context.Context, address string, left int) error {
	c.mu.Lock()
	b := c.brokers[address]
	c.mu.Unlock()
	if b == nil {
		return errClosed
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // not nil, which means all
	try, cancel := context.WithTimeout(ctx, c.share(ctx, left, 0))
	defer cancel()
	return b.sendAgain(try, newMessage(req))
}
