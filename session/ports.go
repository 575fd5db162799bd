package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/protocol"
)

// Conn is one worker connection. No method blocks.
type Conn interface {
	Send(protocol.Message)
	SendInStream(*gate.Gate, protocol.Message)
	Credit() *gate.Credit
	OpenStream(stream uint32, writable bool)
	CloseStream(stream uint32)
	CommitDone(*protocol.Writes)
	Close(code int, reason string)
	// Owes says whether frames were sent that the worker has not credited yet.
	Owes() bool
}

// Group is the membership. What a sync gave is claimed in every join until it is released or lost. Join
// and Release do not block; what they bring about comes back as Assigned, GroupLost, GroupFatal and
// GroupWaiting. The others may take long and run beside the loop.
type Group interface {
	Prepare(ctx context.Context, group string, hello protocol.Hello) (Prepared, error)
	Join(Prepared)
	Release([]TaskID)
	TakeOver(ctx context.Context, task TaskID) (TakeOver, error)
	// Confirm fails when the task is not ours any more.
	Confirm(ctx context.Context, task TaskID) error
	// Drain says that we are about to leave: what Release lets go of is given to others at once.
	Drain()
	Commit(ctx context.Context, task TaskID, next map[string]int64) error
	CommitReleased(ctx context.Context, task TaskID, next map[string]int64) error
	Leave(ctx context.Context) error
}

// Restorer replays tables. What comes of it is Reached, ResetNeeded, ReplayProgress, StreamFailed.
type Restorer interface {
	Start(StartRestore, *gate.Gate) Replay
}

// Replay is one that was started. No method blocks; all may be called from any goroutine.
type Replay interface {
	// Stop ends it; nothing is sent any more when its gate is closed or paused before.
	Stop()
	// FinishAt makes a replay that follows go on to end, say Reached with it, and end.
	FinishAt(end int64)
	// Records is how many it has sent.
	Records() int64
	// Lag is how many offsets the end of the log, seen last, is ahead; negative: not known.
	Lag() int64
}

// Feeder sends source records. What comes of it is StreamFailed.
type Feeder interface {
	Start(StartFeed, *gate.Gate) (stop func())
}

// Producer writes the frames of one commit and returns the new checkpoint of each table written.
type Producer interface {
	Produce(ctx context.Context, writes []StreamWrites) (landed map[string]Landed, err error)
	// Transact also commits the positions of the task, all or nothing. ErrRebalancing: nothing of it is and
	// will be there, and after the next sync it may be tried again.
	Transact(ctx context.Context, task TaskID, writes []StreamWrites, next map[string]int64) (landed map[string]Landed, err error)
}

// Errors by which the ports say how a step of Kafka ended. Any other error means: try again.
var (
	ErrRebalancing = errors.New("the group is rebalancing")
	ErrFenced      = errors.New("the membership is over")
)

// RefusedError: for good, in words; nothing was sent.
type RefusedError struct{ Code, Message string }

func (e *RefusedError) Error() string { return fmt.Sprintf("%s (%s)", e.Message, e.Code) }

// UnknownError: it cannot be told how it ended. Code is one that an unknown may carry; internal when
// empty.
type UnknownError struct {
	Code  string
	Err   error
	Ended <-chan struct{} // closed when it can take no effect any more; nil: it cannot
}

func (e *UnknownError) Error() string { return "outcome unknown: " + e.Err.Error() }
func (e *UnknownError) Unwrap() error { return e.Err }

func resultOf(err error) Result {
	var refused *RefusedError
	var unknown *UnknownError
	switch {
	case err == nil:
		return Result{Outcome: OK}
	case errors.Is(err, ErrRebalancing):
		return Result{Outcome: Rebalancing, Message: err.Error()}
	case errors.Is(err, ErrFenced):
		return Result{Outcome: FencedOut, Code: protocol.CodeFenced, Message: err.Error()}
	case errors.As(err, &refused):
		return Result{Outcome: Refused, Code: refused.Code, Message: refused.Message}
	case errors.As(err, &unknown):
		return Result{Outcome: Unknown, Code: cmp.Or(unknown.Code, protocol.CodeInternal), Message: err.Error()}
	default:
		return Result{Outcome: Failed, Message: err.Error()}
	}
}
