package groupsim

import (
	"time"

	"github.com/pillion/pillion/internal/groupmodel"
	"github.com/pillion/pillion/session"
)

// txnOffsets is TxnOffsetCommit as it is sent.
type txnOffsets struct {
	of    *transactional
	epoch int16
	unit  *unit
	req   groupmodel.TxnOffsetCommit
}

// verifyOffsets is what the group's coordinator looks at before it looks at the member.
func (k *kafka) verifyOffsets(r txnOffsets) int16 {
	x := r.of.now
	if x != nil && x.epoch == r.epoch && !x.marked && len(x.pending) > 0 {
		return 0
	}
	return r.of.verify(r.epoch, func(x *txn) bool { return x.offsets })
}

// acceptedInTxn are positions that count when their transaction is committed.
//
// INVARIANT: none comes from a former owner, and all writes that belong to them are there.
func (k *kafka) acceptedInTxn(r txnOffsets) {
	x := r.of.now
	x.units = append(x.units, r.unit)
	for p, o := range r.req.Offsets {
		t := k.tasks[session.TaskID{Set: p.Topic, Partition: p.Index}]
		c := k.parse(o.Metadata)
		if c.takeOver < t.claim.takeOver && c.by != t.claim.by {
			k.w.fail("%s: positions of %s were accepted, and since then %s has taken the task over", t.id, c.by.name, t.claim.by.name)
		}
		for _, table := range c.tables {
			if l := t.log(table); o.At > l.top {
				k.w.fail("%s: %s sends position %d, and the effect of record %d is not in %s", t.id, c.by.name, o.At, l.top, table)
			}
		}
		k.placed++
		next := pending{t, c, o.At, k.placed}
		x.pending = append(x.pending, next)
		if x.state == committing { // sent long ago
			k.positioned(next)
		}
	}
}

// markOffsets is the marker in the group's own topic; it waits for a coordinator.
func (k *kafka) markOffsets(x *txn) {
	again := func() { k.w.after(100*time.Millisecond, func() { k.markOffsets(x) }) }
	if k.w.now < k.away {
		again()
		return
	}
	k.ask(groupmodel.EndTxn{Transaction: x.of.life.name, Commit: x.state == committing}, func(a groupmodel.Answer) {
		if a.Code != groupmodel.OK {
			again()
			return
		}
		x.marked = true
		k.marked(x)
	})
}
