package groupclient

import (
	"fmt"
	"maps"
	"time"
)

// TxnPositions is what a transaction commits for a task, as of the moment of the call.
type TxnPositions struct {
	Incarnation string  // whose producer has to commit it
	Member      string  // with generation and instance: what the coordinator fences a zombie by
	Generation  int32   // the newest that the coordinator has told us
	Instance    *string // group.instance.id; nil: a dynamic member
	Partition   int32
	Offsets     map[string]int64 // of every source of the task, unchanged ones too
	Metadata    string           // the claim, not released
}

// Transactional is what a transaction has to commit for a task that was taken over; to be asked for directly
// before TxnOffsetCommit is sent. A source that next does not name keeps its position. It fails with ErrLost
// when the task is not ours any more. After it the end of the transaction has to be told with Transacted when it
// was committed; until then a release of the task first reads what is committed.
//
// Between the answer to a JoinGroup and its sync the generation of that answer is sent, and nothing waits: the
// coordinator has left the one before (ILLEGAL_GENERATION), and takes the new one. It is right, too: whoever has
// joined that generation has said in it that the task is ours, so that its plan gives the task to nobody else.
// Where the answer is still on its way, the coordinator refuses: the transaction is aborted and repeated after
// the sync.
func (g *Group) Transactional(t Task, next map[string]int64) (TxnPositions, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	task := g.owned[t]
	switch {
	case task == nil || g.identity.generation < 0 || g.fenced != nil:
		return TxnPositions{}, fmt.Errorf("committing task %s: it is not owned: %w", t, ErrLost)
	case !task.taken:
		return TxnPositions{}, fmt.Errorf("committing task %s: it has not been taken over", t)
	case task.releasing:
		return TxnPositions{}, fmt.Errorf("committing task %s: its release is being written", t)
	}
	positions, err := task.merged(t, next)
	if err != nil {
		return TxnPositions{}, err
	}
	task.doubt, task.since = true, time.Now()
	id := g.newestIdentity()
	return TxnPositions{
		Incarnation: id.incarnation, Member: id.member, Generation: id.generation, Instance: g.instance(),
		Partition: t.Partition, Offsets: positions, Metadata: task.open,
	}, nil
}

// Transacted notes that a transaction of that incarnation, which Transactional gave these positions, was committed.
func (g *Group) Transacted(t Task, next map[string]int64, incarnation string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	task := g.owned[t]
	if task == nil {
		task = g.parting[t]
	}
	if task == nil || !task.taken || g.identity.incarnation != incarnation {
		return
	}
	if positions, err := task.merged(t, next); err == nil {
		task.position, task.doubt = positions, false
	}
}

// merged are the positions of all sources after next.
func (o *ownedTask) merged(t Task, next map[string]int64) (map[string]int64, error) {
	positions := maps.Clone(o.position)
	for source, offset := range next {
		if _, ok := positions[source]; !ok || offset < 0 {
			return nil, fmt.Errorf("committing task %s: position %d of %q is not one of its sources'", t, offset, source)
		}
		positions[source] = offset
	}
	return positions, nil
}

// newestIdentity is who we are in the newest generation that the coordinator has told us of; needs g.mu. That
// may be one whose sync is not answered yet.
func (g *Group) newestIdentity() identity {
	id := g.identity
	if g.newest > id.generation {
		id.generation = g.newest
	}
	return id
}

// Hurry makes Run ask the coordinator now: it has refused the generation or the member of a transaction.
func (g *Group) Hurry() { g.hurry() }
