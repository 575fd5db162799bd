package session

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// world is a machine with a model of everything around it. Each step picks one thing that may happen
// next; the checks hold whatever the order.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	m       *Machine
	now     time.Time
	history []string

	ops      []Effect // steps of Kafka under way
	staleOps int64    // those up to here began before the membership was lost: Kafka refuses them
	conn     ConnID   // of the connected worker; 0: none
	nextConn ConnID
	owed     []func() Event // what the worker still has to answer
	waiting  map[string]int // commits without an answer, by task and epoch
	commitID int64
	faults   bool

	member     bool // the sidecar wants to be in the group
	active     map[TaskID]bool
	generation int32
	sets       int

	epochs    map[string]uint32          // last assigned, by wire name
	restoring map[uint32]bool            // streams under replay
	missing   map[string]map[uint32]bool // streams of tables not yet whole, by task and epoch
	running   map[string]protocol.Assign
	taken     map[TaskID]bool // claimed since the last loss
	released  map[TaskID]bool // release written, or nothing to write
	lost      map[TaskID]bool // no commit may follow
}

var simConfig = Config{
	Group: "g", WorkerGrace: 10 * time.Second, RevokeTimeout: 5 * time.Second,
	MaxProcessing: time.Minute, DrainTimeout: 20 * time.Second,
}

func newWorld(t *testing.T, seed uint64) *world {
	m, err := NewMachine(simConfig)
	if err != nil {
		t.Fatal(err)
	}
	return &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), m: m, now: time.Unix(1000, 0), faults: true, sets: 2,
		waiting: map[string]int{}, active: map[TaskID]bool{}, epochs: map[string]uint32{},
		restoring: map[uint32]bool{}, missing: map[string]map[uint32]bool{}, running: map[string]protocol.Assign{},
		taken: map[TaskID]bool{}, released: map[TaskID]bool{}, lost: map[TaskID]bool{},
	}
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	tail := w.history[max(0, len(w.history)-60):]
	w.t.Fatalf("%s\nhistory:\n%s", fmt.Sprintf(format, args...), strings.Join(tail, "\n"))
}

func (w *world) step(ev Event) {
	w.history = append(w.history, fmt.Sprintf("%v > %T %+v", w.now.Sub(time.Unix(1000, 0)), ev, ev))
	effects, err := w.m.Step(w.now, ev)
	if err != nil {
		w.fail("step failed: %v", err)
	}
	for _, e := range effects {
		if _, ok := e.(Log); !ok {
			w.history = append(w.history, fmt.Sprintf("      < %T %+v", e, e))
		}
		w.effect(e)
	}
}

func (w *world) effect(e Effect) {
	switch e := e.(type) {
	case Send:
		if e.Conn == w.conn {
			w.message(e.Message)
		}
	case SendInStream:
		if e.Conn == w.conn {
			w.message(e.Message)
		}
	case CloseConn:
		if e.Conn == w.conn {
			w.conn, w.owed = 0, nil
			w.waiting = map[string]int{}
		}
	case Prepare, TakeOverTask, Produce, CommitPositions, WriteRelease, LeaveGroup:
		w.ops = append(w.ops, e)
		if c, ok := e.(CommitPositions); ok && w.lost[c.Task] {
			w.fail("positions of %s are committed after the loss", c.Task)
		}
		if r, ok := e.(WriteRelease); ok {
			w.released[r.Task] = false
		}
	case JoinGroup:
		w.member = true
	case ReleaseTasks:
		for _, id := range e.Tasks {
			if w.taken[id] && !w.released[id] {
				w.fail("%s is let go without its release", id)
			}
			delete(w.taken, id)
		}
	case StartRestore:
		w.restoring[e.Table.Stream] = true
	case CloseStream:
		delete(w.restoring, e.Stream)
	case StartFeed:
		key := fmt.Sprintf("%s@%d", e.Task, e.Epoch)
		if len(w.missing[key]) != 0 {
			w.fail("records of %s flow before its tables are whole", key)
		}
		for g := range w.m.globals {
			if k := fmt.Sprintf("%s@%d", g, w.m.globals[g].epoch); len(w.missing[k]) > 0 && !e.Paused {
				w.fail("records of %s flow before the global %s is whole", key, k)
			}
		}
	}
}

// message is the model worker.
func (w *world) message(msg protocol.Message) {
	conn := w.conn
	answer := func(m protocol.Message) {
		w.owed = append(w.owed, func() Event { return Received{Conn: conn, Message: m} })
	}
	switch m := msg.(type) {
	case protocol.Assign:
		if m.Epoch <= w.epochs[m.Task] {
			w.fail("epoch of %s does not grow: %d after %d", m.Task, m.Epoch, w.epochs[m.Task])
		}
		for _, op := range w.ops {
			if id, ok := opTask(op); ok && id.String() == m.Task && m.Role == protocol.RoleActive {
				w.fail("%s is assigned while %T of it runs", m.Task, op)
			}
		}
		w.epochs[m.Task] = m.Epoch
		missing := map[uint32]bool{}
		w.missing[fmt.Sprintf("%s@%d", m.Task, m.Epoch)] = missing
		w.running[m.Task] = m
		points := map[string]*string{}
		for _, t := range m.Tables {
			points[t.Name] = nil
			missing[t.Stream] = true
		}
		answer(protocol.Opened{Re: m.ID, Task: m.Task, Epoch: m.Epoch, Checkpoints: points})
	case protocol.Restored:
		answer(protocol.Ready{Re: m.ID, Task: m.Task, Epoch: m.Epoch})
	case protocol.Revoke:
		if w.rng.IntN(4) > 0 || !w.faults {
			answer(protocol.Released{Re: m.ID, Task: m.Task, Epoch: m.Epoch})
		}
	case protocol.Reset:
		w.missing[fmt.Sprintf("%s@%d", m.Task, m.Epoch)][m.Stream] = true
		answer(protocol.Opened{Re: m.ID, Task: m.Task, Epoch: m.Epoch, Checkpoints: map[string]*string{m.Table: nil}})
	case protocol.Committed:
		w.answered(m.Task, m.Epoch)
	case protocol.Aborted:
		w.answered(m.Task, m.Epoch)
	case protocol.Stale:
		w.answered(m.Task, m.Epoch)
	case protocol.Unknown:
		w.answered(m.Task, m.Epoch)
	case protocol.Error:
		if m.Re != 0 && m.Task != "" {
			w.answered(m.Task, m.Epoch)
		}
	}
}

func (w *world) answered(task string, epoch uint32) {
	key := fmt.Sprintf("%s@%d", task, epoch)
	if w.waiting[key]--; w.waiting[key] < 0 {
		w.fail("an answer too many for %s", key)
	}
}

func opTask(e Effect) (TaskID, bool) {
	switch e := e.(type) {
	case Produce:
		return e.Task, true
	case CommitPositions:
		return e.Task, true
	case WriteRelease:
		return e.Task, true
	}
	return TaskID{}, false
}

func shuffled[T any](rng *rand.Rand, list []T) []T {
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

func opNumber(e Effect) int64 {
	switch e := e.(type) {
	case TakeOverTask:
		return e.Op
	case CommitPositions:
		return e.Op
	case WriteRelease:
		return e.Op
	}
	return 0
}

// complete ends one step of Kafka.
func (w *world) complete() {
	i := w.rng.IntN(len(w.ops))
	op := w.ops[i]
	w.ops = slices.Delete(w.ops, i, i+1)
	res := Result{Outcome: OK}
	if id := opNumber(op); id != 0 && id <= w.staleOps {
		w.finish(op, Result{Outcome: FencedOut, Code: protocol.CodeFenced})
		return
	}
	if w.faults && w.rng.IntN(5) == 0 {
		res = Result{Outcome: []Outcome{Rebalancing, Failed, FencedOut}[w.rng.IntN(3)], Code: "x", Message: "fault"}
	}
	w.finish(op, res)
}

func (w *world) finish(op Effect, res Result) {
	switch op := op.(type) {
	case Prepare:
		if res.Outcome != OK {
			w.step(PrepareFailed{Conn: op.Conn, Code: protocol.CodeKafkaUnreachable, Message: "away", Retry: true})
			return
		}
		w.step(PreparedOK{Conn: op.Conn, Prepared: w.prepared()})
	case TakeOverTask:
		if res.Outcome == OK {
			w.taken[op.Task], w.released[op.Task] = true, false
			delete(w.lost, op.Task)
		}
		w.step(TookOver{Task: op.Task, Op: op.Op, Result: res, TakeOver: TakeOver{Positions: map[string]int64{op.Task.Set: 0}}})
	case Produce:
		if res.Outcome != OK {
			res.Outcome = []Outcome{Refused, Unknown}[w.rng.IntN(2)]
		}
		w.step(Produced{Task: op.Task, Op: op.Op, Result: res})
	case CommitPositions:
		w.step(PositionsCommitted{Task: op.Task, Op: op.Op, Result: res})
	case WriteRelease:
		if res.Outcome == OK || res.Outcome == FencedOut {
			w.released[op.Task] = true
		}
		w.step(ReleaseWritten{Task: op.Task, Op: op.Op, Result: res})
	case LeaveGroup:
		w.member, w.taken = false, map[TaskID]bool{}
		w.step(Left{})
	}
}

func (w *world) prepared() Prepared {
	p := Prepared{Group: "g", Outputs: []string{"out"}, Globals: []PreparedGlobal{{Name: "glob", Topic: "glob", Partitions: 2}}}
	for s := range w.sets {
		name := fmt.Sprintf("s%d", s)
		p.Sets = append(p.Sets, PreparedSet{Name: name, Sources: []string{name}, Partitions: 2, Tables: []PreparedTable{
			{Name: "log", Topic: name + "-log", Kind: protocol.TableChangelog},
			{Name: "src", Topic: name + "-src", Kind: protocol.TableSource},
		}})
	}
	return p
}

// sync is what the group may say.
func (w *world) sync() {
	if w.faults && w.rng.IntN(8) == 0 {
		for id := range w.m.tasks {
			w.lost[id] = true
		}
		w.taken, w.staleOps = map[TaskID]bool{}, w.m.lastOp
		w.step(GroupLost{Code: protocol.CodeFenced, Message: "unknown member"})
		return
	}
	w.generation++
	var active []TaskID
	for s := range w.sets {
		for p := range int32(2) {
			if !w.faults || w.rng.IntN(3) > 0 {
				active = append(active, TaskID{Set: fmt.Sprintf("s%d", s), Partition: p})
			}
		}
	}
	w.step(Assigned{Generation: w.generation, MemberID: "me", Active: active})
}

// workerActs is a commit, a fault or a goodbye of the worker.
func (w *world) workerActs() {
	switch n := w.rng.IntN(20); {
	case n == 0 && w.faults:
		conn := w.conn
		w.conn, w.owed, w.waiting = 0, nil, map[string]int{}
		w.step(Disconnected{Conn: conn})
	case n == 1 && w.faults:
		w.connect()
	default:
		w.commit()
	}
}

func (w *world) connect() {
	w.nextConn++
	w.conn, w.owed, w.waiting = w.nextConn, nil, map[string]int{}
	w.step(Connected{Conn: w.conn, Hello: protocol.Hello{ID: 1, MaxFrame: 1 << 20}})
}

func (w *world) commit() {
	for _, name := range shuffled(w.rng, slices.Sorted(maps.Keys(w.running))) {
		a := w.running[name]
		if a.Role != protocol.RoleActive {
			continue
		}
		key := fmt.Sprintf("%s@%d", name, a.Epoch)
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

func (w *world) reach() {
	for _, stream := range shuffled(w.rng, slices.Sorted(maps.Keys(w.restoring))) {
		t := w.m.streams[stream]
		if t == nil {
			delete(w.restoring, stream)
			return
		}
		if w.faults && w.rng.IntN(10) == 0 {
			w.step(ResetNeeded{Stream: stream, Code: protocol.CodePastEnd})
			return
		}
		delete(w.missing[fmt.Sprintf("%s@%d", t.id, t.epoch)], stream)
		delete(w.restoring, stream)
		w.step(Reached{Stream: stream})
		return
	}
}

// random makes one thing happen.
func (w *world) random() {
	switch n := w.rng.IntN(10); {
	case n < 3 && len(w.ops) > 0:
		w.complete()
	case n < 5 && len(w.owed) > 0:
		next := w.owed[0]
		w.owed = w.owed[1:]
		w.step(next())
	case n == 5 && len(w.restoring) > 0:
		w.reach()
	case n == 6 && w.member:
		w.sync()
	case n == 7 && w.conn != 0:
		w.workerActs()
	case n == 8 && w.conn == 0:
		w.connect()
	default:
		w.now = w.now.Add(time.Duration(w.rng.IntN(2000)) * time.Millisecond)
		if at := w.m.Deadline(); !at.IsZero() && !w.now.Before(at) {
			w.step(Tick{Owes: w.rng.IntN(2) == 0})
		}
	}
}

// calm ends all faults and lets everything come to rest: whatever happened before, every task must run
// and every commit must be answered.
func (w *world) calm() {
	w.faults = false
	for range 3000 {
		switch {
		case len(w.ops) > 0:
			w.complete()
		case len(w.owed) > 0:
			next := w.owed[0]
			w.owed = w.owed[1:]
			w.step(next())
		case len(w.restoring) > 0:
			w.reach()
		case w.conn == 0:
			w.connect()
		case w.member && !w.settled():
			w.sync()
		default:
			at := w.m.Deadline()
			if w.settled() || at.IsZero() {
				return
			}
			w.now = at
			w.step(Tick{})
		}
		if w.member && w.rng.IntN(50) == 0 {
			w.sync()
		}
		w.now = w.now.Add(time.Second)
		if at := w.m.Deadline(); !at.IsZero() && !w.now.Before(at) {
			w.step(Tick{})
		}
		if w.m.worker != nil && w.m.worker.hung {
			w.step(Active{Conn: w.conn})
		}
	}
}

func (w *world) settled() bool {
	if len(w.m.tasks) != 2*w.sets {
		return false
	}
	for _, t := range w.m.tasks {
		if t.state != Running {
			return false
		}
	}
	return true
}

func TestSessionHoldsItsInvariantsWhateverHappens(t *testing.T) {
	runs := uint64(2000)
	if testing.Short() {
		runs = 300
	}
	for seed := range runs {
		w := newWorld(t, seed)
		w.history = append(w.history, fmt.Sprintf("seed %d", seed))
		for range 300 {
			w.random()
		}
		w.calm()
		if !w.settled() {
			states := map[string]string{}
			for id, task := range w.m.tasks {
				states[id.String()] = task.state.String()
			}
			w.fail("seed %d: the session does not come to rest: %v, ops %d, owed %d, member %v, status %+v", seed, states, len(w.ops), len(w.owed), w.member, w.m.Status())
		}
		for key, n := range w.waiting {
			if n != 0 {
				w.fail("seed %d: %d commits of %s have no answer", seed, n, key)
			}
		}
	}
}
