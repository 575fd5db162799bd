package session

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/pillion/pillion/protocol"
)

// maxLocates is how many questions of one worker may be open.
const maxLocates = 256

// Whereabouts is a question for the Locator: a partition of a set, or the one that a key belongs to.
type Whereabouts struct {
	Group     string
	Set       PreparedSet
	Key       []byte
	Partition *int32 // nil: the key's
}

// Locator tells who holds a task. It may take long and runs beside the loop. A RefusedError says why
// it cannot be told; any other error is Kafka's silence.
type Locator interface {
	Locate(ctx context.Context, ask Whereabouts) (protocol.Located, error)
}

// Locate asks who holds a task. Answer: Answered.
type Locate struct {
	Conn ConnID
	Re   int64
	Ask  Whereabouts
}

// Answered ends a question of the worker.
type Answered struct {
	Conn    ConnID
	Message protocol.Message
}

// locate answers a question of the worker beside everything else: it touches no task.
func (m *Machine) locate(q protocol.Locate) {
	w := m.worker
	switch {
	case !w.prepared:
		m.refuse(q.ID, protocol.CodeJoining, "the declarations are not checked yet: ask again", nil)
		return
	case w.locates >= maxLocates:
		m.refuse(q.ID, protocol.CodeNotAllowed, fmt.Sprintf("%d questions are open: wait for answers before asking more", w.locates), nil)
		return
	}
	set, why := m.prepared.whose(q)
	if why == "" && q.Partition != nil && *q.Partition >= set.Partitions {
		why = fmt.Sprintf("set %q has the partitions 0 to %d, there is no %d", set.Name, set.Partitions-1, *q.Partition)
	}
	if why != "" {
		m.refuse(q.ID, protocol.CodeUnknownTable, why, nil)
		return
	}
	key, err := base64.StdEncoding.DecodeString(q.Key)
	if err != nil || q.Partition != nil && q.Key != "" {
		m.refuse(q.ID, protocol.CodeBadMessage, "locate names a key in base64 or a partition, not both", nil)
		return
	}
	w.locates++
	m.do(Locate{Conn: w.conn, Re: q.ID, Ask: Whereabouts{Group: m.prepared.Group, Set: *set, Key: key, Partition: q.Partition}})
}

func (m *Machine) answered(ev Answered) {
	if m.worker != nil && m.worker.conn == ev.Conn {
		m.worker.locates--
		m.send(ev.Message)
	}
}

// whose finds the set that is asked for, or says why there is none.
func (p *Prepared) whose(q protocol.Locate) (found *PreparedSet, why string) {
	if q.Table == "" && q.Set == "" {
		return nil, "locate names neither a table nor a set: name one"
	}
	if q.Set != "" && p.set(q.Set) == nil {
		return nil, fmt.Sprintf("there is no set %q in the worker's declarations", q.Set)
	}
	if q.Table == "" {
		return p.set(q.Set), ""
	}
	for _, g := range p.Globals {
		if g.Name == q.Table {
			return nil, fmt.Sprintf("%q is a global table: every worker has all of it", q.Table)
		}
	}
	for i := range p.Sets {
		s := &p.Sets[i]
		if q.Set != "" && s.Name != q.Set || !s.has(q.Table) {
			continue
		}
		if found != nil {
			return nil, fmt.Sprintf("the sets %q and %q both have a table %q: name the set, too", found.Name, s.Name, q.Table)
		}
		found = s
	}
	if found == nil {
		return nil, fmt.Sprintf("there is no table %q in the worker's declarations", q.Table)
	}
	return found, ""
}

func (s *PreparedSet) has(table string) bool {
	for _, t := range s.Tables {
		if t.Name == table {
			return true
		}
	}
	return false
}

// locate is the step beside the loop.
func (r *Runner) locate(ctx context.Context, e Locate) Event {
	found, err := r.ports.Locator.Locate(ctx, e.Ask)
	if err == nil {
		found.Re = e.Re
		return Answered{Conn: e.Conn, Message: found}
	}
	answer := protocol.Error{Re: e.Re, Code: protocol.CodeKafkaUnreachable, Message: err.Error()}
	if res := resultOf(err); res.Outcome == Refused {
		answer.Code, answer.Message = res.Code, res.Message
	}
	return Answered{Conn: e.Conn, Message: answer}
}
