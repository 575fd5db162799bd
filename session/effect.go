package session

import "github.com/pillion/pillion/protocol"

// Effect is something that the Runner shall do. Effects are carried out in their order; those that
// name an answer run beside the loop and come back as that event, with the same Op.
type Effect any

// To the worker.
type (
	// Send a control message; it overtakes data.
	Send struct {
		Conn    ConnID
		Message protocol.Message
	}
	// SendInStream sends a message behind the frames queued so far, if Stream's gate is still open.
	SendInStream struct {
		Conn    ConnID
		Stream  uint32
		Message protocol.Message
	}
	// DropInStream takes back the last SendInStream of Stream, if it has not been sent.
	DropInStream struct{ Stream uint32 }
	// CloseConn closes the connection after everything sent so far.
	CloseConn struct {
		Conn   ConnID
		Code   int
		Reason string
	}
	// OpenStream registers a stream; Writable streams take writes frames.
	OpenStream struct {
		Conn     ConnID
		Stream   uint32
		Epoch    uint32
		Writable bool
	}
	// CloseStream shuts the gate of a stream and ends its replay or feed. Writes frames of it are
	// still taken until ForgetStream.
	CloseStream struct{ Stream uint32 }
	// ForgetStream removes a stream when its epoch is over.
	ForgetStream struct{ Stream uint32 }
	// FreeWrites gives the buffered bytes of a commit back.
	FreeWrites struct {
		Conn   ConnID
		Writes *protocol.Writes
	}
)

// To the group.
type (
	// Prepare checks the declarations. Answers: PreparedOK, PrepareFailed.
	Prepare struct {
		Conn  ConnID
		Group string
		Hello protocol.Hello
	}
	// JoinGroup subscribes (or subscribes anew). Answer: Assigned.
	JoinGroup struct{ Prepared Prepared }
	// ReleaseTasks lets go of tasks and asks for the follow-up join.
	ReleaseTasks struct{ Tasks []TaskID }
	// DrainGroup tells the group that we are about to leave: what we let go of is given to others at once.
	DrainGroup struct{}
	// TakeOverTask reads claims and positions and claims the task. Answer: TookOver. Copies are the
	// streams of the task's tables when the worker has a copy: what comes on them from now on is counted,
	// and gives way no more.
	TakeOverTask struct {
		Task   TaskID
		Op     int64
		Copies []uint32
	}
	// CommitPositions commits source positions. Answer: PositionsCommitted.
	CommitPositions struct {
		Task TaskID
		Op   int64
		Next map[string]int64
	}
	// WriteRelease commits the released claim. Answer: ReleaseWritten.
	WriteRelease struct {
		Task TaskID
		Op   int64
		Next map[string]int64
	}
	// LeaveGroup leaves. Answer: Left.
	LeaveGroup struct{}
)

// To the data path.
type (
	// StartRestore replays a table into a stream. Answers: Reached, ResetNeeded, StreamFailed. With From it
	// goes on where the replay of that stream, of the former epoch, is: that one sends nothing more, but
	// what is queued of it goes out. The checkpoint, when not empty, goes before: the worker has written
	// since. Copy: of a standby, whose frames give way to all others.
	StartRestore struct {
		Conn       ConnID
		Task       TaskID
		Epoch      uint32
		Table      protocol.TableStream
		Partition  int32
		Checkpoint string
		End        int64 // NoEnd: the high watermark at the start
		Follow     bool
		Copy       bool
		From       uint32
		MaxFrame   int64
	}
	// KeepPlace: the store behind Stream, of a table that is replayed no more, is where the replay of From,
	// of the former epoch, has ended.
	KeepPlace struct{ Stream, From uint32 }
	// FinishRestore: a replay that follows its changelog goes on to End and has ended then. Answers:
	// Reached with this End (at once when it is there already), ResetNeeded, StreamFailed.
	FinishRestore struct {
		Stream uint32
		End    int64
	}
	// StartFeed sends source records into a stream, from the first when not Paused. Answer: StreamFailed.
	StartFeed struct {
		Conn      ConnID
		Task      TaskID
		Epoch     uint32
		Source    protocol.SourceStream
		TopicID   [16]byte
		Partition int32
		MaxFrame  int64
		Paused    bool
	}
	// PauseStream and ResumeStream hold the frames of a stream back.
	PauseStream  struct{ Stream uint32 }
	ResumeStream struct{ Stream uint32 }
	// Produce writes the frames of a commit. Answer: Produced.
	Produce struct {
		Task   TaskID
		Op     int64
		Writes []StreamWrites
	}
	// Transact writes the frames of a commit and commits its positions in one transaction. Answer: Transacted.
	Transact struct {
		Task   TaskID
		Op     int64
		Writes []StreamWrites
		Next   map[string]int64
	}
)

// NoEnd is the end of a replay that only follows.
const NoEnd int64 = -1

// StreamWrites are the writes frames of one commit that go to one topic. Table is empty for an output.
type StreamWrites struct {
	Topic     string
	Table     string
	Partition int32 // of a changelog; -1: by key
	Head      int64 // of a changelog: where the write must land when nobody else writes there
	Frames    [][]byte
}

// Stop ends the Runner. Err is empty after a drain.
type Stop struct{ Err string }

// Log is one line for the log.
type Log struct {
	Level   string // debug, info, warn or error
	Message string
	Args    []any
}
