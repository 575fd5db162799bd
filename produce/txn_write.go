package produce

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol"
)

// stream is what a transaction writes to one partition: batches in order, one under way.
type stream struct {
	x       *transaction
	lane    *lane
	batches []share
	gaps    []gap
}

// share is a batch and whose it is: a changelog's is of one unit, an output's may be of several.
type share struct {
	units []*unit
	batch *batch
}

// owner is for a batch of one unit.
func (b share) owner() *unit { return b.units[0] }

// write sends all batches, and says that positions will follow. It says whether all is acknowledged.
//
// For the first batch of each partition its broker asks the coordinator whether the partition is in the
// transaction. It would be told to wait while AddOffsetsToTxn is carried out, and tell us to come again;
// so that goes out when the first ones are there, beside the others.
func (x *transaction) write(ctx context.Context) bool {
	var group, first sync.WaitGroup
	for _, s := range x.order {
		first.Add(1)
		group.Go(func() { s.run(ctx, sync.OnceFunc(first.Done)) })
	}
	if x.hasPositions() {
		if first.Wait(); x.ok() {
			x.addOffsets(ctx)
		}
	}
	group.Wait()
	return x.ok()
}

func (x *transaction) hasPositions() bool {
	for _, u := range x.units {
		if u.positions != nil {
			return true
		}
	}
	return false
}

// addOffsets takes the group's positions into the transaction.
func (x *transaction) addOffsets(ctx context.Context) {
	t := x.t
	a := t.toCoordinator("adding the group's positions to the transaction", func() kmsg.Request {
		req := kmsg.NewPtrAddOffsetsToTxnRequest()
		req.TransactionalID, req.Group = t.cfg.ID, t.cfg.Group
		req.ProducerID, req.ProducerEpoch = t.id.id, t.id.epoch
		return req
	}, func(r kmsg.Response) int16 { return r.(*kmsg.AddOffsetsToTxnResponse).ErrorCode })
	_, code, err := a.until(ctx)
	if a.doubt {
		x.soil(fmt.Errorf("%s was not answered", a.what))
	}
	x.mu.Lock()
	x.open = x.open || a.doubt || code == codeNone && err == nil
	x.mu.Unlock()
	switch {
	case err != nil:
		x.fail(err)
	case code == codeGroupDenied:
		x.accuseAll(t.refusedBy(code, a.what, t.cfg.Group, "Read"))
	case code != codeNone:
		x.deny(code, a.what)
	}
}

// run delivers batch after batch until one does not end well, or the transaction has failed.
func (s *stream) run(ctx context.Context, first func()) {
	defer first()
	for i, b := range s.batches {
		if s.deliver(ctx, b) {
			first()
			continue
		}
		s.x.mu.Lock()
		for _, rest := range s.batches[i:] {
			for _, u := range rest.units {
				s.x.late[u] = true
			}
		}
		s.x.mu.Unlock()
		return
	}
}

// deliver brings one batch to its end: acknowledged or not. It is repeated with the same sequence.
func (s *stream) deliver(ctx context.Context, b share) bool {
	stamped := false
	var last outcome
	for attempt := 0; s.x.ok(); attempt++ {
		if attempt > 0 && !s.pause(ctx, last, attempt-1) || ctx.Err() != nil {
			s.x.fail(fmt.Errorf("%w: writing to %s: %w", context.Cause(ctx), s.lane.tp, orNothing(last.err)))
			return false
		}
		node, _, err := s.x.t.cluster.Leader(ctx, s.lane.tp)
		if err != nil {
			last = beforeSending(err)
		} else {
			if !stamped {
				s.stamp(b.batch)
				stamped = true
			}
			last = s.x.t.sender(node).send(ctx, b.batch)
		}
		if last.verdict == took {
			return s.took(b, last)
		}
		if !s.goesOn(ctx, b, last) {
			return false
		}
		if attempt > 0 {
			s.lane.trouble(last)
		}
	}
	return false
}

// pause waits before an attempt is repeated. That the broker could not ask the coordinator about the
// transaction just then looks like replicas that are missing, and passes at once.
func (s *stream) pause(ctx context.Context, o outcome, attempt int) bool {
	if attempt < 3 && (o.code == codeNotEnoughReplicas || o.code == codeConcurrent) {
		return sleep(ctx, concurrentPause(0))
	}
	return kafka.Pause(ctx, attempt)
}

func orNothing(err error) error {
	if err == nil {
		return fmt.Errorf("nothing was sent")
	}
	return err
}

// stamp makes it a batch of the transaction. One that was stamped before is copied: what was sent must
// not change.
func (s *stream) stamp(b *batch) {
	if b.stamped {
		b.records = bytes.Clone(b.records)
	}
	stampTransactional(b.records, s.x.t.id, s.lane.sequence)
	b.stamped, b.under = true, s.x.t.id
}

// took ends an acknowledged batch.
func (s *stream) took(b share, o outcome) bool {
	s.lane.recovered()
	if o.base < 0 { // a duplicate whose place the broker has forgotten
		err := fmt.Errorf("writing to %s: the broker does not say where the batch is", s.lane.tp)
		s.x.soil(err)
		s.x.fail(err)
		return false
	}
	s.lane.sequence = nextSequence(s.lane.sequence, b.batch.count)
	s.lane.missing = time.Time{}
	b.batch.base = o.base
	if b.batch.changelog {
		want := b.batch.want()
		if !s.x.t.p.tails.landed(s.lane.tp, want, o.base, b.batch.count) {
			s.gaps = append(s.gaps, gap{tp: s.lane.tp, from: want, to: o.base, unit: b.owner(), topicID: b.batch.topicID})
		}
	}
	return true
}

// goesOn draws the conclusion from an attempt that was no success: whether to repeat it.
func (s *stream) goesOn(ctx context.Context, b share, o outcome) bool {
	x, what := s.x, "writing to "+s.lane.tp.String()
	switch o.code {
	case codeOldEpoch, codeProducerFenced, codeInvalidMapping, codeInvalidTxnState, codeAbortable:
		// Whether that means fenced, the coordinator says when the transaction is aborted.
		x.soil(o.err)
		x.fail(o.err)
		return false
	case codeConcurrent:
		return true
	case codeTransactionalDenied:
		x.accuseAll(x.t.refusedBy(o.code, what, x.t.cfg.ID, "Write"))
		return false
	case codeTopicDenied:
		s.blame(b, x.t.refusedBy(o.code, what, s.lane.tp.Topic, "Write"))
		return false
	}
	switch o.verdict {
	case inDoubt:
		x.soil(o.err)
		x.t.cluster.ForgetLeader(s.lane.tp)
	case ask:
		x.t.cluster.ForgetLeader(s.lane.tp)
		if mayHaveAppended(o.code) || namesTopic(o.code) {
			x.soil(o.err)
		}
		if !namesTopic(o.code) {
			return true
		}
		if code, err := s.lane.vanished(ctx, b.batch); err != nil {
			s.blame(b, &RejectedError{Code: code, Message: "nothing was written: " + err.Error(), Err: err})
			return false
		}
	case newID: // the sequence does not fit: that of a new epoch will
		x.soil(o.err)
		x.fail(o.err)
		return false
	case tooLarge, refusal:
		x.t.p.limits.forget(s.lane.tp.Topic)
		message := fmt.Sprintf("nothing was written: Kafka refuses a batch for topic %q: %v", s.lane.tp.Topic, o.err)
		if o.verdict == tooLarge {
			message += "; make the records smaller or raise " + limitKey + " of the topic"
		}
		s.blame(b, &RejectedError{Code: codeFor(o), Message: message, Err: o.err})
		return false
	}
	return true
}

// blame makes the unit of a batch fail. Of several one is to blame; each is tried alone to find out.
func (s *stream) blame(b share, err error) {
	if len(b.units) == 1 {
		s.x.accuse(b.owner(), err)
		return
	}
	s.x.mu.Lock()
	for _, u := range b.units {
		s.x.suspects[u] = true
	}
	s.x.mu.Unlock()
	s.x.fail(err)
}

// gap is what a batch of a changelog left between the place where it had to land and the one where it
// did, where our own tail does not explain it.
type gap struct {
	tp       kafka.TopicPartition
	from, to int64
	unit     *unit
	topicID  [16]byte
}

// checkTails looks into the gaps. A unit behind a write of somebody else must not be committed: its
// owner has not seen that.
func (x *transaction) checkTails(ctx context.Context) bool {
	var group sync.WaitGroup
	for _, s := range x.order {
		for _, g := range s.gaps {
			group.Go(func() { x.checkGap(ctx, g) })
		}
	}
	group.Wait()
	return x.ok()
}

func (x *transaction) checkGap(ctx context.Context, g gap) {
	if g.to < g.from {
		code, err := x.t.p.shrunk(ctx, g)
		x.t.log.Error("acknowledged records are gone", "topic", g.tp.Topic, "partition", g.tp.Partition, "error", err)
		x.accuse(g.unit, &RejectedError{Code: code, Message: "nothing was written: " + err.Error(), Err: err})
		return
	}
	foreign, err := x.t.p.foreign(ctx, g.tp, g.from, g.to)
	if err != nil {
		x.fail(err)
		return
	}
	if foreign != nil {
		x.t.log.Warn("somebody else has written to a changelog", "topic", g.tp.Topic, "partition", g.tp.Partition, "found", foreign.Error())
		x.accuse(g.unit, &RejectedError{
			Code:    protocol.CodeForeignWrite,
			Message: fmt.Sprintf("nothing was written: somebody else has written to changelog %s/%d: only the active of the task may, give each group changelogs of its own", g.tp.Topic, g.tp.Partition),
			Err:     foreign,
		})
	}
}
