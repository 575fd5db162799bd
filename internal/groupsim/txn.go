package groupsim

import (
	"slices"
	"time"
)

// Codes of transactions.
const (
	outOfOrder     int16 = 45
	oldEpoch       int16 = 47
	invalidState   int16 = 48
	concurrent     int16 = 51
	producerFenced int16 = 90
)

// transactionTimeout of every producer.
const transactionTimeout = 5 * time.Second

// transactional is a transactional id at its coordinator. Each life has its own.
type transactional struct {
	life        *life
	epoch, last int16 // last: the one before, when its owner may ask for its own next one
	now         *txn  // ongoing, or markers of it are outstanding
	before      *txn  // the one that is complete
	fenced      bool  // by somebody else, or by its timeout
}

type txnState uint8

const (
	ongoing txnState = iota
	committing
	aborting
)

// txn is a transaction. When it is decided it does not change any more, and its markers are on their way.
type txn struct {
	of      *transactional
	epoch   int16
	ended   int16 // the epoch of its markers
	state   txnState
	logs    []*changelog
	offsets bool // positions will come
	marked  bool // the marker of the positions is there
	pending []pending
	left    int // markers that are outstanding
	units   []*unit
}

// pending is a position that counts when the transaction is committed, and when no other was written since.
type pending struct {
	t     *truth
	claim claim
	at    int64
	order int64
}

func (x *txn) has(l *changelog) bool { return slices.Contains(x.logs, l) }

// verify says whether the coordinator knows of an ongoing transaction of this epoch.
func (p *transactional) verify(epoch int16, part func(*txn) bool) int16 {
	switch {
	case epoch != p.epoch:
		return oldEpoch
	case p.now == nil || p.now.state != ongoing || !part(p.now):
		return invalidState
	}
	return 0
}

// initProducer is InitProducerId: with epoch -1 by whoever wants to fence, else by the owner.
func (k *kafka) initProducer(p *transactional, epoch int16, by *life) (code int16, next any) {
	if by != p.life && epoch < 0 {
		k.fencing(p, by)
	}
	switch {
	case p.now != nil && p.now.state == ongoing:
		k.fence(p)
		return concurrent, nil
	case p.now != nil:
		return concurrent, nil
	case epoch < 0:
		if by == p.life && p.fenced {
			k.w.fail("%s takes back its transactional id, of which it was fenced", p.life.name)
		}
		p.epoch, p.last = p.epoch+1, -1
	case epoch == p.epoch:
		p.epoch, p.last = p.epoch+1, p.epoch
	case epoch != p.last:
		return producerFenced, nil
	}
	return 0, p.epoch
}

// fencing is the moment in which a new owner fences a former one.
//
// INVARIANT: that one has lost its membership, or left.
func (k *kafka) fencing(p *transactional, by *life) {
	if !p.fenced {
		k.w.tally.Fences++
		k.w.note("kafka: %s fences %s", by.name, p.life.name)
	}
	if l := p.life; !l.left && !k.fenced(l) {
		k.w.fail("%s fences %s, which is in the group", by.name, l.name)
	}
	p.fenced = true
}

// fence aborts what is ongoing under the next epoch. Its owner may still ask for that one: who fences for good
// asks until there is one more.
func (k *kafka) fence(p *transactional) {
	p.epoch, p.last = p.epoch+1, p.epoch
	k.decide(p.now, false)
}

// addToTxn is AddPartitionsToTxn and AddOffsetsToTxn. It begins a transaction where none is.
func (k *kafka) addToTxn(p *transactional, epoch int16, logs []*changelog) int16 {
	x := p.now
	switch {
	case epoch != p.epoch:
		return producerFenced
	case x != nil && x.state != ongoing:
		return concurrent
	case x == nil:
		x = &txn{of: p, epoch: epoch}
		p.now = x
		k.w.tally.Transactions++
		k.w.after(transactionTimeout, func() {
			if p.now == x && x.state == ongoing {
				k.w.note("kafka: a transaction of %s has timed out", p.life.name)
				k.w.tally.TimedOut++
				p.fenced = true
				k.fence(p)
			}
		})
	}
	x.offsets = true
	for _, l := range logs {
		if !x.has(l) {
			x.logs = append(x.logs, l)
		}
	}
	return 0
}

// endTxn is EndTxn.
func (k *kafka) endTxn(p *transactional, epoch int16, commit bool) int16 {
	wants := aborting
	if commit {
		wants = committing
	}
	switch x := p.now; {
	case epoch != p.epoch:
		return producerFenced
	case x != nil && x.state == ongoing:
		k.decide(x, commit)
		return 0
	case x != nil && x.state == wants:
		return concurrent
	case x == nil && p.before != nil && p.before.state == wants:
		return 0
	}
	return invalidState
}

// decide ends a transaction. Nothing changes that any more; its markers follow.
func (k *kafka) decide(x *txn, commit bool) {
	x.state, x.ended = aborting, x.of.epoch
	if commit {
		x.state = committing
	}
	if k.w.opt.Record {
		k.w.note("kafka: the transaction of %s is committed: %v", x.of.life.name, commit)
	}
	for _, u := range x.units {
		k.visible(x, u)
	}
	for _, l := range x.logs {
		k.fold(l)
	}
	if commit {
		for _, o := range x.pending {
			k.positioned(o)
		}
	}
	x.left = len(x.logs)
	for _, l := range x.logs {
		k.whenMarked(func() { k.mark(l, x); k.marked(x) })
	}
	if x.offsets {
		x.left++
		k.whenMarked(func() { k.markOffsets(x) })
	}
	if x.left == 0 {
		x.of.now, x.of.before = nil, x
	}
}

// whenMarked is when a marker lands. Some are held back for long.
func (k *kafka) whenMarked(do func()) {
	delay := k.w.between(0, 12*time.Millisecond)
	if k.w.chance(0.08) {
		delay = k.w.between(0, time.Second)
	}
	if k.w.now < k.heldBack {
		delay += k.heldBack - k.w.now
	}
	k.w.after(delay, do)
}

func (k *kafka) marked(x *txn) {
	if x.left--; x.left == 0 {
		x.of.now, x.of.before = nil, x
	}
}

// visible looks at a commit whose transaction is decided.
//
// INVARIANT: what was answered aborted never becomes visible.
func (k *kafka) visible(x *txn, u *unit) {
	if x.state != committing {
		return
	}
	if u.aborted {
		k.w.fail("%s: commit %d was answered as aborted, and it is committed", u.e.Task, u.commit)
	}
	u.visible = true
}

// positioned is a position whose transaction is committed.
func (k *kafka) positioned(o pending) {
	k.w.tally.Commits++
	if o.order < o.t.order { // a plain one was written since
		k.checkWhole(o.t)
		return
	}
	if o.at < o.t.position {
		k.w.fail("%s: a transaction of %s takes the position back from %d to %d", o.t.id, o.claim.by.name, o.t.position, o.at)
	}
	o.t.claim, o.t.position, o.t.order = o.claim, o.at, o.order
	k.checkWhole(o.t)
}

// checkWhole compares the position of a task with its changelogs.
//
// INVARIANT: positions and changelogs go on together.
func (k *kafka) checkWhole(t *truth) {
	for _, table := range t.claim.tables {
		if l := t.log(table); l.begun && l.decided == l.end() && l.seen() != t.position {
			k.w.fail("%s: position %d is committed, and %s has the effects of the records before %d", t.id, t.position, table, l.seen())
		}
	}
}

// undecided says whether a life has records in the changelogs of a task, or positions, that may become visible yet.
func (k *kafka) undecided(t *truth, by *life) bool {
	p := k.producers[by]
	if p == nil || p.now == nil || p.now.state != ongoing {
		return false
	}
	for _, o := range p.now.pending {
		if o.t == t {
			return true
		}
	}
	for _, l := range t.logs {
		if slices.ContainsFunc(l.open, func(o opened) bool { return o.txn == p.now }) {
			return true
		}
	}
	return false
}
