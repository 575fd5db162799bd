package session

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

func opTask(e Effect) (TaskID, bool) {
	switch e := e.(type) {
	case Produce:
		return e.Task, true
	case Transact:
		return e.Task, true
	case CommitPositions:
		return e.Task, true
	case WriteRelease:
		return e.Task, true
	}
	return TaskID{}, false
}

func opNumber(e Effect) int64 {
	switch e := e.(type) {
	case TakeOverTask:
		return e.Op
	case Transact:
		return e.Op
	case CommitPositions:
		return e.Op
	case WriteRelease:
		return e.Op
	}
	return 0
}

// written is the number of a step that writes records; 0: it writes none.
func written(e Effect) int64 {
	switch e := e.(type) {
	case Produce:
		return e.Op
	case Transact:
		return e.Op
	}
	return 0
}

func shuffled[T any](rng *rand.Rand, list []T) []T {
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// complete ends one step of Kafka. Its answer may be on its way while other things happen.
func (w *world) complete() {
	i := w.rng.IntN(len(w.ops))
	op := w.ops[i]
	w.ops = slices.Delete(w.ops, i, i+1)
	res := Result{Outcome: OK}
	group := opNumber(op) != 0
	took, isTakeOver := op.(TakeOverTask)
	switch {
	case group && opNumber(op) <= w.staleOps, isTakeOver && !w.owned[took.Task]:
		res = Result{Outcome: FencedOut, Code: protocol.CodeFenced}
	case group && w.rebalancing && w.rng.IntN(3) == 0:
		res = Result{Outcome: Rebalancing}
	case w.faults && w.rng.IntN(8) == 0:
		res = Result{Outcome: Failed, Code: "x", Message: "fault"}
	case w.faults && group && w.rng.IntN(16) == 0:
		res, w.losing, w.rebalancing = Result{Outcome: FencedOut, Code: protocol.CodeFenced}, true, true
	}
	w.results = append(w.results, w.finish(op, res))
	if w.rng.IntN(2) == 0 {
		w.deliver()
	}
}

// deliver brings one answer to the session. Those of one goroutine would keep their order; these are of
// many.
func (w *world) deliver() {
	i := w.rng.IntN(len(w.results))
	f := w.results[i]
	w.results = slices.Delete(w.results, i, i+1)
	f()
}

// finish makes a step take effect, and gives what tells the session.
func (w *world) finish(op Effect, res Result) func() {
	switch op := op.(type) {
	case Prepare:
		if res.Outcome != OK {
			return func() {
				w.step(PrepareFailed{Conn: op.Conn, Code: protocol.CodeKafkaUnreachable, Message: "away", Retry: true})
			}
		}
		p := w.declarations(w.declares)
		return func() { w.step(PreparedOK{Conn: op.Conn, Prepared: p}) }
	case TakeOverTask:
		ends := map[string]int64{}
		if set := w.subscribed.set(op.Task.Set); set != nil {
			for _, t := range set.Tables {
				if t.Kind == protocol.TableChangelog {
					ends[t.Name] = w.logs[tableOf{op.Task.String(), t.Name}]
				}
			}
		}
		if res.Outcome == OK {
			w.taken[op.Task], w.written[op.Task], w.ends[op.Task] = true, false, ends
			delete(w.unsure, op.Task)
		}
		return func() {
			if res.Outcome == OK && op.Op > w.staleOps {
				delete(w.lost, op.Task)
			}
			w.step(TookOver{Task: op.Task, Op: op.Op, Result: res, TakeOver: TakeOver{Positions: map[string]int64{op.Task.Set: 0}, Ends: ends}})
		}
	case Produce:
		if res.Outcome != OK {
			res.Outcome = []Outcome{Refused, Unknown}[w.rng.IntN(2)]
		}
		doubt := res.Outcome == Unknown && w.rng.IntN(2) == 0
		var landed map[string]Landed
		if res.Outcome == OK || res.Outcome == Unknown && !doubt && w.rng.IntN(2) == 0 {
			landed = w.land(op.Task, op.Writes)
		}
		return func() {
			if doubt {
				w.doubted[op.Task]++
				w.results = append(w.results, func() {
					if w.doubted[op.Task]--; w.rng.IntN(2) == 0 {
						w.land(op.Task, op.Writes)
					}
					w.step(ProduceEnded{Op: op.Op})
				})
			}
			w.step(Produced{Task: op.Task, Op: op.Op, Result: res, InDoubt: doubt, Landed: landed})
		}
	case Transact:
		return w.transacted(op, res)
	case CommitPositions:
		if res.Outcome == Failed && w.rng.IntN(3) == 0 {
			res.Outcome = Refused
		}
		return func() { w.step(PositionsCommitted{Task: op.Task, Op: op.Op, Result: res}) }
	case WriteRelease:
		w.written[op.Task] = w.written[op.Task] || res.Outcome == OK || res.Outcome == FencedOut
		return func() { w.step(ReleaseWritten{Task: op.Task, Op: op.Op, Result: res}) }
	case LeaveGroup:
		w.member, w.taken, w.owned = false, map[TaskID]bool{}, map[TaskID]bool{}
		w.rebalancing, w.losing = false, false
		return func() { w.step(Left{}) }
	}
	panic(fmt.Sprintf("%T", op))
}

// sync ends a rebalance.
func (w *world) sync() {
	if w.losing || w.faults && w.rng.IntN(8) == 0 {
		w.losing = false
		for id := range w.m.tasks {
			w.lost[id] = true
		}
		w.taken, w.owned, w.staleOps = map[TaskID]bool{}, map[TaskID]bool{}, w.m.lastOp
		w.step(GroupLost{Code: protocol.CodeFenced, Message: "unknown member"})
		return
	}
	w.rebalancing = false
	w.generation++
	ev := Assigned{Generation: w.generation, MemberID: "me", Uncommitted: map[TaskID]bool{}}
	w.roles = map[TaskID]wish{}
	for _, s := range w.subscribed.Sets {
		for p := range s.Partitions {
			id := TaskID{Set: s.Name, Partition: p}
			role := w.rest[id]
			if w.faults {
				role = []wish{beActive, beActive, beActive, beStandby, beStandby, letGo}[w.rng.IntN(6)]
			}
			w.roles[id] = role
			switch role {
			case beActive:
				ev.Active = append(ev.Active, id)
				w.owned[id] = true
			case beStandby:
				ev.Standby = append(ev.Standby, id)
			}
			ev.Uncommitted[id] = w.rng.IntN(2) == 0
		}
	}
	w.step(ev)
}

// workerActs is a commit, a fault or a goodbye of the worker.
func (w *world) workerActs() {
	switch n := w.rng.IntN(20); {
	case n == 0:
		conn := w.conn
		w.disconnect()
		w.step(Disconnected{Conn: conn})
	case n == 1:
		w.connect(w.rng.IntN(3))
	case n < 4:
		w.complain()
	default:
		w.commit()
	}
}

func (w *world) connect(declares int) {
	w.disconnect()
	w.nextConn++
	w.conn, w.declares = w.nextConn, declares
	w.step(Connected{Conn: w.conn, Hello: protocol.Hello{ID: 1, MaxFrame: 1 << 20}})
}

// complain says that something is wrong with a task.
func (w *world) complain() {
	for _, name := range shuffled(w.rng, slices.Sorted(maps.Keys(w.open))) {
		w.step(Received{Conn: w.conn, Message: protocol.Error{
			Code: protocol.CodeOffsetMismatch, Task: name, Epoch: w.open[name].Epoch, Message: "gap",
		}})
		return
	}
}

func (w *world) commit() {
	for _, name := range shuffled(w.rng, slices.Sorted(maps.Keys(w.open))) {
		a := w.open[name]
		if a.Role != protocol.RoleActive {
			continue
		}
		key := keyOf(name, a.Epoch)
		if w.waiting[key] >= 3 {
			return
		}
		w.commitID++
		w.waiting[key]++
		b := frame.NewBuilder(frame.Writes)
		b.Reset(a.Tables[0].Stream, a.Epoch, w.commitID)
		b.Append(w.commitID, 0, []byte("k"), []byte("v"), nil)
		writes := &protocol.Writes{ID: w.commitID}
		if w.rng.IntN(3) > 0 {
			writes.Frames = [][]byte{b.Finish(nil, 0, nil)}
		}
		w.step(Received{Conn: w.conn, Writes: writes, Message: protocol.Commit{
			ID: w.commitID, Task: name, Epoch: a.Epoch, SourceNext: map[string]int64{a.Set: 0},
		}})
		return
	}
}

// random makes one thing happen.
func (w *world) random() {
	switch n := w.rng.IntN(12); {
	case n < 3 && len(w.ops) > 0:
		w.complete()
	case n < 5 && len(w.owed) > 0:
		w.say()
	case n < 7 && len(w.replays)+len(w.queue) > 0:
		w.flow()
	case n == 7 && w.member && w.rebalancing:
		w.sync()
	case n == 8 && w.member:
		w.rebalancing = true
	case n == 9 && w.conn != 0:
		w.workerActs()
	case n == 9:
		w.connect(w.rng.IntN(3))
	case n == 10 && len(w.results) > 0:
		w.deliver()
	case n == 11 && w.rng.IntN(3) == 0:
		w.othersWrite()
	default:
		w.now = w.now.Add(time.Duration(w.rng.IntN(2000)) * time.Millisecond)
		w.tick(w.rng.IntN(2) == 0)
	}
}

func (w *world) tick(owes bool) {
	if at := w.m.Deadline(); !at.IsZero() && !w.now.Before(at) {
		w.step(Tick{Owes: owes})
	}
}

// calm, after all faults have ended, lets everything come to rest: whatever happened before, every task must run
// and every commit must be answered. Nothing happens that nobody asked for: the group syncs only when it
// was rebalancing, time passes only to the session's own deadline.
func (w *world) calm() {
	for range 5000 {
		switch {
		case len(w.results) > 0 && w.rng.IntN(2) == 0:
			w.deliver()
		case len(w.ops) > 0:
			w.complete()
		case len(w.owed) > 0:
			w.say()
		case w.flows():
			w.flow()
		case len(w.results) > 0:
			w.deliver()
		case w.member && (w.rebalancing || w.losing):
			w.sync()
		case w.m.worker != nil && w.m.worker.hung:
			w.step(Active{Conn: w.conn})
		case w.settled():
			return
		default:
			at := w.m.Deadline()
			if at.IsZero() || at.Sub(w.now) >= simConfig.MaxProcessing {
				return // nothing will happen any more
			}
			w.now = at
			w.tick(false)
		}
	}
}

func (w *world) settled() bool {
	wanted := 0
	for id, role := range w.roles {
		if role != letGo {
			wanted++
		}
		if w.owned[id] != (role == beActive) {
			return false
		}
	}
	if !w.member || len(w.m.tasks) != wanted {
		return false
	}
	for _, t := range w.m.all() {
		rests := t.state == Running && (t.id.Global || w.owned[t.id])
		if w.roles[t.id] == beStandby {
			rests = t.state == Shadowing && t.copyOnly() && t.awaiting == 0 && t.reached()
		}
		if !rests {
			return false
		}
	}
	return w.m.Status().Commits == 0
}

func TestSessionHoldsItsInvariantsWhateverHappens(t *testing.T) {
	runs := uint64(2000)
	if testing.Short() {
		runs = 300
	}
	seen := map[string]int{}
	for seed := range runs {
		w := newWorld(t, seed)
		w.seen = seen
		for range 300 {
			w.random()
		}
		w.faults = false
		if w.conn == 0 || w.declares != 0 || w.rng.IntN(2) == 0 {
			w.connect(0)
		}
		w.calm() // with what the last sync gave
		w.checkRest()
		w.rebalancing = true
		w.calm()
		w.checkRest()
		if len(w.m.tasks) != 4 {
			w.fail("%d tasks run", len(w.m.tasks))
		}
		for range 2 { // what worked becomes a copy, and the other way round
			for range 6 {
				w.commit()
			}
			w.calm()
			for id, role := range w.rest {
				w.rest[id] = beActive + beStandby - role
			}
			w.rebalancing = true
			w.calm()
			w.othersWrite()
			w.calm()
			w.checkRest()
		}
	}
	t.Log(seen)
	if testing.Short() {
		return
	}
	for _, what := range []string{"promoted", "promoted, had to replay", "promoted, already there", "promoted, lost unsent", "demoted",
		"standby", "reset of a standby", "reset behind promoted", "revoke behind promoted"} {
		if seen[what] == 0 {
			t.Errorf("in %d worlds there was no %q", runs, what)
		}
	}
}

// checkRest: all runs, records flow, every commit is answered, and nothing is left of what was before.
func (w *world) checkRest() {
	if !w.settled() {
		states := map[string]string{}
		for id, task := range w.m.tasks {
			states[id.String()] = task.state.String()
		}
		w.fail("the session does not come to rest: %v, ops %v, owed %d, member %v, status %+v", states, w.ops, len(w.owed), w.member, w.m.Status())
	}
	for key, n := range w.waiting {
		if n != 0 {
			w.fail("%d commits of %s have no answer", n, key)
		}
	}
	streams, former := 0, 0
	for _, t := range w.m.all() {
		streams += len(t.streams())
		for _, f := range t.former {
			former += len(f.streams)
		}
	}
	if len(w.streams) != streams+former || len(w.m.streams) != streams || len(w.m.epochs) != len(w.m.all()) || len(w.m.orphans) != 0 {
		w.fail("left over: %d and %d streams, want %d; %d epochs, want %d; orphans %v",
			len(w.streams), len(w.m.streams), streams, len(w.m.epochs), len(w.m.all()), w.m.orphans)
	}
	flowing := 0
	for stream := range w.flowing {
		if !w.paused[stream] {
			flowing++
		}
	}
	if flowing != len(w.owned) {
		w.fail("records flow on %d streams of %d", flowing, len(w.owned))
	}
	if w.m.unended.all != 0 || len(w.m.unended.by) != 0 || len(w.m.orphanOf) != 0 {
		w.fail("counted: %+v, %v", w.m.unended, w.m.orphanOf)
	}
	for id, role := range w.roles {
		if role != letGo {
			w.checkStores(id)
		}
	}
}
