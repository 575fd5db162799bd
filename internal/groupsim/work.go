package groupsim

import (
	"time"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/session"
)

// receive takes what the sidecar sends, in the order of the wire.
func (wk *worker) receive(it item) {
	if it.frame != nil {
		wk.frame(it)
		return
	}
	if wk.w.opt.Record {
		wk.w.note("%s: hears %s", wk.name, say(it.message))
	}
	switch m := it.message.(type) {
	case protocol.Assign:
		wk.assigned(m)
	case protocol.Restored:
		if t := wk.task(m.Task, m.Epoch); t != nil {
			wk.later(t, 20*time.Millisecond, func() {
				t.ready = true
				wk.say(protocol.Ready{Re: m.ID, Task: m.Task, Epoch: m.Epoch})
			})
		}
	case protocol.Promoted:
		wk.promoted(m)
	case protocol.Demoted:
		wk.demoted(m)
	case protocol.Revoke:
		wk.revoked(m)
	case protocol.Lost:
		if t := wk.task(m.Task, m.Epoch); t != nil {
			wk.forget(t)
		}
		if m.Code == protocol.CodeHung && wk.w.opt.Mutant != SilentAfterHung {
			wk.say(protocol.Progress{}) // else it may owe nothing, and the sidecar would wait for ever
		}
	case protocol.Reset:
		wk.reset(m)
	case protocol.Committed:
		wk.committed(m)
	case protocol.Aborted:
		if m.Code == protocol.CodeForeignWrite {
			wk.w.fail("%s: somebody else is said to have written to a changelog of %s", wk.name, m.Task)
		}
		wk.uncommitted(m.Task, m.Epoch, m.Re)
	case protocol.Stale:
		wk.uncommitted(m.Task, m.Epoch, m.Re)
	case protocol.Unknown:
		if m.Code == protocol.CodeForeignWrite && wk.w.exact {
			wk.w.fail("%s: somebody else is said to have written to a changelog of %s", wk.name, m.Task)
		}
		wk.uncommitted(m.Task, m.Epoch, m.Re)
	case protocol.Error:
		if m.Code == protocol.CodeLostState { // no member that declares the table was there for a while
			wk.w.tally.Refused++
			return
		}
		wk.w.fail("%s: the sidecar says %s: %s", wk.name, m.Code, m.Message)
	}
}

func (wk *worker) task(name string, epoch uint32) *wtask {
	if t := wk.tasks[name]; t != nil && t.epoch == epoch {
		return t
	}
	return nil
}

func (wk *worker) forget(t *wtask) {
	t.over = true
	delete(wk.tasks, t.name)
}

// later does something of a task, while it is open.
func (wk *worker) later(t *wtask, most time.Duration, do func()) {
	wk.after(wk.w.between(0, most), func() {
		if !t.over && wk.conn == t.conn {
			do()
		}
	})
}

func (wk *worker) assigned(m protocol.Assign) {
	if was := wk.tasks[m.Task]; was != nil {
		wk.w.fail("%s: %s is assigned in epoch %d while epoch %d is not over", wk.name, m.Task, m.Epoch, was.epoch)
	}
	t := &wtask{
		id: session.TaskID{Set: m.Set, Partition: m.Partition}, name: m.Task, epoch: m.Epoch, role: m.Role, conn: wk.conn,
	}
	wk.tasks[m.Task] = t
	wk.streams(t, m.Sources, m.Tables)
	wk.later(t, 30*time.Millisecond, func() {
		points := map[string]*string{}
		for _, tb := range t.tables {
			points[tb.Name] = nil
			if tb.store.pos > 0 {
				point := checkpoint(tb.store.pos)
				points[tb.Name] = &point
			}
		}
		wk.say(protocol.Opened{Re: m.ID, Task: m.Task, Epoch: m.Epoch, Checkpoints: points})
	})
}

func (wk *worker) streams(t *wtask, sources []protocol.SourceStream, tables []protocol.TableStream) {
	t.tables = nil
	for _, ts := range tables {
		key := storeKey{t.id, ts.Name}
		if wk.disk[key] == nil {
			wk.disk[key] = &store{rows: map[int32]int64{}, log: wk.w.kafka.tasks[t.id].log(ts.Name)}
		}
		t.tables = append(t.tables, &wtable{ts, wk.disk[key]})
	}
	if len(sources) > 0 {
		t.source, t.have, t.next = sources[0], sources[0].Position, sources[0].Position
	}
}

// promoted: what was a copy is ours now.
func (wk *worker) promoted(m protocol.Promoted) {
	t := wk.tasks[m.Task]
	if t == nil || t.role != protocol.RoleStandby || t.epoch >= m.Epoch {
		wk.w.fail("%s: %s is promoted to epoch %d, and it is %+v", wk.name, m.Task, m.Epoch, t)
	}
	t.role, t.epoch = protocol.RoleActive, m.Epoch
	wk.streams(t, m.Sources, m.Tables)
	wk.later(t, 20*time.Millisecond, func() {
		if t.epoch == m.Epoch {
			t.ready = true
			wk.say(protocol.Ready{Re: m.ID, Task: m.Task, Epoch: m.Epoch})
		}
	})
}

// demoted: what was ours is a copy now. INVARIANT: there is nothing for the worker to lose.
func (wk *worker) demoted(m protocol.Demoted) {
	t := wk.tasks[m.Task]
	if t == nil || t.role != protocol.RoleActive || t.epoch >= m.Epoch {
		wk.w.fail("%s: %s is demoted to epoch %d, and it is %+v", wk.name, m.Task, m.Epoch, t)
	}
	if t.have != t.next || len(t.outstanding) > 0 || t.busy || t.failed {
		wk.w.fail("%s: %s is demoted with records or commits under way: %+v", wk.name, m.Task, t)
	}
	t.role, t.epoch, t.ready, t.source = protocol.RoleStandby, m.Epoch, false, protocol.SourceStream{}
	wk.streams(t, nil, m.Tables)
}

func (wk *worker) reset(m protocol.Reset) {
	t := wk.task(m.Task, m.Epoch)
	if t == nil {
		return
	}
	for _, tb := range t.tables {
		if tb.Name == m.Table {
			tb.store.pos, tb.store.hash = 0, 0
			clear(tb.store.rows)
		}
	}
	t.ready = false
	wk.later(t, 10*time.Millisecond, func() {
		wk.say(protocol.Opened{Re: m.ID, Task: m.Task, Epoch: m.Epoch, Checkpoints: map[string]*string{m.Table: nil}})
	})
}

// frame applies rows, or takes records.
func (wk *worker) frame(it item) {
	f := it.frame
	for _, t := range wk.tasks {
		if t.epoch != f.epoch {
			continue
		}
		if f.records {
			wk.records(t, f)
			break
		}
		for _, tb := range t.tables {
			if tb.Stream == f.stream {
				wk.restore(t, tb, f)
			}
		}
	}
	wk.after(wk.w.between(0, 3*time.Millisecond), func() {
		if wk.conn != nil && wk.conn.s.lanes != nil {
			wk.credit(it)
		}
	})
}

func (wk *worker) restore(t *wtask, tb *wtable, f *frame) {
	st := tb.store
	if f.base != st.pos {
		wk.w.fail("%s: a frame of %s, table %s, begins at %d, and its store is at %d", wk.name, t.name, tb.Name, f.base, st.pos)
	}
	for _, r := range f.log.recs[f.base:f.next] {
		if r.visible() && (wk.w.opt.Mutant != MissesRow || t.role != protocol.RoleStandby || r.value%7 != 6) {
			st.put(r.key, r.value)
		}
	}
	st.pos = f.next
	wk.check(t, tb)
}

func (st *store) put(key int32, value int64) {
	if old, ok := st.rows[key]; ok {
		st.hash ^= mix(key, old)
	}
	st.rows[key] = value
	st.hash ^= mix(key, value)
}

// check compares a store with the log.
//
// INVARIANT: a store's rows equal the log at its position, and it is never ahead of the log.
func (wk *worker) check(t *wtask, tb *wtable) {
	st := tb.store
	if st.pos > st.log.decided {
		wk.w.fail("%s: the store of %s, table %s, is at %d, and its log ends at %d", wk.name, t.name, tb.Name, st.pos, st.log.decided)
	}
	if st.hash != st.log.at(st.pos) {
		wk.w.fail("%s: the rows of %s, table %s, are not those of the log at %d", wk.name, t.name, tb.Name, st.pos)
	}
}

// records are source records.
//
// INVARIANT: none is delivered before all tables have reached the ends captured by the take-over.
func (wk *worker) records(t *wtask, f *frame) {
	wk.w.tally.Records += int(f.next - f.base)
	ends := wk.w.kafka.endsOf[wk.p.sidecar.takes[t.epoch]]
	for _, tb := range t.tables {
		if end, ok := ends[tb.Name]; ok && tb.store.pos < end {
			wk.w.fail("%s: records of %s, and the store of %s is at %d of %d", wk.name, t.name, tb.Name, tb.store.pos, end)
		}
	}
	if !t.ready {
		wk.w.fail("%s: records of %s before it has said ready", wk.name, t.name)
	}
	if f.base != t.have {
		wk.w.fail("%s: records of %s begin at %d, and those before ended at %d", wk.name, t.name, f.base, t.have)
	}
	t.have = f.next
	wk.process(t)
}

const keys = 5

// process works on what is there, and commits it: at most two commits at a time.
func (wk *worker) process(t *wtask) {
	if t.busy || t.failed || t.next >= t.have || len(t.outstanding) >= 2 || t.revoke != 0 {
		return
	}
	t.busy = true
	wk.later(t, 60*time.Millisecond, func() {
		t.busy = false
		wk.commit(t)
		wk.process(t)
		wk.release(t)
	})
}

func (wk *worker) commit(t *wtask) {
	if t.failed || t.next >= t.have || len(t.outstanding) >= 2 {
		return
	}
	next := min(t.have, t.next+1+int64(wk.w.rng.IntN(4)))
	wk.lastID++
	c := &wcommit{id: wk.lastID, next: next}
	for o := t.next; o < next; o++ {
		c.rows = append(c.rows, write{int32(o % keys), o})
	}
	t.outstanding = append(t.outstanding, c)
	t.next = next
	if wk.w.opt.Mutant == AheadOfKafka {
		wk.apply(t, c, nil)
	}
	wk.sayWith(protocol.Commit{ID: c.id, Task: t.name, Epoch: t.epoch, SourceNext: map[string]int64{t.source.Topic: next}},
		wk.encode(t, c.id, c.rows), t)
}

func (wk *worker) committed(m protocol.Committed) {
	t := wk.task(m.Task, m.Epoch)
	if t == nil {
		return
	}
	wk.answered(t, m.Re)
	c := t.outstanding[0]
	t.outstanding = t.outstanding[1:]
	if wk.w.opt.Mutant != AheadOfKafka {
		wk.apply(t, c, m.Checkpoints)
	}
	wk.process(t)
	wk.release(t)
}

// apply takes the rows and the checkpoint of a commit into the stores.
func (wk *worker) apply(t *wtask, c *wcommit, points map[string]string) {
	for _, tb := range t.tables {
		for _, r := range c.rows {
			tb.store.put(r.key, r.value)
		}
		tb.store.pos += int64(len(c.rows))
		if at, ok := points[tb.Name]; ok {
			tb.store.pos = position(at)
		}
		wk.check(t, tb)
	}
}

// answered: commits are answered in their order.
func (wk *worker) answered(t *wtask, re int64) {
	if len(t.outstanding) == 0 || t.outstanding[0].id != re {
		wk.w.fail("%s: commit %d of %s is answered, and that is not the oldest of %d", wk.name, re, t.name, len(t.outstanding))
	}
}

func (wk *worker) uncommitted(task string, epoch uint32, re int64) {
	t := wk.task(task, epoch)
	if t == nil {
		return
	}
	wk.answered(t, re)
	t.outstanding = t.outstanding[1:]
	t.failed = true
	wk.release(t)
}

func (wk *worker) revoked(m protocol.Revoke) {
	t := wk.task(m.Task, m.Epoch)
	if t == nil {
		return
	}
	if wk.sullen > 0 {
		wk.sullen--
		wk.w.note("%s: does not answer the revoke of %s", wk.name, m.Task)
		return
	}
	wk.later(t, []time.Duration{20 * time.Millisecond, 1500 * time.Millisecond}[wk.w.rng.IntN(5)/4], func() {
		if !t.busy && t.ready {
			wk.commit(t) // the last one
		}
		t.revoke = m.ID
		wk.release(t)
	})
}

// release gives a task back behind its last commit. The answers to its commits may come later.
func (wk *worker) release(t *wtask) {
	switch {
	case t.revoke == 0 || t.busy || t.over:
		return
	case t.revoke == released && (len(t.outstanding) == 0 || t.failed):
		wk.forget(t)
		return
	case t.revoke == released:
		return
	}
	wk.say(protocol.Released{Re: t.revoke, Task: t.name, Epoch: t.epoch})
	t.revoke = released
	wk.release(t)
}

// released stands in place of a revoke that was answered.
const released = -1

// complain says that something is wrong with a task.
func (wk *worker) complain() {
	for _, id := range wk.w.kafka.order {
		name := id.id.String()
		if t := wk.tasks[name]; t != nil && wk.w.chance(0.5) {
			wk.w.note("%s: complains of %s", wk.name, name)
			wk.say(protocol.Error{Code: protocol.CodeOffsetMismatch, Task: name, Epoch: t.epoch, Message: "gap"})
			return
		}
	}
}
