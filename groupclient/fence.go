package groupclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
)

// TransactionalID is that of one incarnation of a member; it is never used by another.
func TransactionalID(group, incarnation string) string { return group + "-" + incarnation }

// fence ends the transactions of owners that have not let go. A claim of at_least_once is not
// fenced: there is nothing to fence it with.
//
// A fence holds for ever: the owner of an incarnation has initialised its producer before it wrote the claim
// that we have read, and never does so again. So one fence does for all tasks of a dead owner, whenever it was
// made in our present life.
func (o *taking) fence(ctx context.Context) error {
	ids := map[string]bool{}
	for _, c := range o.claims {
		if c.Guarantee == ExactlyOnce && !c.Released && c.Incarnation != o.id.incarnation {
			ids[TransactionalID(o.cfg.Group, c.Incarnation)] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		err := o.once(ctx, "fence "+id, func() error { return o.fenceOne(ctx, id) })
		var denied *kafka.AccessError
		switch {
		case errors.As(err, &denied):
			o.cannotFence(denied)
		case err != nil:
			return err
		}
	}
	return nil
}

// fenceOne repeats until the former owner's transactions are ended, or the task is not ours any more.
func (o *taking) fenceOne(ctx context.Context, transactional string) error {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID = &transactional
	// Nothing begins under it. But brokers refuse what is over their transaction.max.timeout.ms; ours is not.
	req.TransactionTimeoutMillis = int32(o.cfg.TransactionTimeout.Milliseconds())
	req.ProducerID, req.ProducerEpoch = -1, -1
	began := time.Now()
	for attempt := 0; ; attempt++ {
		if err := o.still(); err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, offsetsLimit)
		answer, err := o.client.ToTransaction(limited, transactional, req)
		cancel()
		if err == nil {
			code := answer.(*kmsg.InitProducerIDResponse).ErrorCode
			if code == 0 {
				o.log.Info("fenced the transactions of a former owner", "task", o.t.String(), "transactional_id", transactional)
				return nil
			}
			if err = o.notFenced(transactional, code); !errors.Is(err, errAgain) {
				return err
			}
		} else if !kafka.Retriable(err) { // a right that is missing, too, when the coordinator is looked up
			return err
		}
		if time.Since(began) >= tellAfter {
			o.waitFor(o.t, fmt.Sprintf("task %s waits for Kafka to end the transactions of its former owner, transactional id %q (%v)", o.t, transactional, err))
		}
		if !o.pauseFence(ctx, attempt) {
			return final(ctx, err)
		}
	}
}

// pauseFence: the former transaction is aborted within some milliseconds, so that the first tries follow soon.
func (o *taking) pauseFence(ctx context.Context, attempt int) bool {
	const soon, first = 4, 10 * time.Millisecond
	if attempt >= soon {
		return kafka.Pause(ctx, attempt-soon)
	}
	timer := time.NewTimer(first)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// notFenced is what a code of InitProducerId means: a retriable error, one for good, or that we lack the right.
func (o *taking) notFenced(transactional string, code int16) error {
	if denied := o.client.Denied(code, transactional, "Write"); denied != nil {
		return denied
	}
	err := &kafka.Error{Code: code, What: fmt.Sprintf("fencing the transactional id %q", transactional)}
	switch code {
	case 14, 15, 16:
		o.client.ForgetCoordinator(kafka.Transaction, transactional)
	case 51: // CONCURRENT_TRANSACTIONS: the former transaction is being ended
	default:
		if !kafka.Retriable(err) {
			return &RefusedError{codeKafkaRefused, err.Error()}
		}
	}
	return fmt.Errorf("%w: %w", errAgain, err)
}

// cannotFence says once in a life of the sidecar which right is missing. The take-over goes on: its next steps
// wait for the end of that transaction.
func (g *Group) cannotFence(denied *kafka.AccessError) {
	g.mu.Lock()
	said := g.deniedFence
	g.deniedFence = true
	g.mu.Unlock()
	if !said {
		g.log.Warn(fmt.Sprintf("%v; a prefixed ACL on %q is enough for all workers of the group; until then a task of a dead worker waits for its transaction to end by itself",
			denied, g.cfg.Group+"-"))
	}
}

// beginProducer has the producer of our incarnation initialised, once.
func (o *taking) beginProducer(ctx context.Context) error {
	if o.cfg.Begin == nil || o.cfg.Guarantee != ExactlyOnce {
		return nil
	}
	err := o.once(ctx, "begin "+o.id.incarnation, func() error { return o.cfg.Begin(ctx, o.id.incarnation) })
	var denied *kafka.AccessError
	if errors.As(err, &denied) {
		return &RefusedError{codeKafkaRefused, denied.Error()}
	}
	return err
}

// flight is something that is done once, for all who wait for it.
type flight struct {
	over chan struct{}
	err  error
}

// once does a thing unless it has been done since the membership began. Who comes while it is being done waits
// for it; where it fails for a reason of who does it (whose context has ended), the next one does it.
func (g *Group) once(ctx context.Context, what string, do func() error) error {
	for {
		g.mu.Lock()
		if g.made[what] {
			g.mu.Unlock()
			return nil
		}
		f := g.flights[what]
		if f == nil {
			f = &flight{over: make(chan struct{})}
			g.flights[what] = f
			made := g.made // of this membership: a loss makes a new one
			g.mu.Unlock()
			f.err = do()
			g.mu.Lock()
			delete(g.flights, what)
			if f.err == nil {
				made[what] = true
			}
			g.mu.Unlock()
			close(f.over)
			return f.err
		}
		g.mu.Unlock()
		select {
		case <-f.over:
		case <-ctx.Done():
			return ctx.Err()
		}
		if final := forAll(f.err); f.err == nil || final {
			return f.err
		}
	}
}

// forAll tells of an error that everybody would get.
func forAll(err error) bool {
	var refused *RefusedError
	var denied *kafka.AccessError
	return errors.As(err, &refused) || errors.As(err, &denied)
}
