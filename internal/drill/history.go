package drill

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pillion/pillion/internal/kafkatest/faultproxy"
)

// Guarantee is processing_guarantee.
type Guarantee string

// What can be drilled.
const (
	AtLeastOnce Guarantee = "at_least_once"
	ExactlyOnce Guarantee = "exactly_once"
)

// Event is one line of the history: something that was done or seen, and when.
type Event struct {
	At         time.Time            `json:"at"`
	What       string               `json:"what"`
	Pair       int                  `json:"pair,omitempty"`
	Life       int                  `json:"life,omitempty"` // of the process that says it, counted over all
	Task       string               `json:"task,omitempty"`
	Role       string               `json:"role,omitempty"`
	ID         int64                `json:"id,omitempty"`
	OK         bool                 `json:"ok,omitempty"`
	Generation int64                `json:"generation,omitempty"`
	Active     int                  `json:"active,omitempty"` // tasks that the sync gave
	Text       string               `json:"text,omitempty"`
	Fault      *Fault               `json:"fault,omitempty"`
	InFlight   []faultproxy.Request `json:"in_flight,omitempty"` // requests at the brokers, at a fault
}

// What events say. Those of a worker and a sidecar are their own lines.
const (
	FaultBegan  = "fault"
	FaultEnded  = "healed"
	FaultMissed = "passed over" // what it was to hit did not come
	WaveBegan   = "wave"
	WaveEnded   = "quiet" // all inputs are committed, the pairs have drained

	WorkerUp     = "worker up"
	WorkerEnded  = "worker ended"
	SidecarUp    = "sidecar up"
	SidecarEnded = "sidecar ended"
	CommitBegan  = "commit"
	CommitEnded  = "answer"
	TaskAssigned = "assigned" // to the worker
	TaskRestored = "restored"
	TaskLost     = "lost"

	// The same as the sidecar says, heard by the worker.
	WorkerRevoking = "revoking"
	WorkerPromoted = "promoted"
	WorkerDemoted  = "demoted"

	GroupAssigned = "group assigned" // to the sidecar
	TaskRunning   = "task running"
	TaskPromoted  = "task promoted"
	TaskRevoked   = "task revoked"
	TaskReleased  = "task released"
	TaskDemoted   = "task demoted"
	TaskRefused   = "task refused"
	GroupLost     = "membership lost"
	GroupLeft     = "left the group"
	InDoubt       = "in doubt" // it is not known how a write ended
)

// History is what happened, in the order in which it was heard of.
type History struct {
	mu     sync.Mutex
	events []Event
	live   *pendings
	to     io.Writer
}

// NewHistory also writes each event as a line, if to is not nil.
func NewHistory(to io.Writer) *History { return &History{live: newPendings(), to: to} }

// Add notes an event; the zero time is now.
func (h *History) Add(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.At.IsZero() {
		e.At = time.Now()
	}
	h.events = append(h.events, e)
	h.live.take(e)
	if h.to != nil {
		line, _ := json.Marshal(e)
		_, _ = h.to.Write(append(line, '\n'))
	}
}

// Events are all so far, by time.
func (h *History) Events() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return byTime(h.events)
}

// Pending says what is pending now, of a pair or (0) of any: as far as it was heard.
func (h *History) Pending(pair int) []Pending {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.live.of(pair)
}

// Hits says what a fault would hit now, as far as it was heard.
func (h *History) Hits(e Event) []Phase {
	h.mu.Lock()
	defer h.mu.Unlock()
	return hits(e, h.live)
}

// Settled says whether every sidecar is a member and every task runs, and what is pending else.
func (h *History) Settled() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	running := 0
	for n := 1; n <= Pairs; n++ {
		p := h.live.pair(n)
		if !p.member {
			return fmt.Errorf("the sidecar of pair %d is no member", n)
		}
		running += len(p.running)
	}
	for _, p := range h.live.of(0) {
		if p.Phase != Commit {
			return fmt.Errorf("a %s of %s is pending at pair %d", p.Phase, p.Task, p.Pair)
		}
	}
	if running != Partitions {
		return fmt.Errorf("%d of %d tasks run", running, Partitions)
	}
	return nil
}

// byTime sorts; events of one time stay in their order.
func byTime(events []Event) []Event {
	sorted := slices.Clone(events)
	slices.SortStableFunc(sorted, func(a, b Event) int { return a.At.Compare(b.At) })
	return sorted
}

// ReadHistory reads what Add wrote.
func ReadHistory(r io.Reader) (events []Event, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(events)+1, err)
		}
		events = append(events, e)
	}
	return events, lines.Err()
}

func (e Event) String() string {
	words := []string{e.At.Format("15:04:05.000")}
	if e.Pair > 0 {
		words = append(words, fmt.Sprintf("pair %d", e.Pair))
	}
	words = append(words, e.What)
	if e.Fault != nil {
		words = append(words, e.Fault.String())
	}
	for _, field := range []struct{ name, value string }{{"task", e.Task}, {"role", e.Role}, {"", e.Text}} {
		if field.value != "" {
			words = append(words, strings.TrimPrefix(field.name+"="+field.value, "="))
		}
	}
	if e.Generation > 0 {
		words = append(words, fmt.Sprintf("generation=%d", e.Generation))
	}
	if e.ID > 0 {
		words = append(words, fmt.Sprintf("id=%d ok=%v", e.ID, e.OK))
	}
	for _, r := range e.InFlight {
		words = append(words, fmt.Sprintf("[%s of %s at broker %d]", keyName(r.Key), r.Who, r.Node))
	}
	return strings.Join(words, " ")
}
