package session

import (
	"maps"
	"slices"
	"strconv"

	"github.com/pillion/pillion/protocol"
)

// tables is Kafka's logs of tables, the stores of the worker, and what is on its way between them. A log is
// as many records as were ever written; a store is how many of them it has: it takes them in their order
// or not at all.
type tables struct {
	logs    map[tableOf]int64
	stores  map[tableOf]int64 // they outlive connections
	ends    map[TaskID]map[string]int64
	replays map[uint32]*simReplay
	queue   []queued // data on its way to the worker
	closed  map[uint32]bool
	given   map[uint32]*received // streams that the worker knows
}

type tableOf struct{ task, table string }

// simReplay is one replay. What it says stays in its order, and may be heard late.
type simReplay struct {
	e       StartRestore
	next    int64
	end     int64 // to be reached
	asked   int64 // as it was asked for
	follow  bool
	reached bool
	over    bool
	paused  bool // another stream goes on where it was
	says    []Event
}

// queued is a frame, or a message in the stream.
type queued struct {
	stream     uint32
	base, next int64
	message    protocol.Message
}

// received is a table's stream as the worker sees it.
type received struct {
	table tableOf
	epoch uint32
	next  int64 // -1: anything
}

func newTables() tables {
	return tables{
		logs: map[tableOf]int64{}, stores: map[tableOf]int64{}, ends: map[TaskID]map[string]int64{}, replays: map[uint32]*simReplay{},
		closed: map[uint32]bool{}, given: map[uint32]*received{},
	}
}

func (w *world) startReplay(e StartRestore) {
	table := tableOf{e.Task.String(), e.Table.Name}
	r := &simReplay{e: e, end: e.End, asked: e.End, follow: e.Follow}
	own := e.Table.Kind == protocol.TableChangelog
	switch {
	case e.Copy && e.End != NoEnd, own && !e.Copy && e.End != w.ends[e.Task][e.Table.Name]:
		w.fail("table %s of %s is replayed to %d: the take-over found %d", e.Table.Name, e.Task, e.End, w.ends[e.Task][e.Table.Name])
	case e.Copy || !own:
		r.end = w.logs[table]
	}
	if e.From != 0 {
		was := w.replays[e.From]
		if was == nil {
			w.fail("the replay of stream %d, which is none, is to go on", e.From)
		}
		was.paused, r.next = true, was.next
	}
	if e.Checkpoint != "" {
		r.next, _ = strconv.ParseInt(e.Checkpoint, 10, 64)
	}
	w.replays[e.Table.Stream] = r
	delete(w.closed, e.Table.Stream)
}

// closeStream: nothing of the stream is sent any more, and what is queued is dropped.
func (w *world) closeStream(stream uint32) {
	w.queue = slices.DeleteFunc(w.queue, func(q queued) bool {
		if q.message != nil && q.stream == stream {
			w.seen[q.message.Type()+", lost unsent"]++
		}
		return q.stream == stream
	})
	w.closed[stream] = true
	delete(w.flowing, stream)
	if r := w.replays[stream]; r != nil {
		r.over = true
		if w.rng.IntN(2) == 0 {
			r.says = nil
		}
	}
}

// takeBack drops the last message of a stream, unless it was sent.
func (w *world) takeBack(stream uint32) {
	for i := len(w.queue) - 1; i >= 0; i-- {
		if w.queue[i].stream == stream && w.queue[i].message != nil {
			w.queue = slices.Delete(w.queue, i, i+1)
			return
		}
	}
}

// flow makes one thing happen on the way of the tables.
func (w *world) flow() {
	if len(w.queue) > 0 && w.rng.IntN(2) == 0 {
		w.arrive()
		return
	}
	for _, stream := range shuffled(w.rng, slices.Sorted(maps.Keys(w.replays))) {
		if w.replays[stream].work(w) {
			return
		}
	}
	if len(w.queue) > 0 {
		w.arrive()
	}
}

// flows says whether flow would do anything.
func (w *world) flows() bool {
	for _, r := range w.replays {
		if len(r.says) > 0 || !r.over && !r.paused && (r.next < w.log(r) || !r.reached && r.next >= r.end) {
			return true
		}
	}
	return len(w.queue) > 0
}

func (w *world) log(r *simReplay) int64 {
	end := w.logs[tableOf{r.e.Task.String(), r.e.Table.Name}]
	if !r.follow {
		return min(end, max(r.end, r.next))
	}
	return end
}

func (r *simReplay) work(w *world) bool {
	switch {
	case len(r.says) > 0 && w.rng.IntN(2) == 0:
		ev := r.says[0]
		r.says = r.says[1:]
		w.hear(r, ev)
	case r.over || r.paused:
		return false
	case w.faults && w.rng.IntN(10) == 0:
		r.over = true
		r.says = append(r.says, ResetNeeded{Stream: r.e.Table.Stream, Code: protocol.CodePastEnd})
	case r.next < w.log(r):
		next := r.next + 1 + w.rng.Int64N(w.log(r)-r.next)
		w.queue = append(w.queue, queued{stream: r.e.Table.Stream, base: r.next, next: next})
		r.next = next
	case !r.reached && r.next >= r.end:
		r.reached, r.over = true, !r.follow
		r.says = append(r.says, Reached{Stream: r.e.Table.Stream, End: r.asked})
	default:
		return false
	}
	return true
}

// hear brings to the session what a replay says.
func (w *world) hear(r *simReplay, ev Event) {
	t := w.m.streams[r.e.Table.Stream]
	reached, ok := ev.(Reached)
	if ok && t != nil && w.replays[r.e.Table.Stream] == r {
		own := r.e.Table.Kind == protocol.TableChangelog
		if reached.End != NoEnd || !own || !r.e.Copy {
			delete(w.missing[keyOf(t.id.String(), t.epoch)], r.e.Table.Stream)
		}
	}
	w.step(ev)
}

// arrive brings the first thing that is queued to the worker.
func (w *world) arrive() {
	q := w.queue[0]
	w.queue = w.queue[1:]
	if q.message != nil {
		w.history = append(w.history, entry{w.now, "  .", q.message})
		w.message(q.message)
		return
	}
	at := w.given[q.stream]
	if at == nil || w.open[at.table.task].Epoch != at.epoch {
		return // stale
	}
	if at.next >= 0 && at.next != q.base {
		w.fail("a frame of stream %d begins at %d, the one before ended at %d", q.stream, q.base, at.next)
	}
	if p := w.stores[at.table]; p != q.base {
		w.fail("the store of %v is at %d and gets a frame from %d", at.table, p, q.base)
	}
	at.next, w.stores[at.table] = q.next, q.next
}

// succeeds is promoted or demoted at the worker. It reports whether there is anything to succeed to.
func (w *world) succeeds(task string, epoch uint32, list []protocol.TableStream, role protocol.Role) bool {
	w.seen[map[protocol.Role]string{protocol.RoleActive: "promoted", protocol.RoleStandby: "demoted"}[role]]++
	was, ok := w.open[task]
	if !ok {
		return false // lost has overtaken it
	}
	if was.Role == role {
		w.fail("%s is %s already", task, role)
	}
	if epoch <= was.Epoch {
		w.fail("epoch of %s does not grow: %d after %d", task, epoch, was.Epoch)
	}
	now := was
	now.Epoch, now.Role, now.Tables = epoch, role, list
	w.epochs[task], w.open[task], w.missing[keyOf(task, epoch)] = epoch, now, map[uint32]bool{}
	for _, t := range list {
		w.opened(task, epoch, t)
	}
	return true
}

func (w *world) opened(task string, epoch uint32, t protocol.TableStream) {
	w.given[t.Stream] = &received{table: tableOf{task, t.Name}, epoch: epoch, next: -1}
}

func (w *world) checkpoint(task, table string) *string {
	if p := w.stores[tableOf{task, table}]; p > 0 {
		s := strconv.FormatInt(p, 10)
		return &s
	}
	return nil
}

func (w *world) wipe(task, table string, stream uint32) {
	w.stores[tableOf{task, table}] = 0
	w.given[stream].next = 0
}

// store is what a worker does at committed.
func (w *world) store(task string, points map[string]string) {
	for table, point := range points {
		p, _ := strconv.ParseInt(point, 10, 64)
		at := tableOf{task, table}
		if w.stores[at] != p-1 {
			w.fail("the store of %v is at %d and gets the rows of a commit before %d", at, w.stores[at], p)
		}
		w.stores[at] = p
	}
}

// land makes the writes of a commit part of the log.
func (w *world) land(task TaskID, writes []StreamWrites) map[string]Landed {
	landed := map[string]Landed{}
	for _, d := range writes {
		if d.Table == "" {
			continue
		}
		at := tableOf{task.String(), d.Table}
		base := w.logs[at]
		w.logs[at] = base + 1
		landed[d.Table] = Landed{Next: base + 1, Checkpoint: strconv.FormatInt(base+1, 10), Foreign: base != d.Head}
	}
	return landed
}

// othersWrite: to the changelogs of tasks that are not ours, and upstream at any time.
func (w *world) othersWrite() {
	for _, s := range w.declarations(2).Sets {
		for p := range s.Partitions {
			id := TaskID{Set: s.Name, Partition: p}
			for _, t := range s.Tables {
				if t.Kind == protocol.TableSource || !w.taken[id] || w.written[id] {
					w.logs[tableOf{id.String(), t.Name}] += w.rng.Int64N(3)
				}
			}
		}
	}
}

// checkStores: whenever records flow, and at rest, the worker's stores are the logs.
func (w *world) checkStores(id TaskID) {
	for _, t := range w.m.tasks[id].tables {
		if t.stream.Kind != protocol.TableChangelog {
			continue
		}
		at := tableOf{id.String(), t.stream.Name}
		if w.stores[at] != w.logs[at] {
			w.fail("the store of %v has %d of %d records", at, w.stores[at], w.logs[at])
		}
	}
}
