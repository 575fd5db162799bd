package session

import (
	"fmt"
	"time"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// wish is what the last sync wants us to do with a task. A task that is on its way back to the group
// becomes it afterwards.
type wish int

const (
	letGo wish = iota
	beActive
	beStandby
)

// former is an epoch that a promoted or demoted has ended, and that the worker may not have left yet:
// until it speaks of the new one, what is queued of the old one still goes out, in front of that message.
type former struct {
	epoch   uint32
	streams []uint32
	place   uint32 // the stream whose place in the data queue messages take; 0: it had no tables
}

// task is one task of ours, and what its present epoch has at the worker.
type task struct {
	id    TaskID
	set   *PreparedSet // nil for a global table
	state State
	want  wish
	// claimed: a sync has made us its active, and we have not let go since: the group claims it for us.
	claimed bool

	counting   bool      // what its copy replays is counted
	began      time.Time // when the sync gave it to us as its active, or its last epoch failed
	revokeCode string
	retryAt    time.Time // of the next open or release
	waitsSync  bool      // a step of Kafka waits for the next Assigned
	op         int64     // the take-over or release under way
	since      int64     // syncs when op began
	outdated   bool      // the take-over under way is for declarations that hold no more
	failures   int       // epochs that failed since the last commit
	taken      bool      // positions are known: the claim was written
	positions  map[string]int64
	topicIDs   map[string][16]byte
	ends       map[string]int64 // per changelog table
	heads      map[string]int64 // per changelog table: where the next write must land, when nobody else writes

	epoch    uint32
	conn     ConnID
	sources  []protocol.SourceStream
	tables   []*table
	outputs  []protocol.OutputStream
	awaiting int64     // id of the request that the worker owes an answer to; 0: none
	void     int64     // id of the last restored or promoted that a reset has undone
	former   []former  // oldest first
	promoted bool      // the epoch began so
	ran      bool      // records have flowed in it
	whole    bool      // the stores of the last epoch were whole at its end
	deadline time.Time // of a revoke

	commits []*commit // in the order received; the first one is under way
}

// table is one table partition of an open task.
type table struct {
	stream    protocol.TableStream
	reached   bool
	resetting int64 // id of the reset that the worker owes an answer to

	replayed   int64  // records of the replay, when it reached its end; of a copy, since it is ours
	checkpoint string // of the last commit that wrote to it; empty: none did in this epoch
}

func (t *task) reached() bool {
	for _, tb := range t.tables {
		if !tb.reached {
			return false
		}
	}
	return true
}

// firstStream is any stream of the epoch; its gate stands for the task's place in the data queue.
func (t *task) firstStream() uint32 {
	if len(t.tables) > 0 {
		return t.tables[0].stream.Stream
	}
	return t.sources[0].Stream
}

// open says whether the worker has the task under a living epoch.
func (t *task) open() bool { return t.state >= Shadowing && t.state <= Revoking }

// copied says whether the worker has the task as a standby.
func (t *task) copied() bool { return t.state >= Shadowing && t.state <= Demoting }

// copyOnly says that we are no more than a standby of the task: the group has no claim of ours.
func (t *task) copyOnly() bool {
	return (t.state == Idle || t.state == Shadowing) && !t.claimed
}

// steady says that the tables are whole and the worker, too, knows it: of a task that is Ready or
// Running.
func (t *task) steady() bool { return t.reached() && t.awaiting == 0 }

func (t *task) streams() []uint32 {
	ids := make([]uint32, 0, len(t.tables)+len(t.sources)+len(t.outputs))
	for _, tb := range t.tables {
		ids = append(ids, tb.stream.Stream)
	}
	for _, s := range t.sources {
		ids = append(ids, s.Stream)
	}
	for _, o := range t.outputs {
		ids = append(ids, o.Stream)
	}
	return ids
}

// commit is one commit that has arrived whole.
type commit struct {
	conn      ConnID
	msg       protocol.Commit
	writes    *protocol.Writes
	dest      []StreamWrites
	delivered map[string]int64
	refuse    *Result // decided at arrival, answered in its turn
	next      map[string]int64
	op        int64 // the step of Kafka under way; 0: none
	since     int64 // syncs when op began
	produced  bool
	waitsSync bool
	retryAt   time.Time
	landed    map[string]Landed // by table
	foreign   string            // a changelog in which somebody else has written in between
}

// destinations sorts the frames of a commit by where they go. It refuses a stream that is none of the
// task's: the bridge only knows that it may be written to.
func (t *task) destinations(w *protocol.Writes) ([]StreamWrites, *Result) {
	var list []StreamWrites
	index := map[uint32]int{}
	for _, f := range w.Frames {
		h, err := frame.ParseHeader(f)
		if err != nil {
			return nil, &Result{Outcome: Refused, Code: protocol.CodeBadMessage, Message: err.Error()}
		}
		i, ok := index[h.Stream]
		if !ok {
			to := t.destination(h.Stream)
			if to.Topic == "" {
				return nil, &Result{Outcome: Refused, Code: protocol.CodeUnknownStream, Message: fmt.Sprintf(
					"stream %d of commit %d is not one that task %s writes to", h.Stream, w.ID, t.id)}
			}
			i = len(list)
			index[h.Stream] = i
			list = append(list, to)
		}
		list[i].Frames = append(list[i].Frames, f)
	}
	return list, nil
}

func (t *task) destination(stream uint32) StreamWrites {
	for _, tb := range t.tables {
		if tb.stream.Stream == stream && tb.stream.Kind == protocol.TableChangelog {
			return StreamWrites{Topic: tb.stream.Topic, Table: tb.stream.Name, Partition: t.id.Partition}
		}
	}
	for _, o := range t.outputs {
		if o.Stream == stream {
			return StreamWrites{Topic: o.Topic, Partition: -1}
		}
	}
	return StreamWrites{}
}
