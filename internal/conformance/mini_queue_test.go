package conformance

import (
	"slices"

	"github.com/gorilla/websocket"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// takeBefore makes a new epoch known that waits in the queue, when a message names it already.
func (w *mini) takeBefore(m protocol.Message) {
	task, epoch := named(m)
	if w.is("waits-for-queued-epochs") {
		return
	}
	at := slices.IndexFunc(w.queue, func(q queued) bool {
		switch p := q.message.(type) {
		case protocol.Promoted:
			return p.Task == task && p.Epoch == epoch
		case protocol.Demoted:
			return p.Task == task && p.Epoch == epoch
		}
		return false
	})
	if at < 0 {
		return
	}
	var keep, take []queued
	for i, q := range w.queue {
		if i <= at && w.taskOf(q) == task {
			take = append(take, q)
		} else {
			keep = append(keep, q)
		}
	}
	w.queue = keep
	for _, q := range take {
		w.take(q)
	}
}

func named(m protocol.Message) (string, uint32) {
	switch m := m.(type) {
	case protocol.Revoke:
		return m.Task, m.Epoch
	case protocol.Lost:
		return m.Task, m.Epoch
	case protocol.Reset:
		return m.Task, m.Epoch
	}
	return "", 0
}

func (w *mini) taskOf(q queued) string {
	switch m := q.message.(type) {
	case protocol.Restored:
		return m.Task
	case protocol.Promoted:
		return m.Task
	case protocol.Demoted:
		return m.Task
	}
	if s := w.streams[q.frame.Stream]; s != nil {
		return s.task.name
	}
	return ""
}

// workOne lets the application take the first of the queue that may go.
func (w *mini) workOne() bool {
	for i, q := range w.queue {
		if q.frame != nil && q.frame.Kind == frame.Records {
			s := w.streams[q.frame.Stream]
			if s != nil && living(s.task) && w.held(s.task) {
				continue
			}
		}
		w.queue = slices.Delete(slices.Clone(w.queue), i, i+1)
		w.take(q)
		w.grant(false)
		return true
	}
	return false
}

func (w *mini) held(t *miniTask) bool {
	if w.is("revoke-takes-all") {
		return false
	}
	for _, other := range w.tasks {
		if w.is("waits-for-all-restores") && other.state == "restoring" {
			return true
		}
	}
	if t.outstanding >= w.welcome.Limits.MaxOutstandingCommits && !w.is("too-many-commits") || len(w.out) > 0 && !w.is("mixes-commits") {
		return true
	}
	if w.is("processes-while-reset") {
		return false
	}
	if t.holding {
		return true
	}
	for _, g := range w.tasks {
		if g.role == protocol.RoleGlobal && living(g) && g.holding {
			return true
		}
	}
	return false
}

func living(t *miniTask) bool { return t != nil && t.state != "over" }

func (w *mini) take(q queued) {
	switch m := q.message.(type) {
	case protocol.Restored:
		w.takeRestored(m, q.resets)
	case protocol.Promoted:
		w.takePromoted(m)
	case protocol.Demoted:
		w.takeDemoted(m)
	default:
		w.takeFrame(q.frame, q.size)
	}
}

func (w *mini) takeFrame(f *frame.Frame, size int64) {
	s := w.streams[f.Stream]
	stale := s == nil || slices.Contains([]string{"over", "revoking", "released", "failed"}, s.task.state) || f.Epoch != s.task.epoch || s.refused
	if !w.is("grants-on-arrival") && !(stale && w.is("stale-without-credit")) && !(f.Kind == frame.Restore && w.is("restore-without-credit")) {
		w.took(s, size)
	}
	if stale {
		return
	}
	if w.is("empty-frame-ignored") && f.Count == 0 {
		return
	}
	if s.next >= 0 && f.Base != s.next && !w.is("no-offset-check") {
		s.refused = true
		w.say(protocol.Error{Code: protocol.CodeOffsetMismatch, Message: "gap", Task: s.task.name, Epoch: f.Epoch, Stream: s.id})
		return
	}
	s.next = f.Next
	s.task.framed = true
	if s.task.state == "running" && f.Kind == frame.Restore && w.is("tables-frozen") {
		return
	}
	if f.Kind == frame.Restore {
		w.apply(s, f)
	} else if s.task.state == "running" {
		w.process(s.task, s.name, f)
	}
}

func (w *mini) apply(s *miniStream, f *frame.Frame) {
	rows := map[string]*[]byte{}
	for r := range f.Records {
		if r.Key == nil && !w.is("null-is-empty") {
			continue
		}
		v := r.Value
		rows[string(r.Key)] = &v
		if r.Value == nil {
			rows[string(r.Key)] = nil
			if w.is("null-is-empty") {
				rows[string(r.Key)] = &[]byte{}
			}
		}
	}
	for k := range rows {
		if s.task.stores[s.name].get(k) != nil && w.is("first-value-kept") {
			delete(rows, k)
		}
	}
	if w.is("tombstones-last") { // all deletions of a frame behind its values
		for r := range f.Records {
			if r.Value == nil {
				rows[string(r.Key)] = nil
			}
		}
	}
	s.task.stores[s.name].change(rows, string(f.Checkpoint()))
}

func (w *mini) takeRestored(m protocol.Restored, resets int) {
	t := w.tasks[m.Task]
	if !living(t) || t.epoch != m.Epoch || t.state == "revoking" || t.state == "failed" {
		return
	}
	if !t.framed && w.is("ready-needs-frames") {
		return
	}
	if resets == t.resets {
		t.holding = false
	}
	t.state = "running"
	w.say(protocol.Ready{Re: m.ID, Task: t.name, Epoch: t.epoch})
	if w.is("ready-twice") {
		w.say(protocol.Ready{Re: m.ID, Task: t.name, Epoch: t.epoch})
	}
	for _, c := range w.again {
		if c.task.name == t.name {
			w.sendAgain(t, c)
		}
	}
}

// sendAgain is a mistake: the commit may be there already.
func (w *mini) sendAgain(t *miniTask, c *miniCommit) {
	w.again = nil
	id := w.id()
	for name := range t.ids {
		if t.kinds[name] == protocol.TableChangelog {
			w.out = append(w.out, w.writes(t, t.ids[name], id, recordsOf(c.rows))...)
		}
	}
	w.out = append(w.out, w.writes(t, t.ids["> changes"], id, c.out)...)
	end := protocol.Commit{ID: id, Task: t.name, Epoch: t.epoch, SourceNext: t.next}
	w.out = append(w.out, outgoing{task: t, commit: &end})
	w.commits[id] = &miniCommit{task: t, rows: c.rows}
	t.outstanding++
}

func (w *mini) takePromoted(m protocol.Promoted) {
	old := w.tasks[m.Task]
	if !living(old) {
		return
	}
	t := w.newTask(m.Task, old.set, old.partition, protocol.RoleActive, m.Epoch, m.Sources, m.Tables, m.Outputs)
	if !old.framed && w.is("ready-needs-frames") {
		return
	}
	t.stores, t.state, t.promoted = old.stores, "running", true
	if w.is("promoted-empty") {
		for _, s := range t.stores {
			s.wipe()
		}
	}
	w.say(protocol.Ready{Re: m.ID, Task: t.name, Epoch: t.epoch})
}

func (w *mini) takeDemoted(m protocol.Demoted) {
	old := w.tasks[m.Task]
	if !living(old) {
		return
	}
	w.dropQueued(func(q queued) bool {
		return q.frame != nil && w.streams[q.frame.Stream] != nil && w.streams[q.frame.Stream].task == old
	})
	t := w.newTask(m.Task, old.set, old.partition, protocol.RoleStandby, m.Epoch, nil, m.Tables, nil)
	if w.is("demoted-closes") {
		t.state = "over"
		return
	}
	t.stores, t.state = old.stores, "restoring"
	if w.is("demoted-keeps-pending") {
		for _, layer := range old.layers {
			t.stores["counts"].change(layer, "")
		}
	}
}

func (w *mini) newTask(name, set string, partition int32, role protocol.Role, epoch uint32, sources []protocol.SourceStream, tables []protocol.TableStream, outputs []protocol.OutputStream) *miniTask {
	if old := w.tasks[name]; old != nil {
		old.state = "over"
	}
	t := &miniTask{name: name, set: set, partition: partition, role: role, epoch: epoch, state: "opening", next: map[string]int64{}, told: map[string]int64{},
		stores: map[string]*miniStore{}, kinds: map[string]protocol.TableKind{}, ids: map[string]*miniStream{}}
	w.tasks[name] = t
	for _, s := range sources {
		w.streams[s.Stream] = &miniStream{id: s.Stream, task: t, name: s.Topic, records: true, next: s.Position}
		t.next[s.Topic], t.told[s.Topic] = s.Position, s.Position
	}
	for _, s := range tables {
		t.kinds[s.Name] = s.Kind
		t.ids[s.Name] = &miniStream{id: s.Stream, task: t, name: s.Name, next: -1, limit: w.welcome.Credit.Stream}
		w.streams[s.Stream] = t.ids[s.Name]
	}
	for _, s := range outputs {
		t.ids["> "+s.Topic] = &miniStream{id: s.Stream, task: t, name: s.Topic, limit: w.welcome.Credit.Stream}
		w.streams[s.Stream] = t.ids["> "+s.Topic]
	}
	return t
}

func (w *mini) took(s *miniStream, n int64) {
	w.taken += n
	if s != nil {
		s.taken += n
		w.due[s.id] = s
	}
}

// grant raises limits: past a threshold, or all that is due.
func (w *mini) grant(all bool) {
	if all && w.is("grants-past-threshold") {
		all = false
	}
	limit := w.taken + windowConnection
	if limit == w.granted || !all && limit-w.granted < windowConnection/4 {
		return
	}
	m := protocol.Credit{Connection: limit, Streams: map[uint32]int64{}}
	for id, s := range w.due {
		m.Streams[id] = s.taken + windowStream
	}
	w.granted, w.due = limit, map[uint32]*miniStream{}
	w.say(m)
}

func (w *mini) dropQueued(which func(queued) bool) {
	for _, q := range w.queue {
		if which(q) && q.frame != nil && !w.is("stale-without-credit", "grants-on-arrival") {
			w.took(w.streams[q.frame.Stream], q.size)
		}
	}
	w.queue = slices.DeleteFunc(w.queue, which)
}

// sendOne sends the first thing that waits, when credit allows it.
func (w *mini) sendOne() bool {
	if len(w.out) == 0 {
		return false
	}
	o := w.out[0]
	if o.task.state == "over" || o.task.state == "failed" {
		if w.is("stuck-behind-lost") {
			return false
		}
		w.out = w.out[1:]
		if o.commit != nil {
			delete(w.commits, o.commit.ID)
		}
		return true
	}
	if o.data != nil {
		if (o.stream.sent >= o.stream.limit || w.sent >= w.limit) && !w.is("credit-ignored") {
			return false
		}
		o.stream.sent, w.sent = o.stream.sent+int64(len(o.data)), w.sent+int64(len(o.data))
	}
	w.out = w.out[1:]
	switch {
	case o.data != nil:
		_ = w.ws.WriteMessage(websocket.BinaryMessage, o.data)
	case o.commit != nil:
		w.say(*o.commit)
	default:
		w.say(o.tell)
		o.task.state = "released"
		if o.task.outstanding == 0 {
			w.over(o.task)
		}
	}
	return true
}
