package produce

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
)

// How a transaction can fail as a whole, beside *RejectedError and *UnknownError.
var (
	// ErrFenced: somebody else has taken the transactional id over, or the coordinator has timed a
	// transaction out. The incarnation is over. Nothing of the unit is visible or will be, unless it is
	// inside an *UnknownError.
	ErrFenced = errors.New("the transactional id is fenced")
	// ErrGeneration: the group has another generation than the positions. Aborted; commit again after
	// the next sync.
	ErrGeneration = errors.New("the group is at another generation")
	// ErrMembership: the group does not know the member any more. Aborted; the membership is over.
	ErrMembership = errors.New("the membership of the group is over")
)

// TransactionsConfig names the transactional producer of one incarnation.
type TransactionsConfig struct {
	ID      string        // the transactional id, never used by another incarnation
	Group   string        // whose positions are committed
	Timeout time.Duration // transaction.timeout.ms; default 10s
}

// Validate fills in the defaults and says what is wrong.
func (c *TransactionsConfig) Validate() error {
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	switch {
	case c.ID == "":
		return errors.New("produce: no transactional id")
	case c.Group == "":
		return errors.New("produce: no group for the positions of transactions")
	case c.Timeout < time.Second:
		return fmt.Errorf("produce: a transaction timeout of %v: must be a second or more", c.Timeout)
	}
	return nil
}

// Unit is one commit: all of it is committed, or nothing.
type Unit struct {
	Writes []Write
	// Positions is called directly before the positions are sent. Its error fails this unit alone and
	// is returned wrapped. Nil: the unit has no positions.
	Positions func() (Positions, error)
}

// Positions are what a unit commits for its sources.
type Positions struct {
	Member     string
	Generation int32
	Instance   *string
	Partition  int32
	Offsets    map[string]int64 // by topic
	Metadata   string
}

// txnCluster is what transactions need of *kafka.Client.
type txnCluster interface {
	cluster
	ToTransaction(ctx context.Context, id string, req kmsg.Request) (kmsg.Response, error)
	ToGroup(ctx context.Context, group string, req kmsg.Request) (kmsg.Response, error)
	ForgetCoordinator(kind kafka.CoordinatorKind, key string)
	Denied(code int16, name, operation string) *kafka.AccessError
}

// Transactions is the transactional producer of one incarnation. Commit may be called from many
// goroutines; Run is the one owner of everything that concerns Kafka.
type Transactions struct {
	p       *Producer
	cluster txnCluster
	cfg     TransactionsConfig
	log     hclog.Logger
	ready   chan struct{} // closed when Init has succeeded
	wake    chan struct{} // buffered: something has come into the queue
	work    sync.WaitGroup

	initialising chan struct{} // held by Init

	// Of the owner, after Init.
	id    identity
	lanes map[kafka.TopicPartition]*lane
	most  int // units that share a transaction; see fewer

	packing  sync.Mutex // held while frames of callers are read
	senderMu sync.Mutex
	senders  map[int32]*sender

	mu              sync.Mutex
	queue           []*unit
	running, closed bool
	fenced          error // ErrFenced, wrapped, once that is so
}

// Transactions makes the transactional producer of an incarnation. It does no I/O.
func (p *Producer) Transactions(cfg TransactionsConfig) (*Transactions, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c, ok := p.cluster.(txnCluster)
	if !ok {
		return nil, errors.New("produce: this client knows no transactions")
	}
	return &Transactions{
		p: p, cluster: c, cfg: cfg, log: p.log.With("transactional_id", cfg.ID),
		ready: make(chan struct{}), wake: make(chan struct{}, 1), initialising: make(chan struct{}, 1),
		lanes: map[kafka.TopicPartition]*lane{}, senders: map[int32]*sender{}, most: maxTransactionUnits,
	}, nil
}

// Init asks for the producer id and fences whoever had the transactional id. It repeats until ctx
// ends.
//
// INVARIANT: InitProducerId goes out with (-1, -1) only until it has succeeded once: a sidecar that was
// fenced must not take its id back.
func (t *Transactions) Init(ctx context.Context) error {
	select {
	case t.initialising <- struct{}{}:
		defer func() { <-t.initialising }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-t.ready:
		return errors.New("produce: the transactional id is initialised already")
	default:
	}
	id, err := t.initProducer(ctx, identity{id: -1, epoch: -1})
	if err != nil {
		return err
	}
	t.id = id
	t.log.Info("transactional producer", "producer", id.id, "epoch", id.epoch)
	close(t.ready)
	return nil
}

// Run makes transactions of what Commit is given, until ctx ends; then it ends the one that is open and
// waits for all that it has begun. Commits that have not ended by then end as stopped.
func (t *Transactions) Run(ctx context.Context) error {
	t.mu.Lock()
	if t.running {
		t.mu.Unlock()
		return errors.New("produce: transactions run twice")
	}
	t.running = true
	t.mu.Unlock()
	defer t.work.Wait()
	defer t.close()
	select {
	case <-t.ready:
	case <-ctx.Done():
		return nil
	}
	for {
		units := t.next(ctx)
		if units == nil {
			return nil
		}
		t.transact(ctx, units)
	}
}

// Commit brings a unit into Kafka. Units that wait while a transaction is under way share the next
// one; when one of them cannot be committed it fails alone, and the others are tried again in another
// transaction. A caller to whom the order of two units matters calls Commit for one after the other.
//
// The errors: *RejectedError, ErrFenced, ErrGeneration, ErrMembership and that of Positions mean that
// nothing of the unit is or will be visible; *UnknownError that this cannot be told. When ctx ends
// Commit returns at once with one of them.
func (t *Transactions) Commit(ctx context.Context, work Unit) (Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, t.p.cfg.DeliveryTimeout, errDeadline)
	defer cancel()
	c, err := t.p.plan(ctx, work.Writes)
	if err != nil {
		return Result{}, err
	}
	if len(c.batches) == 0 && work.Positions == nil {
		return c.result(), nil
	}
	u := newUnit(c, work)
	if err := t.submit(u); err != nil {
		return Result{}, err
	}
	select {
	case <-u.done:
	case <-ctx.Done():
		t.giveUp(u, context.Cause(ctx))
		t.awaitPacking()
	}
	if u.err != nil {
		return Result{}, u.err
	}
	select {
	case r := <-u.filled:
		return r, nil
	case <-ctx.Done():
		return c.result(), nil
	}
}

// awaitPacking makes sure that nobody reads the frames of a unit that was given up: they are the caller's
// again.
func (t *Transactions) awaitPacking() {
	t.packing.Lock()
	defer t.packing.Unlock()
}

// sender is the one for a broker.
func (t *Transactions) sender(node int32) *sender {
	t.senderMu.Lock()
	defer t.senderMu.Unlock()
	s := t.senders[node]
	if s == nil {
		s = &sender{node: node, cluster: t.cluster, timeout: t.attemptTimeout(), transaction: t.cfg.ID}
		t.senders[node] = s
	}
	return s
}

// attemptTimeout is of one request: several must fit into a transaction.
func (t *Transactions) attemptTimeout() time.Duration {
	return min(t.p.cfg.RequestTimeout, t.cfg.Timeout*3/10)
}

// budget is how long a transaction may work before its end must begin, and stays well below the
// coordinator's limit: at that it would fence us.
func (t *Transactions) budget() time.Duration { return t.cfg.Timeout * 6 / 10 }

// lane is the place of a partition. For the owner only.
func (t *Transactions) lane(tp kafka.TopicPartition) *lane {
	l := t.lanes[tp]
	if l == nil {
		l = newLane(t.p, tp)
		t.lanes[tp] = l
	}
	return l
}
