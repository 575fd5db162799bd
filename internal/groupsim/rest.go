package groupsim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pillion/pillion/internal/groupmodel"
	"github.com/pillion/pillion/protocol"
)

// settled: every task has one owner, who has worked off all records, and nothing is under way.
func (w *World) settled() bool {
	k := w.kafka
	list := w.living()
	if k.group.State() != groupmodel.Stable || len(k.group.Members()) != len(list) {
		return false
	}
	for _, t := range k.order {
		if t.position != t.end || t.claim.released {
			return false
		}
	}
	for _, p := range list {
		if m := p.sidecar.member; m.phase != stable || m.id.generation != k.group.Generation() || len(m.warm.plan) > 0 {
			return false
		}
	}
	return w.unrest() == ""
}

// unrest says what has not come to rest.
func (w *World) unrest() string {
	var b strings.Builder
	if w.kafka.group.State() != groupmodel.Stable {
		fmt.Fprintf(&b, "the group is %s; ", w.kafka.group.State())
	}
	if in, want := len(w.kafka.group.Members()), len(w.living()); in != want {
		fmt.Fprintf(&b, "the group has %d members, not %d; ", in, want)
	}
	for _, p := range w.living() {
		m := p.sidecar.member
		if m.phase != stable || m.id.generation != w.kafka.group.Generation() || m.follow != never || m.warm.due != never || len(m.warm.plan) > 0 || p.sidecar.machine.Status().Commits > 0 {
			fmt.Fprintf(&b, "%s is not at rest; ", p.sidecar.name)
		}
	}
	open := 0
	for _, p := range w.kafka.producers {
		if p.now != nil {
			open++
		}
	}
	if open > 0 {
		fmt.Fprintf(&b, "%d transactions are open; ", open)
	}
	for _, t := range w.kafka.order {
		var owners []string
		for _, p := range w.living() {
			if p.owns(t) {
				owners = append(owners, p.name)
			}
		}
		standbys := 0
		for _, p := range w.living() {
			if p.shadows(t) {
				standbys++
			}
		}
		if want := min(w.replicas, len(w.living())-1); standbys > want || standbys < want && w.alike() {
			fmt.Fprintf(&b, "%s has %d standbys that have caught up, not %d; ", t.id, standbys, want)
		}
		if len(owners) != 1 || t.position != t.end || t.claim.released {
			fmt.Fprintf(&b, "%s is worked on by %v, and committed up to %d of %d; ", t.id, owners, t.position, t.end)
		}
	}
	if least, most := w.spread(); most-least > 1 && w.alike() {
		fmt.Fprintf(&b, "one has %d tasks and another %d; ", least, most)
	}
	if b.Len() > 0 {
		for _, p := range w.living() {
			fmt.Fprintf(&b, "%s: %+v; ", p.sidecar.name, p.sidecar.machine.Status())
		}
	}
	return b.String()
}

// spread is the least and the most tasks that one has.
func (w *World) spread() (least, most int) {
	least = len(w.kafka.order)
	for _, p := range w.living() {
		n := 0
		for _, t := range w.kafka.order {
			if p.owns(t) {
				n++
			}
		}
		least, most = min(least, n), max(most, n)
	}
	return least, most
}

// alike: all declare the same. Otherwise who may have a copy is up to the claims of when the plan was made.
func (w *World) alike() bool {
	list := w.living()
	return !slices.ContainsFunc(list, func(p *pair) bool { return p.worker.declares != list[0].worker.declares })
}

// owns: the worker has the task open as its active, and the group knows it.
func (p *pair) owns(t *truth) bool {
	open := p.worker.tasks[t.id.String()]
	mine := p.sidecar.member.owned[t.id]
	return open != nil && open.role == protocol.RoleActive && open.ready && len(open.outstanding) == 0 &&
		mine != nil && mine.active && mine.taken && t.claim.by == p.sidecar.member.id.life
}

// shadows: the worker keeps a copy that has caught up.
func (p *pair) shadows(t *truth) bool {
	open := p.worker.tasks[t.id.String()]
	if open == nil || open.role != protocol.RoleStandby {
		return false
	}
	for _, tb := range open.tables {
		if tb.store.pos != tb.store.log.end() {
			return false
		}
	}
	return true
}

// rest waits until everything has come to rest, and stays so for a while.
//
// INVARIANT: when the faults have ended, that is within settleWithin.
func (w *World) rest() {
	for until := w.now + settleWithin; ; {
		if !w.pass(until, w.polled(w.settled)) {
			w.fail("the group does not come to rest within %s: %s", settleWithin, w.unrest())
		}
		if w.pass(w.now+2*time.Second, nil); w.settled() {
			return
		}
	}
}
