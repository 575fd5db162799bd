package produce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol"
)

// stopGrace is how long a transaction may take to end when the producer stops.
const stopGrace = 2 * time.Second

// transaction is one transaction of Kafka. It belongs to the owner; the goroutines that write share
// what mu guards.
type transaction struct {
	t       *Transactions
	run     context.Context // Run's
	units   []*unit
	streams map[kafka.TopicPartition]*stream
	order   []*stream
	begun   time.Time     // it can be open since
	open    bool          // the coordinator may have it
	ended   chan struct{} // closed when nothing of it can take effect any more

	mu       sync.Mutex
	dirty    error           // a request was sent and not answered, or the producer is not sound: why
	failed   error           // why it cannot be committed
	guilty   map[*unit]error // that is the fault of
	suspects map[*unit]bool  // one of these is to blame
	late     map[*unit]bool  // had something to send when the time was up
}

// transact brings the units into Kafka in one transaction, or puts those that may be tried again back.
func (t *Transactions) transact(ctx context.Context, units []*unit) {
	x := &transaction{
		t: t, run: ctx, streams: map[kafka.TopicPartition]*stream{}, ended: make(chan struct{}),
		guilty: map[*unit]error{}, suspects: map[*unit]bool{}, late: map[*unit]bool{},
	}
	defer close(x.ended)
	x.join(units)
	if x.begin(ctx) {
		work, cancel := context.WithDeadlineCause(ctx, x.begun.Add(t.budget()), errBudget)
		x.merge(work)
		if x.write(work) && x.checkTails(work) {
			x.commitPositions(work)
		}
		cancel()
	}
	// What is under way may end when the producer stops, so that nobody has to wait for the coordinator
	// to time the transaction out.
	ctx, cancel := lingering(ctx, stopGrace)
	defer cancel()
	if x.ok() && x.closeToCallers() {
		x.commit(ctx)
		return
	}
	x.abort(ctx)
}

// errBudget is the cause when a transaction comes near its timeout.
var errBudget = errors.New("not all of it was taken within the time that transaction_timeout leaves")

// lingering ends some time after its parent.
func lingering(parent context.Context, d time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	ended := make(chan struct{})
	stop := context.AfterFunc(parent, func() {
		defer close(ended)
		if sleep(ctx, d) {
			cancel(ErrStopped)
		}
	})
	return ctx, func() {
		cancel(nil)
		if !stop() {
			<-ended
		}
	}
}

// join takes units into the transaction, in order.
func (x *transaction) join(units []*unit) {
	for _, u := range units {
		x.units = append(x.units, u)
		for _, b := range u.commit.batches {
			s := x.streams[b.tp]
			if s == nil {
				s = &stream{x: x, lane: x.t.lane(b.tp)}
				x.streams[b.tp] = s
				x.order = append(x.order, s)
			}
			b.lane = s.lane
			s.batches = append(s.batches, share{[]*unit{u}, b})
		}
	}
}

// leave takes units out again, before anything of them was sent.
func (x *transaction) leave(gone func(*unit) bool) {
	x.units = slices.DeleteFunc(x.units, gone)
	units := x.units
	x.units, x.order, x.streams = nil, nil, map[kafka.TopicPartition]*stream{}
	x.join(units)
}

// begin adds the partitions, all at once. Units that come while the markers of the transaction before
// are awaited join; those that were given up, and those whose topics are not there, leave.
func (x *transaction) begin(ctx context.Context) bool {
	t := x.t
	var resp *kmsg.AddPartitionsToTxnResponse
	a := t.toCoordinator("adding partitions to the transaction", func() kmsg.Request { return x.addPartitions() },
		func(r kmsg.Response) int16 {
			resp = r.(*kmsg.AddPartitionsToTxnResponse)
			return wholeCode(resp)
		})
	for attempt := 0; ; attempt++ {
		x.refill()
		if len(x.units) == 0 {
			return false
		}
		if len(x.order) == 0 { // positions only: these begin it
			x.begun = time.Now()
			return true
		}
		if !a.doubt {
			x.begun = time.Now()
		}
		n := len(x.units)
		_, code, err := a.once(ctx)
		if a.doubt {
			x.open = true
			x.soil(a.said(code, err))
		}
		switch {
		case err == nil && code == codeNone && x.added(ctx, resp):
			x.open = true
			return true
		case err == nil && code == codeNone && len(x.units) < n: // some have left
			continue
		case err == nil && code == codeNone: // the answer leaves a partition out
		case err == nil && !passes(code):
			x.deny(code, a.what)
			return false
		case err != nil && (final(err) || ctx.Err() != nil):
			x.fail(err)
			return false
		case a.doubt && time.Since(x.begun) > t.budget():
			x.fail(fmt.Errorf("%w: %w", errBudget, a.said(code, err)))
			return false
		}
		x.note(a.said(code, err))
		if !a.pause(ctx, code, attempt) {
			x.fail(ErrStopped)
			return false
		}
	}
}

// refill lets units out whose callers have gone, and those in that have come.
func (x *transaction) refill() {
	t := x.t
	t.mu.Lock()
	gone := map[*unit]bool{}
	for _, u := range x.units {
		if u.stage == ended {
			gone[u] = true
		}
	}
	var more []*unit
	if len(x.units) > len(gone) {
		more, _ = t.pick(x.units)
	}
	t.mu.Unlock()
	if len(gone) > 0 {
		x.leave(func(u *unit) bool { return gone[u] })
	}
	x.join(more)
}

// note is what a unit is told that is given up while the transaction cannot begin.
func (x *transaction) note(why error) {
	if code, _ := kafka.CodeOf(why); code == codeConcurrent {
		return // the ordinary case, for some milliseconds
	}
	x.t.mu.Lock()
	defer x.t.mu.Unlock()
	for _, u := range x.units {
		u.why = why
	}
}

func (x *transaction) addPartitions() kmsg.Request {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID = x.t.cfg.ID
	req.ProducerID, req.ProducerEpoch = x.t.id.id, x.t.id.epoch
	at := map[string]int{}
	for _, s := range x.order {
		i, ok := at[s.lane.tp.Topic]
		if !ok {
			i = len(req.Topics)
			at[s.lane.tp.Topic] = i
			topic := kmsg.NewAddPartitionsToTxnRequestTopic()
			topic.Topic = s.lane.tp.Topic
			req.Topics = append(req.Topics, topic)
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, s.lane.tp.Partition)
	}
	return req
}

// wholeCode is the code that concerns the transaction, not one of its partitions.
func wholeCode(resp *kmsg.AddPartitionsToTxnResponse) int16 {
	if resp.ErrorCode != codeNone {
		return resp.ErrorCode
	}
	for _, t := range resp.Topics {
		for _, q := range t.Partitions {
			switch q.ErrorCode {
			case codeNone, codeUnknownTopic, codeTopicDenied, codeNotAttempted:
			default:
				return q.ErrorCode
			}
		}
	}
	return codeNone
}

// added looks at the partitions one by one: whether all are in the transaction. Kafka adds all or none.
// Units that write to the others leave: with an error, or to try again later.
func (x *transaction) added(ctx context.Context, resp *kmsg.AddPartitionsToTxnResponse) bool {
	codes := map[kafka.TopicPartition]int16{}
	for _, topic := range resp.Topics {
		for _, q := range topic.Partitions {
			codes[kafka.TopicPartition{Topic: topic.Topic, Partition: q.Partition}] = q.ErrorCode
		}
	}
	all := true
	out := map[*unit]bool{}
	for _, s := range x.order {
		code, answered := codes[s.lane.tp]
		switch {
		case answered && code == codeNone:
			s.lane.missing = time.Time{}
			continue
		case code == codeUnknownTopic:
			for _, b := range s.batches {
				out[b.owner()] = true
				x.absent(ctx, s.lane, b)
			}
		case code == codeTopicDenied:
			for _, b := range s.batches {
				out[b.owner()] = true
				x.accuse(b.owner(), x.t.refusedBy(code, "writing to "+s.lane.tp.String(), s.lane.tp.Topic, "Write"))
			}
		}
		all = false
	}
	if len(out) > 0 {
		x.leave(func(u *unit) bool { return out[u] })
		var again []*unit
		for u := range out {
			if x.guilty[u] == nil {
				again = append(again, u)
			}
		}
		x.t.again(again, errors.New("a topic of it is not there"))
		x.absolve()
	}
	return all
}

// absent handles a topic that the coordinator does not know: refused when it has been so for long.
func (x *transaction) absent(ctx context.Context, l *lane, b share) {
	if code, err := l.vanished(ctx, b.batch); err != nil {
		x.accuse(b.owner(), &RejectedError{Code: code, Message: "nothing was written: " + err.Error(), Err: err})
		return
	}
	b.owner().notBefore = time.Now().Add(kafka.Backoff(3))
}

// soil takes note that the epoch must change after this transaction.
func (x *transaction) soil(why error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.dirty == nil {
		x.dirty = why
	}
}

// fail makes the transaction end aborted; no unit is to blame.
func (x *transaction) fail(why error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.failed == nil {
		x.failed = why
	}
}

// accuse makes the transaction end aborted, and the unit with an error. It is answered at once: a
// transaction that has failed is never committed.
func (x *transaction) accuse(u *unit, err error) {
	x.mu.Lock()
	if x.guilty[u] == nil {
		x.guilty[u] = err
	}
	if x.failed == nil {
		x.failed = err
	}
	x.mu.Unlock()
	x.t.mu.Lock()
	defer x.t.mu.Unlock()
	u.end(err)
}

// accuseAll is for what is nobody's fault but the producer's as a whole.
func (x *transaction) accuseAll(err error) {
	for _, u := range x.units {
		x.accuse(u, err)
	}
}

// absolve forgets what has failed with the units that have left before anything was sent.
func (x *transaction) absolve() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failed = nil
	clear(x.guilty)
}

// deny handles a definite no of the transaction coordinator to the transaction as a whole.
func (x *transaction) deny(code int16, what string) {
	switch {
	case fences(code):
		x.fenced(fencedBy(code, what))
	case code == codeInvalidTxnState || code == codeAbortable:
		err := &kafka.Error{Code: code, What: what}
		x.soil(err)
		x.fail(err)
	default:
		x.accuseAll(x.t.refusedBy(code, what, x.t.cfg.ID, "Write"))
	}
}

// fenced ends every unit, for nothing of them was committed and nobody can do it any more.
func (x *transaction) fenced(err error) {
	x.fail(err)
	x.open = false
	x.t.fence(err)
	x.accuseAll(err)
}

func (x *transaction) ok() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.failed == nil && len(x.units) > 0
}

// unknown is the answer for a unit whose commit was sent and not answered.
func (x *transaction) unknown(why error) *UnknownError {
	return &UnknownError{
		Code:    protocol.CodeKafkaUnreachable,
		Message: "the end of its transaction is not known: " + why.Error(),
		Err:     why,
		Ended:   x.ended,
	}
}
