package drill

import "fmt"

// Phase is what may be pending when a fault strikes.
type Phase string

// The phases that count.
const (
	Commit    Phase = "commit"
	Restore   Phase = "restore"
	TakeOver  Phase = "take-over"
	Rebalance Phase = "rebalance"
)

// Phases are all of them, in the order of the table.
var Phases = []Phase{Commit, Restore, TakeOver, Rebalance}

// Pending is one thing that has begun and not ended.
type Pending struct {
	Phase Phase
	Pair  int
	Task  string
}

// pendings follows the history:
//
//	commit     from a worker's call to the answer that it has acted on, or its end
//	restore    from a task's opening as active at the worker until its tables are whole, or it is lost or revoked
//	take-over  while the sync has given a sidecar more actives than run there
//	rebalance  from a revoke until the release, or the loss of the membership
//
// What only Kafka sees (a JoinGroup that waits, a fence) is in the requests in flight; see hits.
type pendings struct {
	pairs map[int]*pairPending
}

type pairPending struct {
	commits   map[string]string // by life and id: the task
	restoring map[string]bool
	revoking  map[string]bool
	given     int             // actives of the last sync
	running   map[string]bool // actives in place
	member    bool            // since the sidecar's start or loss it was given something
}

func newPendings() *pendings { return &pendings{pairs: map[int]*pairPending{}} }

func (p *pendings) pair(n int) *pairPending {
	if p.pairs[n] == nil {
		p.pairs[n] = &pairPending{commits: map[string]string{}, restoring: map[string]bool{}, revoking: map[string]bool{}, running: map[string]bool{}}
	}
	return p.pairs[n]
}

func (p *pendings) take(e Event) {
	if e.Pair == 0 {
		return
	}
	pp := p.pair(e.Pair)
	id := fmt.Sprintf("%d/%d", e.Life, e.ID)
	switch e.What {
	case CommitBegan:
		pp.commits[id] = e.Task
	case CommitEnded:
		delete(pp.commits, id)
	case WorkerEnded, WorkerUp:
		clear(pp.commits)
		clear(pp.restoring)
	case TaskAssigned:
		if delete(pp.restoring, e.Task); e.Role == "active" {
			pp.restoring[e.Task] = true
		}
	case TaskRestored, WorkerRevoking, WorkerPromoted, WorkerDemoted:
		delete(pp.restoring, e.Task)
	case TaskLost:
		delete(pp.restoring, e.Task)
		delete(pp.running, e.Task)
	case GroupAssigned:
		pp.given, pp.member = e.Active, true
	case TaskRunning, TaskPromoted:
		pp.running[e.Task] = true
	case TaskRevoked:
		pp.revoking[e.Task] = true
		delete(pp.running, e.Task)
		delete(pp.restoring, e.Task)
	case TaskReleased:
		delete(pp.revoking, e.Task)
		delete(pp.running, e.Task)
		delete(pp.restoring, e.Task)
	case TaskDemoted:
		delete(pp.running, e.Task)
		delete(pp.restoring, e.Task)
	case GroupLost, GroupLeft, SidecarUp, SidecarEnded:
		pp.given, pp.member = 0, false
		clear(pp.running)
		clear(pp.revoking)
	}
}

// of lists what is pending at a pair, or (0) at all.
func (p *pendings) of(pair int) (list []Pending) {
	for n := 1; n <= Pairs; n++ {
		pp := p.pairs[n]
		if pp == nil || pair != 0 && pair != n {
			continue
		}
		for _, task := range pp.commits {
			list = append(list, Pending{Commit, n, task})
		}
		for task := range pp.restoring {
			list = append(list, Pending{Restore, n, task})
		}
		for task := range pp.revoking {
			list = append(list, Pending{Rebalance, n, task})
		}
		if pp.given > len(pp.running) {
			list = append(list, Pending{TakeOver, n, ""})
		}
	}
	return list
}
