package session

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pillion/pillion/protocol"
)

// world is a machine with a model of everything around it: a worker, the group, Kafka. Whatever the
// order of events, the checks hold.
type world struct {
	t       *testing.T
	seed    uint64
	rng     *rand.Rand
	m       *Machine
	now     time.Time
	history []entry
	faults  bool

	// The worker.
	conn     ConnID // 0: none
	nextConn ConnID
	declares int            // which of declarations
	owed     []owed         // what it still has to answer
	waiting  map[string]int // commits without an answer, by task and epoch
	commitID int64

	// Kafka and the group.
	ops         []Effect       // steps under way
	results     []func()       // steps that have ended, whose answer is on its way
	former      map[int64]bool // writes of commits of earlier connections
	staleOps    int64          // those up to here began before the membership was lost
	member      bool           // the sidecar wants to be in the group
	subscribed  Prepared       // of the last JoinGroup
	rebalancing bool           // a sync will follow
	losing      bool           // the next news is a loss
	owned       map[TaskID]bool
	roles       map[TaskID]wish // of the last sync
	rest        map[TaskID]wish // what the group comes to when nothing fails any more
	generation  int32

	// What the effects amount to.
	epochs   map[string]uint32          // last given, by wire name
	open     map[string]protocol.Assign // epochs that are not over at the worker
	released map[string]bool            // epochs that the worker has released, by task and epoch
	streams  map[uint32]string          // registered, by task and epoch
	missing  map[string]map[uint32]bool // tables not yet whole, by task and epoch
	unready  map[string]int64           // the restored that has to be answered before records; -1: not said yet
	flowing  map[uint32]string          // records flow: the task and epoch
	paused   map[uint32]bool
	taken    map[TaskID]bool // claimed since the last loss
	written  map[TaskID]bool // release written, or nothing to write
	lost     map[TaskID]bool // no commit may follow
	doubted  map[TaskID]int  // writes that may still land

	// Of transactions.
	transacting map[int64]int64 // the commit of each that began, by its step
	visible     map[int64]bool  // commits that were committed as one
	unsure      map[TaskID]bool // it is not known whether the last one was

	tables

	seen map[string]int // what happened, in all worlds
}

// owed is an answer of the worker.
type owed struct {
	re int64
	ev Event
}

var simConfig = Config{
	Group: "g", WorkerGrace: 10 * time.Second, RevokeTimeout: 5 * time.Second,
	MaxProcessing: time.Minute, DrainTimeout: 20 * time.Second,
}

func newWorld(t *testing.T, seed uint64) *world {
	cfg := simConfig
	cfg.Guarantee = []string{protocol.AtLeastOnce, protocol.ExactlyOnce}[seed%2]
	m, err := NewMachine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), m: m, now: time.Unix(1000, 0), faults: true,
		waiting: map[string]int{}, former: map[int64]bool{}, owned: map[TaskID]bool{}, epochs: map[string]uint32{},
		roles: map[TaskID]wish{}, rest: map[TaskID]wish{}, released: map[string]bool{},
		open: map[string]protocol.Assign{}, streams: map[uint32]string{},
		missing: map[string]map[uint32]bool{}, unready: map[string]int64{}, flowing: map[uint32]string{}, paused: map[uint32]bool{},
		taken: map[TaskID]bool{}, written: map[TaskID]bool{}, lost: map[TaskID]bool{}, doubted: map[TaskID]int{},
		transacting: map[int64]int64{}, visible: map[int64]bool{}, unsure: map[TaskID]bool{},
		tables: newTables(),
	}
	for s := range 2 {
		for p := range int32(2) {
			w.rest[TaskID{Set: fmt.Sprintf("s%d", s), Partition: p}] = []wish{beActive, beActive, beStandby}[w.rng.IntN(3)]
		}
	}
	return w
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	var tail strings.Builder
	for _, e := range w.history[max(0, len(w.history)-80):] {
		fmt.Fprintf(&tail, "%v %s %T %+v\n", e.at.Sub(time.Unix(1000, 0)), e.way, e.what, e.what)
	}
	w.t.Fatalf("seed %d: %s\nhistory:\n%s", w.seed, fmt.Sprintf(format, args...), tail.String())
}

// entry is an event (>) or an effect (<).
type entry struct {
	at   time.Time
	way  string
	what any
}

func (w *world) step(ev Event) {
	w.t.Helper()
	w.history = append(w.history, entry{w.now, ">", ev})
	effects, err := w.m.Step(w.now, ev)
	if err != nil {
		w.fail("step failed: %v", err)
	}
	for _, e := range effects {
		if _, ok := e.(Log); !ok {
			w.history = append(w.history, entry{w.now, "  <", e})
		}
		w.effect(e)
	}
	w.checkFlow()
}

// declarations are what workers declare: one set or two, with a table more or less.
func (w *world) declarations(kind int) Prepared {
	p := Prepared{Group: "g", Outputs: []string{"out"}, Globals: []PreparedGlobal{{Name: "glob", Topic: "glob", Partitions: 2}}}
	for s := range 2 {
		name := fmt.Sprintf("s%d", s)
		set := PreparedSet{Name: name, Sources: []string{name}, Partitions: 2, Tables: []PreparedTable{
			{Name: "log", Topic: name + "-log", Kind: protocol.TableChangelog},
			{Name: "src", Topic: name + "-src", Kind: protocol.TableSource},
		}}
		if kind == 1 && s == 1 {
			continue
		}
		if kind == 2 {
			set.Tables = append(set.Tables, PreparedTable{Name: "more", Topic: name + "-more", Kind: protocol.TableChangelog})
		}
		p.Sets = append(p.Sets, set)
	}
	return p
}

func (w *world) effect(e Effect) {
	switch e := e.(type) {
	case Send:
		if e.Conn == w.conn {
			w.message(e.Message)
		}
	case SendInStream:
		if e.Conn == w.conn && w.streams[e.Stream] != "" && !w.closed[e.Stream] {
			w.queue = append(w.queue, queued{stream: e.Stream, message: e.Message})
			switch e.Message.(type) {
			case protocol.Reset:
				w.seen["reset behind promoted"]++
			case protocol.Revoke:
				w.seen["revoke behind promoted"]++
			}
		}
	case DropInStream:
		w.takeBack(e.Stream)
	case CloseConn:
		if e.Conn == w.conn {
			w.disconnect()
		}
	case JoinGroup:
		w.join(e.Prepared)
	case ReleaseTasks:
		for _, id := range e.Tasks {
			if w.taken[id] && !w.written[id] {
				w.fail("%s is let go without its release", id)
			}
			w.rebalancing = w.rebalancing || w.owned[id]
			delete(w.taken, id)
			delete(w.owned, id)
		}
	case DrainGroup:
	case Prepare, TakeOverTask, Produce, Transact, CommitPositions, WriteRelease, LeaveGroup:
		w.began(e)
	default:
		w.streamEffect(e)
	}
}

func (w *world) began(e Effect) {
	w.ops = append(w.ops, e)
	if c, ok := e.(CommitPositions); ok && w.lost[c.Task] {
		w.fail("positions of %s are committed after the loss", c.Task)
	}
	if x, ok := e.(Transact); ok {
		if w.lost[x.Task] {
			w.fail("a transaction of %s begins after the loss", x.Task)
		}
		w.transacting[x.Op] = w.m.tasks[x.Task].commits[0].msg.ID
	}
	if o, ok := e.(TakeOverTask); ok && w.doubted[o.Task] > 0 {
		w.fail("%s is taken over while writes of it may still land", o.Task)
	}
	if r, ok := e.(WriteRelease); ok {
		w.written[r.Task] = false
		if w.unsure[r.Task] && r.Next != nil {
			w.fail("%s is released at %v, though it is not known what was committed", r.Task, r.Next)
		}
	}
}

// join: the group lets go of what is declared no more, or otherwise.
func (w *world) join(p Prepared) {
	for _, op := range w.ops {
		// One of before a loss is refused by Kafka.
		if id, ok := opTask(op); ok && (opNumber(op) == 0 || opNumber(op) > w.staleOps) {
			w.fail("the group gets new declarations while %T of %s runs", op, id)
		}
	}
	for id := range w.owned {
		was, is := w.subscribed.set(id.Set), p.set(id.Set)
		if was == nil || is == nil || !sameDeclarations(Prepared{Sets: []PreparedSet{*was}}, Prepared{Sets: []PreparedSet{*is}}) {
			delete(w.owned, id)
			delete(w.taken, id)
		}
	}
	w.member, w.subscribed, w.rebalancing = true, p, true
}

func (w *world) streamEffect(e Effect) {
	switch e := e.(type) {
	case OpenStream:
		if w.streams[e.Stream] != "" {
			w.fail("stream %d is given twice", e.Stream)
		}
		w.streams[e.Stream] = fmt.Sprint("epoch ", e.Epoch)
	case CloseStream:
		w.closeStream(e.Stream)
	case ForgetStream:
		w.closeStream(e.Stream)
		delete(w.streams, e.Stream)
		delete(w.replays, e.Stream)
	case StartRestore:
		w.startReplay(e)
	case KeepPlace:
		w.replays[e.Stream] = &simReplay{e: w.replays[e.From].e, next: w.replays[e.From].next, paused: true}
	case FinishRestore:
		if r := w.replays[e.Stream]; r != nil && !r.over {
			if r.next < e.End {
				w.seen["promoted, had to replay"]++
			} else {
				w.seen["promoted, already there"]++
			}
			r.end, r.asked, r.follow, r.reached = e.End, e.End, false, false
		}
	case StartFeed:
		w.checkStores(e.Task)
		w.flowing[e.Source.Stream], w.paused[e.Source.Stream] = keyOf(e.Task.String(), e.Epoch), e.Paused
	case PauseStream:
		w.paused[e.Stream] = true
	case ResumeStream:
		w.paused[e.Stream] = false
	}
}

// checkFlow: records of a task flow only while its own tables and all global tables are whole, and the
// worker knows it; and not for longer than that holds.
func (w *world) checkFlow() {
	w.t.Helper()
	for stream, key := range w.flowing {
		if w.paused[stream] {
			continue
		}
		if why := w.notWhole(key); why != "" {
			w.fail("records of %s flow: %s", key, why)
		}
		for p := range 2 {
			name := fmt.Sprintf("glob/%d", p)
			a, ok := w.open[name]
			if !ok {
				w.fail("records of %s flow while %s is not open", key, name)
			}
			if why := w.notWhole(keyOf(name, a.Epoch)); why != "" {
				w.fail("records of %s flow: %s of %s", key, why, name)
			}
		}
	}
}

func (w *world) notWhole(key string) string {
	if len(w.missing[key]) > 0 {
		return fmt.Sprintf("tables %v are not whole", w.missing[key])
	}
	if w.unready[key] != 0 {
		return "the worker has not said ready"
	}
	return ""
}

func keyOf(task string, epoch uint32) string { return fmt.Sprintf("%s@%d", task, epoch) }

// disconnect forgets what belongs to the connection.
func (w *world) disconnect() {
	w.conn, w.owed, w.waiting = 0, nil, map[string]int{}
	w.open, w.queue = map[string]protocol.Assign{}, nil
	for _, op := range w.ops {
		switch op := op.(type) {
		case Produce:
			w.former[op.Op] = true
		case Transact:
			w.former[op.Op] = true
		}
	}
}

// message is the model worker.
func (w *world) message(msg protocol.Message) {
	conn := w.conn
	answer := func(re int64, m protocol.Message) {
		w.owed = append(w.owed, owed{re, Received{Conn: conn, Message: m}})
	}
	switch m := msg.(type) {
	case protocol.Assign:
		if m.Role == protocol.RoleStandby {
			w.seen["standby"]++
		}
		answer(m.ID, w.assigned(m))
	case protocol.Restored:
		w.unready[keyOf(m.Task, m.Epoch)] = m.ID
		answer(m.ID, protocol.Ready{Re: m.ID, Task: m.Task, Epoch: m.Epoch})
	case protocol.Promoted:
		if w.succeeds(m.Task, m.Epoch, m.Tables, protocol.RoleActive) {
			w.unready[keyOf(m.Task, m.Epoch)] = m.ID
			answer(m.ID, protocol.Ready{Re: m.ID, Task: m.Task, Epoch: m.Epoch})
		}
	case protocol.Demoted:
		w.succeeds(m.Task, m.Epoch, m.Tables, protocol.RoleStandby)
	case protocol.Revoke:
		if a := w.open[m.Task]; a.Epoch == m.Epoch && (w.rng.IntN(4) > 0 || !w.faults) {
			answer(m.ID, protocol.Released{Re: m.ID, Task: m.Task, Epoch: m.Epoch})
		}
	case protocol.Lost:
		if w.open[m.Task].Epoch == m.Epoch {
			delete(w.open, m.Task)
		}
	case protocol.Reset:
		if w.open[m.Task].Epoch != m.Epoch {
			return
		}
		key := keyOf(m.Task, m.Epoch)
		w.missing[key][m.Stream], w.unready[key] = true, -1
		if w.open[m.Task].Role == protocol.RoleStandby {
			w.seen["reset of a standby"]++
		}
		w.wipe(m.Task, m.Table, m.Stream)
		answer(m.ID, protocol.Opened{Re: m.ID, Task: m.Task, Epoch: m.Epoch, Checkpoints: map[string]*string{m.Table: nil}})
	case protocol.Committed:
		w.answered(m.Task, m.Epoch)
		if key := keyOf(m.Task, m.Epoch); w.open[m.Task].Epoch == m.Epoch || w.released[key] {
			w.store(m.Task, m.Checkpoints)
		}
	case protocol.Aborted:
		w.answered(m.Task, m.Epoch)
		if w.visible[m.Re] {
			w.fail("commit %d of %s is answered aborted, and it is in Kafka", m.Re, m.Task)
		}
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

func (w *world) assigned(m protocol.Assign) protocol.Message {
	if m.Epoch <= w.epochs[m.Task] {
		w.fail("epoch of %s does not grow: %d after %d", m.Task, m.Epoch, w.epochs[m.Task])
	}
	if was, ok := w.open[m.Task]; ok {
		w.fail("%s is assigned while its epoch %d is not over", m.Task, was.Epoch)
	}
	for _, op := range w.ops {
		if id, ok := opTask(op); ok && id.String() == m.Task && m.Role == protocol.RoleActive {
			w.fail("%s is assigned while %T of it runs", m.Task, op)
		}
		if w.former[written(op)] {
			w.fail("%s is assigned while a commit of an earlier connection runs: %T", m.Task, op)
		}
	}
	missing, key := map[uint32]bool{}, keyOf(m.Task, m.Epoch)
	w.epochs[m.Task], w.open[m.Task], w.missing[key], w.unready[key] = m.Epoch, m, missing, -1
	points := map[string]*string{}
	for _, t := range m.Tables {
		points[t.Name], missing[t.Stream] = w.checkpoint(m.Task, t.Name), true
		w.opened(m.Task, m.Epoch, t)
	}
	return protocol.Opened{Re: m.ID, Task: m.Task, Epoch: m.Epoch, Checkpoints: points}
}

// say makes the worker's next answer.
func (w *world) say() {
	next := w.owed[0]
	w.owed = w.owed[1:]
	switch m := next.ev.(Received).Message.(type) {
	case protocol.Ready:
		if key := keyOf(m.Task, m.Epoch); w.unready[key] == m.Re {
			w.unready[key] = 0
		}
	case protocol.Released:
		if w.open[m.Task].Epoch == m.Epoch {
			delete(w.open, m.Task)
			w.released[keyOf(m.Task, m.Epoch)] = true
		}
	}
	w.step(next.ev)
}

func (w *world) answered(task string, epoch uint32) {
	key := keyOf(task, epoch)
	if w.waiting[key]--; w.waiting[key] < 0 {
		w.fail("an answer too many for %s", key)
	}
}
