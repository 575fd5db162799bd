package session

import (
	"context"
	"errors"
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
}

// lane is a stream of a living epoch: its gate and the replay or feed behind it.
type lane struct {
	conn  ConnID
	epoch uint32
	gate  *gate.Gate
	stop  func()
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
	r.status.Store(&Status{})
	return r, nil
}

// Post hands an event to the loop. It never blocks and may be called from anywhere.
func (r *Runner) Post(ev Event) {
	r.mu.Lock()
	r.inbox = append(r.inbox, ev)
	r.mu.Unlock()
	select {
	case r.arrived <- struct{}{}:
	default:
	}
}

// Attach announces a new worker connection; the Connected event follows it in the same order.
func (r *Runner) Attach(id ConnID, c Conn, hello protocol.Hello) {
	r.Post(attach{id: id, conn: c})
	r.Post(Connected{Conn: id, Hello: hello})
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

// Status is the state of the session as of the last event.
func (r *Runner) Status() Status { return *r.status.Load() }

// Run serves until the machine stops (after Drain, or because Kafka refuses for good) or ctx ends.
func (r *Runner) Run(ctx context.Context, ports Ports) error {
	r.ports = ports
	steps, cancel := context.WithCancel(ctx)
	defer r.steps.Wait()
	defer cancel()
	defer r.closeLanes()
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
	r.inbox = nil
	return events
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
	if rec, ok := ev.(Received); ok {
		if c, ok := rec.Message.(protocol.Commit); ok {
			rec.Delivered = r.delivered(c)
			ev = rec
		}
	}
	effects, err := r.machine.Step(r.now(), ev)
	if err != nil {
		r.log.Error("event refused", "event", ev, "error", err)
	}
	for _, e := range effects {
		r.carryOut(ctx, e)
	}
	if d, ok := ev.(Disconnected); ok {
		delete(r.conns, d.Conn)
	}
	status := r.machine.Status()
	r.status.Store(&status)
}

// delivered is what the worker has been sent of each source of a commit's task. The commit was sent
// after its records had been received, so that their frames went through the gate before.
func (r *Runner) delivered(c protocol.Commit) map[string]int64 {
	t := r.machine.byWireName(c.Task)
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
		for _, s := range t.sources {
			if r.Delivered(s.Stream) > t.positions[s.Topic] {
				return true
			}
		}
	}
	return false
}

func (r *Runner) closeLanes() {
	for id := range r.lanes {
		r.closeLane(id)
	}
}
