package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pillion/pillion/groupclient"
	"github.com/pillion/pillion/internal/ops"
	"github.com/pillion/pillion/produce"
	"github.com/pillion/pillion/session"
)

// transactions joins the producer and the group under exactly_once: each incarnation of the member has one
// transactional producer, made before the first claim of that incarnation is written.
type transactions struct {
	producer *produce.Producer
	group    *groupPort
	timeout  time.Duration                     // transaction_timeout
	run      func(func(context.Context) error) // starts a goroutine that the sidecar waits for
	metrics  *ops.Metrics

	mu      sync.Mutex
	current *incarnation
	former  map[string]bool // incarnations that have had a successor
}

// incarnation is the producer of one life of the member. It serves until there is a successor and everything
// that it was given has its end.
type incarnation struct {
	*produce.Transactions
	id   string
	stop context.CancelFunc

	// Guarded by transactions.mu.
	uses    int
	retired bool
}

// begin makes the producer of an incarnation. The group does it until it has succeeded once.
func (x *transactions) begin(ctx context.Context, group, id string) error {
	in, err := x.enter(group, id)
	if err != nil {
		return err
	}
	defer x.leave(in)
	return in.Init(ctx)
}

// enter uses the producer of an incarnation. The one before gets nothing new from then on.
//
// INVARIANT: an incarnation does not come back: it would be initialised a second time in its life.
func (x *transactions) enter(group, id string) (*incarnation, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.current != nil && x.current.id == id {
		x.current.uses++
		return x.current, nil
	}
	if x.former[id] { // a take-over that has not heard yet that the membership is over
		return nil, fmt.Errorf("incarnation %s is over: %w", id, groupclient.ErrLost)
	}
	made, err := x.producer.Transactions(produce.TransactionsConfig{
		ID: groupclient.TransactionalID(group, id), Group: group, Timeout: x.timeout,
	})
	if err != nil {
		return nil, err
	}
	over, stop := context.WithCancel(context.Background())
	in := &incarnation{Transactions: made, id: id, stop: stop, uses: 1}
	x.run(func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(over, cancel)()
		return made.Run(ctx)
	})
	if former := x.current; former != nil {
		former.retired = true
		former.settle()
		if x.former == nil {
			x.former = map[string]bool{}
		}
		x.former[former.id] = true
	}
	x.current = in
	return in, nil
}

// use is the present producer; nil: no task was taken over yet.
func (x *transactions) use() *incarnation {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.current != nil {
		x.current.uses++
	}
	return x.current
}

func (x *transactions) leave(in *incarnation) {
	x.mu.Lock()
	defer x.mu.Unlock()
	in.uses--
	in.settle()
}

// settle ends a producer that nobody uses any more.
func (in *incarnation) settle() {
	if in.retired && in.uses == 0 {
		in.stop()
	}
}

// transact commits the writes and positions of one task.
func (x *transactions) transact(ctx context.Context, id session.TaskID, writes []produce.Write, next map[string]int64) (produce.Result, error) {
	group, task := x.group.group(), groupTask(id)
	in := x.use()
	if in == nil { // made for a member of the group, so that there is one where it is
		return produce.Result{}, fmt.Errorf("%w: task %s was not taken over", session.ErrFenced, id)
	}
	began := time.Now()
	result, err := in.Commit(ctx, produce.Unit{Writes: writes, Positions: func() (produce.Positions, error) {
		return positionsAs(in.id, group, task, next)
	}})
	x.metrics.Step("transact", began, err)
	if err == nil {
		group.Transacted(task, next, in.id)
	}
	if errors.Is(err, produce.ErrFenced) {
		group.Fenced(in.id, err)
	}
	if errors.Is(err, produce.ErrGeneration) || errors.Is(err, produce.ErrMembership) {
		group.Hurry()
	}
	x.leaveAfter(in, err)
	return result, err
}

// positionsAs are the positions of a task as of now, when the member is still in that incarnation.
func positionsAs(incarnation string, group *groupclient.Group, task groupclient.Task, next map[string]int64) (produce.Positions, error) {
	p, err := group.Transactional(task, next)
	switch {
	case err != nil:
		return produce.Positions{}, err
	case p.Incarnation != incarnation:
		return produce.Positions{}, fmt.Errorf("task %s was taken over anew: %w", task, groupclient.ErrLost)
	}
	return produce.Positions{
		Member: p.Member, Generation: p.Generation, Instance: p.Instance,
		Partition: p.Partition, Offsets: p.Offsets, Metadata: p.Metadata,
	}, nil
}

// leaveAfter leaves a producer when what it was given has its end.
func (x *transactions) leaveAfter(in *incarnation, err error) {
	var unknown *produce.UnknownError
	if !errors.As(err, &unknown) || unknown.Ended == nil {
		x.leave(in)
		return
	}
	x.run(func(ctx context.Context) error {
		defer x.leave(in)
		select {
		case <-unknown.Ended:
		case <-ctx.Done():
		}
		return nil
	})
}
