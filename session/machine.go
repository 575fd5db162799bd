package session

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pillion/pillion/protocol"
)

// Machine is the pure state of one worker session. It is not safe for concurrent use: the Runner
// owns it.
type Machine struct {
	cfg Config
	now time.Time
	out []Effect

	worker   *worker // the newest connection; nil: none
	prepared *Prepared
	joined   bool // we are in the group, or on the way
	member   string
	// generation is Kafka's; 0 while we are no member.
	generation int32
	syncs      int64 // Assigned so far
	joinDue    bool  // the group does not know the newest declarations yet
	tasks      map[TaskID]*task
	globals    map[TaskID]*task
	order      []*task // tasks and globals in their order; nil: to be made anew

	lastEpoch  uint32
	lastStream uint32
	lastID     int64
	lastOp     int64
	orphans    map[int64]orphan // steps of Kafka whose owner was dropped while they ran
	orphanOf   map[TaskID]int   // how many of them a task has
	unended    tally            // commits, in their tasks and orphaned
	kept       map[TaskID]bool  // tasks let go since the last sync whose stores the worker has whole
	tookOvers  map[string]TookOvers
	streams    map[uint32]*task // by stream, of living epochs
	epochs     map[uint32]*task // by number, living ones

	graceUntil time.Time // no worker: leave the group then
	prepareAt  time.Time // Prepare is tried again then
	draining   bool
	drainUntil time.Time
	gaveUp     bool // the drain had its time
	leaving    bool // every task is to go, then the membership
	leaveSent  bool
	waiting    GroupWaiting
	waitsSince time.Time // waiting
	waitsTold  time.Time // in the log, last
	stopped    bool
	chatter    chatter
}

// worker is the newest connection.
type worker struct {
	conn       ConnID
	hello      protocol.Hello
	prepared   bool
	globalsOK  bool // all global tables were whole once on this connection
	lastActive time.Time
	hung       bool
	locates    int  // questions without an answer
	idle       bool // it was told that it has no task
}

// NewMachine makes a session without worker and group.
func NewMachine(cfg Config) (*Machine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Machine{
		cfg:     cfg,
		tasks:   map[TaskID]*task{},
		globals: map[TaskID]*task{},
		streams: map[uint32]*task{},
		epochs:  map[uint32]*task{},
		orphans: map[int64]orphan{}, orphanOf: map[TaskID]int{}, unended: tally{by: map[ConnID]int{}},
		kept: map[TaskID]bool{}, tookOvers: map[string]TookOvers{},
	}, nil
}

// Step takes one event at a time now. An event that does not fit is an error; nothing has changed then.
//
// INVARIANT: the machine's time goes on only where every step that is due is made: what became due in
// between would be asked for by no Deadline any more.
func (m *Machine) Step(now time.Time, ev Event) ([]Effect, error) {
	settled := m.now
	m.now, m.out = now, nil
	if m.stopped {
		return nil, nil
	}
	if alive, ok := ev.(Active); ok && !m.active(alive.Conn) {
		m.now = settled
		return nil, nil // nothing else can have changed
	}
	err := m.handle(ev)
	if err == nil {
		err = m.settle()
	}
	return m.out, err
}

func (m *Machine) handle(ev Event) error {
	switch ev := ev.(type) {
	case Connected:
		m.connected(ev)
	case Received:
		return m.received(ev)
	case Disconnected:
		m.disconnected(ev)
	case Active: // Step has seen to it
	case PreparedOK:
		return m.preparedOK(ev)
	case PrepareFailed:
		m.prepareFailed(ev)
	case TopicsChanged:
		m.topicsChanged(ev)
	case Assigned:
		return m.assigned(ev)
	case GroupLost:
		return m.groupLost(ev.Code, ev.Message)
	case GroupFatal:
		m.groupFatal(ev)
	case GroupWaiting:
		m.groupWaiting(ev)
	case TookOver:
		return m.tookOver(ev)
	case ReleaseWritten:
		return m.releaseWritten(ev)
	case Left:
		m.left()
	case Transacted:
		return m.transacted(ev)
	case Produced:
		return m.produced(ev)
	case ProduceEnded:
		m.ended(ev.Op)
	case PositionsCommitted:
		return m.positionsCommitted(ev)
	case Reached:
		return m.reached(ev)
	case ResetNeeded:
		return m.resetNeeded(ev)
	case ReplayProgress:
		m.restoring(ev)
	case StreamFailed:
		return m.streamFailed(ev)
	case Answered:
		m.answered(ev)
	case Drain:
		return m.drain()
	case Tick:
		return m.tick(ev)
	default:
		return fmt.Errorf("session: unknown event %T", ev)
	}
	return nil
}

func (m *Machine) do(effects ...Effect) { m.out = append(m.out, effects...) }

func (m *Machine) log(level, message string, args ...any) {
	m.do(Log{Level: level, Message: message, Args: args})
}

// send reaches the present worker; without one the message is dropped.
func (m *Machine) send(msg protocol.Message) {
	if m.worker != nil {
		m.do(Send{Conn: m.worker.conn, Message: msg})
	}
}

func (m *Machine) nextID() int64 {
	m.lastID++
	return m.lastID
}

func (m *Machine) nextOp() int64 {
	m.lastOp++
	return m.lastOp
}

func (m *Machine) newStream(t *task, writable bool) uint32 {
	m.lastStream++
	m.streams[m.lastStream] = t
	m.do(OpenStream{Conn: t.conn, Stream: m.lastStream, Epoch: t.epoch, Writable: writable})
	return m.lastStream
}

// all gives every task and global table in a fixed order, so that the same events give the same
// effects. The list stays as it is while tasks come and go.
func (m *Machine) all() []*task {
	if m.order != nil {
		return m.order
	}
	list := slices.Collect(maps.Values(m.tasks))
	list = slices.AppendSeq(list, maps.Values(m.globals))
	slices.SortFunc(list, func(a, b *task) int {
		if a.id.Global != b.id.Global {
			if a.id.Global {
				return -1
			}
			return 1
		}
		if c := strings.Compare(a.id.Set, b.id.Set); c != 0 {
			return c
		}
		return int(a.id.Partition - b.id.Partition)
	})
	m.order = list
	return list
}

func (m *Machine) addTask(t *task)    { m.tasks[t.id], m.order = t, nil }
func (m *Machine) dropTask(id TaskID) { delete(m.tasks, id); m.order = nil }

func (m *Machine) setGlobals(globals map[TaskID]*task) { m.globals, m.order = globals, nil }

// inEpoch finds the task that has this epoch now, on this connection.
func (m *Machine) inEpoch(name string, epoch uint32, conn ConnID) *task {
	t := m.epochs[epoch]
	if t == nil || t.id.String() != name || t.conn != conn || !t.open() {
		return nil
	}
	return t
}

// settle makes every step that the new state allows.
func (m *Machine) settle() error {
	for changed := true; changed; {
		changed = m.maybeJoin()
		for _, t := range m.all() {
			moved, err := m.advance(t)
			if err != nil {
				return err
			}
			changed = changed || moved
		}
	}
	m.maybeLeave()
	return nil
}

// advance makes the one step of a task that waits for nothing more.
func (m *Machine) advance(t *task) (bool, error) {
	if m.startCommit(t) {
		return true, nil
	}
	due := !t.waitsSync && !m.now.Before(t.retryAt)
	switch t.state {
	case Parked:
		if due && m.mayOpen(t) {
			return true, m.open(t)
		}
	case Idle:
		if due && m.mayOpen(t) {
			return true, m.shadow(t)
		}
	case Shadowing:
		if t.want == beActive && due && m.mayOpen(t) {
			return true, m.open(t)
		}
	case Ready:
		if t.id.Global {
			return true, m.run(t)
		}
		if m.worker != nil && m.worker.globalsOK {
			return true, m.run(t)
		}
	case Failing, Finishing:
		if len(t.commits) == 0 && (m.leaving || !m.doubted(t.id)) {
			return true, m.finished(t)
		}
	case Releasing, Demoting:
		if due && t.op == 0 {
			m.writeRelease(t)
			return true, nil
		}
	}
	return false, nil
}

// mayOpen: a worker is there with its declarations checked, nothing is on its way out, and no commit
// of an earlier connection is open.
func (m *Machine) mayOpen(t *task) bool {
	w := m.worker
	if w == nil || !w.prepared || w.hung || m.leaving || m.draining || m.joinDue {
		return false
	}
	return m.orphanOf[t.id] == 0 && m.unended.others(w.conn) == 0 && len(t.commits) == 0
}

// Deadline is when the machine wants a Tick at the latest; zero: not at all.
func (m *Machine) Deadline() time.Time {
	var first time.Time
	want := func(at time.Time) {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	want(m.drainUntil)
	if m.worker == nil {
		want(m.graceUntil)
	} else {
		want(m.prepareAt)
	}
	if m.worker != nil && !m.worker.hung && m.cfg.MaxProcessing > 0 {
		want(m.worker.lastActive.Add(m.cfg.MaxProcessing))
	}
	for _, t := range m.all() {
		if t.state == Revoking {
			want(t.deadline)
		}
		if t.retryAt.After(m.now) {
			want(t.retryAt)
		}
		if len(t.commits) > 0 && t.commits[0].retryAt.After(m.now) {
			want(t.commits[0].retryAt)
		}
	}
	return first
}
