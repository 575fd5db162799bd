package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/protocol"
)

// Ports are the edges that the Runner drives.
type Ports struct {
	Group    Group
	Restorer Restorer
	Feeder   Feeder
	Producer Producer
	Locator  Locator
}

// Runner owns a Machine: one goroutine (Run) takes events in the order of Post and carries out the
// effects. Steps of Kafka run in goroutines of their own that Run waits for.
type Runner struct {
	machine *Machine
	ports   Ports
	log     hclog.Logger
	now     func() time.Time

	mu      sync.Mutex
	inbox   []Event
	offered int        // events of the worker in inbox
	room    *sync.Cond // there may be room for more of them
	ended   bool
	arrived chan struct{}
	status  atomic.Pointer[Status]

	// Owned by Run.
	conns   map[ConnID]Conn
	lanes   map[uint32]*lane
	steps   sync.WaitGroup
	stopped bool
	failure string

	// gates is what Deliver and Delivered read from other goroutines.
	gates sync.Map // stream -> *gate.Gate
	// copies is what Copies reads, and replays where it finds their lags.
	copies  atomic.Pointer[[]copied]
	replays sync.Map // stream -> Replay
}

// lane is a stream of a living epoch: its gate and the replay or feed behind it. Each message in the
// stream has a gate of its own, so that it can be taken back without the frames.
type lane struct {
	conn  ConnID
	epoch uint32
	gate  *gate.Gate
	marks []*gate.Gate
	stop  func()

	replay     Replay // nil: none was started
	checkpoint string // that it began at
	counted    int64  // records that it had sent when the take-over of its copy began
}

// unsay drops the last message in the stream, if it has not been sent.
func (l *lane) unsay() {
	if l == nil || len(l.marks) == 0 {
		return
	}
	last := len(l.marks) - 1
	l.marks[last].Close()
	l.marks = l.marks[:last]
}

// handOver stops the replay behind a lane, without the frames that are queued, and says what they, or
// else the store, are complete up to.
func (l *lane) handOver() string {
	l.gate.Pause()
	if l.stop != nil {
		l.stop()
		l.stop = nil
	}
	return cmp.Or(l.gate.Checkpoint(), l.checkpoint)
}

// NewRunner makes a Runner. The ports report back through Post.
func NewRunner(cfg Config, log hclog.Logger) (*Runner, error) {
	m, err := NewMachine(cfg)
	if err != nil {
		return nil, err
	}
	r := &Runner{
		machine: m, log: log, now: time.Now,
		arrived: make(chan struct{}, 1),
		conns:   map[ConnID]Conn{}, lanes: map[uint32]*lane{},
	}
	r.room = sync.NewCond(&r.mu)
	r.status.Store(&Status{})
	return r, nil
}

// Post hands an event to the loop. It never blocks and may be called from anywhere.
func (r *Runner) Post(ev Event) {
	r.mu.Lock()
	r.inbox = append(r.inbox, ev)
	r.mu.Unlock()
	r.wake()
}

func (r *Runner) wake() {
	select {
	case r.arrived <- struct{}{}:
	default:
	}
}

// maxOffered is how many events of the worker may wait for the loop.
const maxOffered = 32

// Offer is Post for what the worker sends. INVARIANT: a worker that sends faster than the loop turns is
// made to wait; what it has sent does not pile up.
func (r *Runner) Offer(ev Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.offered >= maxOffered && !r.ended {
		r.room.Wait()
	}
	if r.ended {
		return
	}
	if _, ok := ev.(Active); ok && len(r.inbox) > 0 && r.inbox[len(r.inbox)-1] == ev {
		return // said already
	}
	r.inbox = append(r.inbox, ev)
	r.offered++
	r.wake()
}

// Attach announces a new worker connection; the Connected event follows it in the same order.
func (r *Runner) Attach(id ConnID, c Conn, hello protocol.Hello) {
	connected := Connected{Conn: id, Hello: hello}
	if named, ok := c.(interface{ ID() string }); ok {
		connected.Session = named.ID()
	}
	r.Post(attach{id: id, conn: c})
	r.Post(connected)
}

// Vet says why a worker with this hello cannot become the worker, before it takes the place of another;
// nil: it may. It does not wait and may be called from anywhere.
func (r *Runner) Vet(h protocol.Hello) *Refusal {
	s := r.Status()
	return r.machine.cfg.refusal(s.Group, s.Draining, h)
}

type attach struct {
	id   ConnID
	conn Conn
}

// Alive returns when the loop has taken an event, or with ctx's error.
func (r *Runner) Alive(ctx context.Context) error {
	turned := make(chan struct{})
	r.Post(ping(turned))
	select {
	case <-turned:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type ping chan struct{}

// Delivered is the position behind the last frame sent on a stream.
func (r *Runner) Delivered(stream uint32) int64 {
	if g, ok := r.gates.Load(stream); ok {
		return g.(*gate.Gate).Delivered()
	}
	return 0
}

// records is the position directly behind the last record sent on a stream.
func (r *Runner) records(stream uint32) int64 {
	if g, ok := r.gates.Load(stream); ok {
		return g.(*gate.Gate).Records()
	}
	return 0
}

// Status is the state of the session as of the last event.
func (r *Runner) Status() Status { return *r.status.Load() }

// Run serves until the machine stops (after Drain, or because Kafka refuses for good) or ctx ends.
func (r *Runner) Run(ctx context.Context, ports Ports) error {
	r.ports = ports
	steps, cancel := context.WithCancel(ctx)
	defer r.steps.Wait()
	defer cancel()
	defer r.closeLanes()
	defer r.letGo()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for !r.stopped {
		wait := time.Hour
		if at := r.machine.Deadline(); !at.IsZero() {
			wait = max(0, at.Sub(r.now()))
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.arrived:
			for _, ev := range r.take() {
				r.step(steps, ev)
			}
		case <-timer.C:
			r.step(steps, Tick{Owes: r.owes()})
		}
	}
	if r.failure != "" {
		return errors.New(r.failure)
	}
	return nil
}

func (r *Runner) take() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.inbox
	r.inbox, r.offered = nil, 0
	r.room.Broadcast()
	return events
}

// letGo ends the waiting of those who offer.
func (r *Runner) letGo() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.room.Broadcast()
}

func (r *Runner) step(ctx context.Context, ev Event) {
	switch ev := ev.(type) {
	case attach:
		r.conns[ev.id] = ev.conn
		return
	case ping:
		close(ev)
		return
	}
	ev = r.informed(ev)
	effects, err := r.machine.Step(r.now(), ev)
	if err != nil {
		r.log.Error("event refused", "event", fmt.Sprintf("%T", ev), "error", err)
	}
	if changesCopies(ev) {
		r.noteCopies() // before the group hears anything: it may join at once, and tells them then
	}
	for _, e := range effects {
		r.carryOut(ctx, e)
	}
	switch ev := ev.(type) {
	case Active:
		if len(effects) == 0 {
			return // nothing has changed
		}
	case Disconnected:
		delete(r.conns, ev.Conn)
	}
	status := r.machine.Status()
	r.status.Store(&status)
}

// informed adds what the data path knows.
func (r *Runner) informed(ev Event) Event {
	switch ev := ev.(type) {
	case Received:
		if c, ok := ev.Message.(protocol.Commit); ok {
			ev.Delivered = r.delivered(ev.Conn, c)
			return ev
		}
	case Reached:
		if l := r.lanes[ev.Stream]; l != nil {
			ev.Records -= l.counted
			return ev
		}
	case Assigned:
		r.holdRecords(ev)
		ev.Uncommitted = map[TaskID]bool{}
		for id, t := range r.machine.tasks {
			if r.uncommitted(t) {
				ev.Uncommitted[id] = true
			}
		}
		return ev
	}
	return ev
}

// holdRecords stops the records of tasks that are to become copies, whose feeds the machine ends now.
// INVARIANT: no record goes out between the look at what was delivered and the demotion.
func (r *Runner) holdRecords(ev Assigned) {
	for _, id := range ev.Standby {
		t := r.machine.tasks[id]
		if t == nil || t.state != Running || slices.Contains(ev.Active, id) {
			continue
		}
		for _, s := range t.sources {
			if l := r.lanes[s.Stream]; l != nil {
				l.gate.Pause()
			}
		}
	}
}

// uncommitted says whether records were delivered whose position is not committed.
func (r *Runner) uncommitted(t *task) bool {
	for _, s := range t.sources {
		if r.records(s.Stream) > t.positions[s.Topic] {
			return true
		}
	}
	return false
}

// delivered is what the worker has been sent of each source of a commit's task. The commit was sent
// after its records had been received, so that their frames went through the gate before.
func (r *Runner) delivered(conn ConnID, c protocol.Commit) map[string]int64 {
	t := r.machine.inEpoch(c.Task, c.Epoch, conn)
	if t == nil {
		return nil
	}
	at := map[string]int64{}
	for _, s := range t.sources {
		at[s.Topic] = max(s.Position, r.Delivered(s.Stream))
	}
	return at
}

// owes says whether frames are not credited yet, or delivered records not committed yet.
func (r *Runner) owes() bool {
	w := r.machine.worker
	if w == nil {
		return false
	}
	if c := r.conns[w.conn]; c != nil && c.Owes() {
		return true
	}
	for _, t := range r.machine.tasks {
		if r.uncommitted(t) {
			return true
		}
	}
	return false
}

func (r *Runner) closeLanes() {
	for id := range r.lanes {
		r.closeLane(id)
	}
}
