package session

import (
	"github.com/pillion/pillion/protocol"
)

// Event is something that happened outside of the machine.
// Step refuses what is none of the types below.
type Event any

// From the worker's connection.
type (
	// Connected: a worker has said a well-formed hello. The newest connection wins.
	// Session names it in the logs of both sides; empty: by its number.
	Connected struct {
		Conn    ConnID
		Hello   protocol.Hello
		Session string
	}
	// Received is any other message of the worker. Writes comes with a Commit only. Delivered holds,
	// for a Commit, the position behind the last records frame sent of each source topic of its task.
	Received struct {
		Conn      ConnID
		Message   protocol.Message
		Writes    *protocol.Writes
		Delivered map[string]int64
	}
	// Disconnected: the socket is closed.
	Disconnected struct {
		Conn ConnID
		Err  error
	}
	// Active: the worker has shown life (credit or progress).
	Active struct{ Conn ConnID }
)

// From the group.
type (
	// PreparedOK answers Prepare.
	PreparedOK struct {
		Conn     ConnID
		Prepared Prepared
	}
	// PrepareFailed answers Prepare: refused in words (Code), or Kafka is away (Retry).
	PrepareFailed struct {
		Conn          ConnID
		Code, Message string
		Retry         bool
	}
	// Assigned: a sync has ended; these are our tasks, by the worker's set names. A task that we hold
	// and that is Standby here, not Active, is to be let go of and its tables kept. Uncommitted are those
	// of which records were delivered that are not committed; the Runner fills it in.
	Assigned struct {
		Generation  int32
		MemberID    string
		Active      []TaskID
		Standby     []TaskID
		Uncommitted map[TaskID]bool
	}
	// GroupLost: the membership is gone; the group edge joins again by itself.
	GroupLost struct{ Code, Message string }
	// GroupFatal: Kafka refuses for good.
	GroupFatal struct{ Code, Message string }
	// GroupWaiting tells what the group waits for; code ok: over.
	GroupWaiting struct{ Code, Message string }
	// TookOver answers TakeOverTask.
	TookOver struct {
		Task TaskID
		Op   int64
		Result
		TakeOver TakeOver
	}
	// ReleaseWritten answers WriteRelease.
	ReleaseWritten struct {
		Task TaskID
		Op   int64
		Result
	}
	// Left answers LeaveGroup.
	Left struct{}
)

// Result says how a step of Kafka ended.
type Result struct {
	Outcome       Outcome
	Code, Message string // of Refused and Unknown
}

// Outcome of a step of Kafka.
type Outcome int

const (
	OK          Outcome = iota
	Rebalancing         // repeat after the next Assigned
	FencedOut           // the membership or the claim is gone
	Refused             // in words, for good; nothing was sent
	Unknown             // it cannot be told how it ended
	Failed              // try again
)

// From the data path.
type (
	// Produced answers Produce; Landed by table name. InDoubt: some of it may still land, and
	// ProduceEnded follows.
	Produced struct {
		Task TaskID
		Op   int64
		Result
		Landed  map[string]Landed
		InDoubt bool
	}
	// ProduceEnded: of a Produce or Transact in doubt nothing can take effect any more.
	ProduceEnded struct{ Op int64 }
	// Transacted answers Transact: OK, all of it is committed; Unknown, or nothing of it is and will be. InDoubt
	// is as in Produced.
	Transacted struct {
		Task TaskID
		Op   int64
		Result
		Landed  map[string]Landed
		InDoubt bool
	}
	// PositionsCommitted answers CommitPositions.
	PositionsCommitted struct {
		Task TaskID
		Op   int64
		Result
	}
	// Reached: a table has reached the End that StartRestore or, later, FinishRestore has named; it comes
	// once for each of the two. Records were replayed until then.
	Reached struct {
		Stream  uint32
		End     int64
		Records int64
	}
	// ResetNeeded: the store behind the stream must be wiped; its replay has ended.
	ResetNeeded struct {
		Stream        uint32
		Code, Message string
		Start         int64
	}
	// ReplayProgress tells how far a replay has come; EtaMS is -1 when it cannot be told.
	ReplayProgress struct {
		Stream                                 uint32
		Records, Bytes, Rate, Remaining, EtaMS int64
		WaitsFor                               string
	}
	// StreamFailed: the replay or feed of the stream has ended. Reopen: a new take-over of the task
	// decides how it goes on; otherwise a person must act.
	StreamFailed struct {
		Stream        uint32
		Code, Message string
		Reopen        bool
	}
)

// Landed is where the writes to a table's changelog end, and the checkpoint there. Next 0: that cannot be
// told. Foreign: somebody else has written there since the Head of the write.
type Landed struct {
	Checkpoint string
	Next       int64
	Foreign    bool
}

// From the process.
type (
	// Drain: hand everything over and stop.
	Drain struct{}
	// Tick: the time asked for by Deadline has come. Owes says that frames are not credited yet, or
	// that delivered records are not committed yet.
	Tick struct{ Owes bool }
)
