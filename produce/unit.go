package produce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol"
)

const (
	maxTransactionUnits = 1000
	maxTransactionBytes = 32 << 20 // as sent, unless one unit is larger
)

// stage is where a unit stands; guarded by Transactions.mu.
type stage int

const (
	waiting    stage = iota // in the queue
	inside                  // in a transaction of which no commit was sent
	committing              // the EndTxn that commits it may have been sent
	ended
)

// unit is one Commit under way.
type unit struct {
	commit    *commit
	writes    []Write
	positions func() (Positions, error)
	done      chan struct{} // closed when it has ended
	filled    chan Result   // buffered: what it has become, leader epochs included

	// Guarded by Transactions.mu.
	stage stage
	err   error        // of one that has ended
	in    *transaction // of one that is being committed

	// Of the owner, or guarded by Transactions.mu while it waits.
	apart     bool      // its transaction ran out of time because of it: it goes alone
	notBefore time.Time // it is not tried again before
	why       error     // what stopped the last transaction it was in
}

func newUnit(c *commit, work Unit) *unit {
	return &unit{commit: c, writes: work.Writes, positions: work.Positions, done: make(chan struct{}), filled: make(chan Result, 1)}
}

// end needs Transactions.mu.
func (u *unit) end(err error) {
	if u.stage != ended {
		u.stage, u.err = ended, err
		close(u.done)
	}
}

// submit queues a unit.
func (t *Transactions) submit(u *unit) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.fenced != nil:
		return t.fenced
	case t.closed:
		return rejectedBy(ErrStopped)
	}
	t.queue = append(t.queue, u)
	t.signal()
	return nil
}

func (t *Transactions) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// giveUp ends a unit whose caller waits no longer. Nothing of one that is not being committed will
// ever be: the transaction that it is in finds it ended before EndTxn and is aborted.
func (t *Transactions) giveUp(u *unit, cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch u.stage {
	case ended:
	case committing:
		u.end(u.in.unknown(fmt.Errorf("the transaction coordinator has not answered whether it is committed: %w", cause)))
	default:
		// What is not wanted any more does not wait in memory until Kafka is there again.
		t.queue = slices.DeleteFunc(t.queue, func(queued *unit) bool { return queued == u })
		u.end(u.rejected(cause))
	}
}

// rejected needs Transactions.mu.
func (u *unit) rejected(cause error) *RejectedError {
	r := rejectedBy(cause)
	if u.why != nil {
		r.Message = fmt.Sprintf("nothing was written: its transactions were aborted, the last one because %v", u.why)
		r.Err = errors.Join(cause, u.why)
	}
	return r
}

// next waits for units that may go into a transaction. Nil: ctx has ended.
func (t *Transactions) next(ctx context.Context) []*unit {
	for ctx.Err() == nil {
		t.mu.Lock()
		units, wait := t.pick(nil)
		t.mu.Unlock()
		if len(units) > 0 {
			return units
		}
		var due <-chan time.Time
		var timer *time.Timer
		if wait > 0 {
			timer = time.NewTimer(wait)
			due = timer.C
		}
		select {
		case <-t.wake:
		case <-due:
		case <-ctx.Done():
		}
		if timer != nil {
			timer.Stop()
		}
	}
	return nil
}

// pick takes units out of the queue, in its order, to go beside those of a transaction; wait is how long
// until the next one is due when there is none. It needs mu.
func (t *Transactions) pick(beside []*unit) (units []*unit, wait time.Duration) {
	bytes := int64(0)
	for _, u := range beside {
		bytes += u.commit.bytes
	}
	now := time.Now()
	rest := t.queue[:0:0]
	full := len(beside) > 0 && beside[0].apart
	for _, u := range t.queue {
		n := len(beside) + len(units)
		switch {
		case u.stage == ended:
			continue
		case u.notBefore.After(now):
			if d := u.notBefore.Sub(now); wait == 0 || d < wait {
				wait = d
			}
		case full || n > 0 && (u.apart || n >= t.most || bytes+u.commit.bytes > maxTransactionBytes):
			full = true // those behind it keep their places
		default:
			u.stage, u.notBefore = inside, time.Time{}
			units = append(units, u)
			bytes += u.commit.bytes
			full = u.apart
			continue
		}
		rest = append(rest, u)
	}
	t.queue = rest
	return units, wait
}

// again puts units of an aborted transaction back, before all others; those that held it up go behind.
func (t *Transactions) again(units []*unit, why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var first, last []*unit
	for _, u := range units {
		if u.stage == ended {
			continue
		}
		u.why, u.stage = why, waiting
		if u.apart || !u.notBefore.IsZero() {
			last = append(last, u)
		} else {
			first = append(first, u)
		}
	}
	t.queue = append(append(first, t.queue...), last...)
	if t.fenced != nil {
		t.endQueue(t.fenced)
	}
	t.signal()
}

// fence ends the incarnation: whatever waits and whatever comes is answered with ErrFenced.
func (t *Transactions) fence(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fenced == nil {
		t.fenced = err
		t.log.Warn("fenced: the incarnation of this producer is over", "error", err)
	}
	t.endQueue(t.fenced)
}

// endQueue needs mu.
func (t *Transactions) endQueue(err error) {
	for _, u := range t.queue {
		u.end(err)
	}
	t.queue = nil
}

func (t *Transactions) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.endQueue(rejectedBy(ErrStopped))
}

// fencedBy is the error of a code by which the transaction coordinator says that the producer is not
// the one of its transactional id any more.
func fencedBy(code int16, what string) error {
	return fmt.Errorf("%w: %w", ErrFenced, &kafka.Error{Code: code, What: what})
}

// refusedBy is a definite no of Kafka, in words.
func (t *Transactions) refusedBy(code int16, what, name, operation string) *RejectedError {
	r := &RejectedError{Code: protocol.CodeKafkaRefused}
	if denied := t.cluster.Denied(code, name, operation); denied != nil {
		r.Err = denied
	} else {
		r.Err = &kafka.Error{Code: code, What: what}
	}
	r.Message = fmt.Sprintf("nothing was written: %v", r.Err)
	return r
}
