package produce

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// closeToCallers is the step after which a caller that goes away cannot take its unit back. It refuses
// when one has gone already.
//
// INVARIANT: a unit that was answered as not written is in no transaction whose commit is sent.
func (x *transaction) closeToCallers() bool {
	x.t.mu.Lock()
	defer x.t.mu.Unlock()
	for _, u := range x.units {
		if u.stage == ended {
			x.fail(errors.New("a caller has given its commit up"))
			return false
		}
	}
	for _, u := range x.units {
		u.stage, u.in = committing, x
	}
	return true
}

func (x *transaction) endTxn(commit bool) *asking {
	what := "aborting the transaction"
	if commit {
		what = "committing the transaction"
	}
	return x.t.toCoordinator(what, func() kmsg.Request {
		req := kmsg.NewPtrEndTxnRequest()
		req.TransactionalID, req.Commit = x.t.cfg.ID, commit
		req.ProducerID, req.ProducerEpoch = x.t.id.id, x.t.id.epoch
		return req
	}, func(r kmsg.Response) int16 { return r.(*kmsg.EndTxnResponse).ErrorCode })
}

// commit sends the EndTxn that commits, until it has a definite answer. A no to the first attempt means
// that nothing was committed; a no to a later one may be about a transaction that an earlier one has
// committed.
func (x *transaction) commit(ctx context.Context) {
	x.fillEpochs()
	a := x.endTxn(true)
	_, code, err := a.until(ctx)
	said := a.said(code, err)
	if a.doubt {
		x.soil(fmt.Errorf("%s was not answered", a.what))
	}
	switch {
	case err == nil && code == codeNone:
		// INVARIANT: nothing of a transaction comes behind the answer that it is committed. Positions that were
		// sent twice may be taken again until the markers are there, and would undo the release of a task that
		// follows the answer: the next epoch, which there is only behind the markers, refuses them.
		x.marked()
		x.settle(ctx)
		x.t.most = min(x.t.most+1, maxTransactionUnits)
		x.answer(func(*unit) error { return nil })
		return
	case err == nil && fences(code) && !a.doubt:
		x.fenced(fencedBy(code, a.what))
		return
	case err == nil && fences(code):
		// The epoch is another's: no attempt of ours can be carried out any more.
		fenced := fencedBy(code, a.what+" again")
		x.answer(func(*unit) error { return x.unknown(fenced) })
		x.t.fence(fenced)
		return
	case err == nil && !a.doubt:
		x.reopen()
		x.deny(code, a.what)
		x.abort(ctx)
		return
	default: // the producer stops, or the answer to a repeated attempt tells nothing about the first
		x.soil(said)
		x.forget()
		x.answer(func(*unit) error { return x.unknown(said) })
		x.t.log.Warn("the end of a transaction is not known", "error", said)
	}
	x.settle(ctx)
}

// reopen takes back that units are being committed: the coordinator has refused the first attempt. What
// was found out about where they are holds no more.
func (x *transaction) reopen() {
	for _, u := range x.units {
		<-u.filled
	}
	x.t.mu.Lock()
	defer x.t.mu.Unlock()
	for _, u := range x.units {
		if u.stage == committing {
			u.stage = inside
		}
	}
}

// answer ends the units that have not ended.
func (x *transaction) answer(err func(*unit) error) {
	x.t.mu.Lock()
	defer x.t.mu.Unlock()
	for _, u := range x.units {
		u.end(err(u))
	}
}

// fillEpochs asks for the leader epochs of the changelogs beside the end of the transaction.
func (x *transaction) fillEpochs() {
	for _, u := range x.units {
		x.t.work.Go(func() {
			r := u.commit.result()
			x.t.p.fillEpochs(x.run, u.commit, r)
			u.filled <- r
		})
	}
}

// abort ends the transaction without a trace and puts the units back that are not to blame.
func (x *transaction) abort(ctx context.Context) {
	x.mu.Lock()
	why := x.failed
	for u := range x.suspects {
		u.apart = true
	}
	if errors.Is(why, errBudget) {
		for u := range x.late {
			u.apart = len(x.late) < len(x.units) || u.apart
		}
	}
	x.mu.Unlock()
	if len(x.units) > 0 && x.open {
		x.t.log.Warn("transaction aborted", "commits", len(x.units), "error", why)
	}
	if x.open && x.endAborted(ctx) {
		x.marked()
	}
	if x.dirty != nil { // something of it may land that we do not know of
		x.forget()
	}
	x.settle(ctx)
	x.t.again(x.units, why)
}

// endAborted sends the EndTxn that aborts, until it has a definite answer, and says whether it is done.
// The units that are waited for were answered, or wait for it: nothing of them is committed, whatever
// becomes of it, for no EndTxn of this epoch that commits will be sent any more.
func (x *transaction) endAborted(ctx context.Context) bool {
	a := x.endTxn(false)
	_, code, err := a.until(ctx)
	if a.doubt {
		x.soil(fmt.Errorf("%s was not answered", a.what))
	}
	switch {
	case err == nil && code == codeNone:
		return true
	case err == nil && fences(code):
		x.fenced(fencedBy(code, a.what))
	default: // there was none to abort, or it was not told
		x.soil(a.said(code, err))
	}
	return false
}

// settle makes sure that nothing of the transaction can have an effect after it.
func (x *transaction) settle(ctx context.Context) {
	if x.dirty == nil || x.t.isFenced() {
		return
	}
	x.t.renew(ctx, x.dirty)
}

func (t *Transactions) isFenced() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fenced != nil
}

// marked takes note that each partition of the transaction gets a marker.
func (x *transaction) marked() {
	for _, s := range x.order {
		x.t.p.tails.marked(s.lane.tp)
	}
}

// forget takes note that it is not known what is at the end of the partitions.
func (x *transaction) forget() {
	for _, s := range x.order {
		x.t.p.tails.forget(s.lane.tp)
	}
}
