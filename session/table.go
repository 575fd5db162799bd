package session

import (
	"fmt"
	"slices"
	"strings"
)

// State of a task that the group gave us.
type State int

const (
	// Parked: ours in the group; no worker has it.
	Parked State = iota
	// Idle: we are to keep a copy; no worker has it.
	Idle
	// TakingOver: claims and positions are being read and written.
	TakingOver
	// Canceled: the group wants it back while the take-over runs.
	Canceled
	// Shadowing: the worker keeps a copy, which follows the changelogs for ever.
	Shadowing
	// Promoting: the take-over of a copied task runs; the copy goes on following.
	Promoting
	// Catching: taken over; the copy goes on to the ends.
	Catching
	// Demoting: a copy again; the release of what it was before is being written.
	Demoting
	// Opening: assign is sent, opened not yet received.
	Opening
	// Restoring: its tables are replayed.
	Restoring
	// Restored: all tables are at their ends; ready not yet received.
	Restored
	// Ready: it waits for the global tables.
	Ready
	// Running: records flow.
	Running
	// Revoking: the worker was asked for it and may make its last commits.
	Revoking
	// Finishing: released or out of time; its commits come to their ends.
	Finishing
	// Failing: its epoch is over; it is opened anew when its commits have ended.
	Failing
	// Releasing: the release is being written.
	Releasing
	// Gone: no longer ours.
	Gone
)

var stateNames = [...]string{
	"parked", "idle", "taking_over", "canceled", "shadowing", "promoting", "catching", "demoting", "opening", "restoring", "restored", "ready",
	"running", "revoking", "finishing", "failing", "releasing", "gone",
}

func (s State) String() string { return stateNames[s] }

// trigger is what moves a task.
type trigger string

const (
	onOpen     trigger = "open"        // a worker is there, and no commit of an earlier epoch is open
	onGiven    trigger = "given"       // the group makes us the active of what we were to copy
	onShadow   trigger = "shadow"      // a worker is there to keep the copy
	onTookOver trigger = "took over"   // the take-over is done
	onNotTaken trigger = "not taken"   // the take-over is to be repeated later
	onOpened   trigger = "opened"      // the worker has opened its stores
	onReached  trigger = "reached"     // every table has reached its end
	onReady    trigger = "ready"       // the worker says ready
	onReset    trigger = "reset"       // a table is wiped before the worker said ready
	onGlobals  trigger = "globals"     // all global tables are whole
	onDemote   trigger = "demote"      // the group moves a task that owes nothing, and leaves us a copy
	onRevoke   trigger = "revoke"      // the group moves the task, or a drain
	onReleased trigger = "released"    // the worker released it, missed the deadline, or is gone
	onFinished trigger = "finished"    // no commit is open
	onWritten  trigger = "written"     // the release is written, or can no longer be
	onFail     trigger = "fail"        // the epoch is over, the task stays ours
	onGone     trigger = "worker gone" // the connection is closed or superseded
	onLost     trigger = "lost"        // the membership is gone
)

// transitions is the whole life of a task. An entry that is not there is an error and changes nothing.
// docs/architecture.md shows it as a diagram (make generate); a test fails when that is stale.
var transitions = map[State]map[trigger]State{
	Parked:     {onOpen: TakingOver, onRevoke: Finishing, onLost: Gone, onGone: Parked},
	Idle:       {onShadow: Shadowing, onGiven: Parked, onRevoke: Gone, onLost: Idle, onGone: Idle},
	TakingOver: {onTookOver: Opening, onNotTaken: Parked, onRevoke: Canceled, onLost: Gone, onGone: TakingOver},
	Canceled:   {onTookOver: Finishing, onNotTaken: Finishing, onLost: Gone, onGone: Canceled},
	Shadowing:  {onOpen: Promoting, onRevoke: Gone, onFail: Idle, onGone: Idle, onLost: Shadowing},
	Promoting:  {onTookOver: Catching, onNotTaken: Shadowing, onRevoke: Canceled, onFail: TakingOver, onGone: TakingOver, onLost: Shadowing},
	Catching:   {onReached: Restored, onRevoke: Finishing, onFail: Failing, onGone: Failing, onLost: Idle},
	Demoting:   {onWritten: Shadowing, onRevoke: Releasing, onFail: Releasing, onGone: Releasing, onLost: Shadowing},
	Opening:    {onOpened: Restoring, onRevoke: Revoking, onFail: Failing, onGone: Failing, onLost: Gone},
	Restoring:  {onReached: Restored, onRevoke: Revoking, onFail: Failing, onGone: Failing, onLost: Gone},
	Restored:   {onReady: Ready, onReset: Restoring, onRevoke: Revoking, onFail: Failing, onGone: Failing, onLost: Gone},
	Ready:      {onGlobals: Running, onRevoke: Revoking, onFail: Failing, onGone: Failing, onLost: Gone},
	Running:    {onDemote: Demoting, onRevoke: Revoking, onFail: Failing, onGone: Failing, onLost: Gone},
	Revoking:   {onReleased: Finishing, onFail: Finishing, onGone: Finishing, onLost: Gone},
	Finishing:  {onFinished: Releasing, onGone: Finishing, onLost: Gone},
	Failing:    {onFinished: Parked, onRevoke: Finishing, onGone: Failing, onLost: Gone},
	Releasing:  {onWritten: Gone, onGone: Releasing, onLost: Gone},
}

// move follows the table.
func (t *task) move(on trigger) error {
	next, ok := transitions[t.state][on]
	if !ok {
		return fmt.Errorf("task %s: no transition from %s on %q", t.id, t.state, on)
	}
	t.state = next
	return nil
}

// Diagram draws the table for the documents, in Mermaid's words.
func Diagram() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n    [*] --> parked: assigned by the group\n    [*] --> idle: a copy is wanted by the group\n")
	for from := Parked; from <= Gone; from++ {
		lines := make([]string, 0, len(transitions[from]))
		for on, to := range transitions[from] {
			if to != from {
				lines = append(lines, fmt.Sprintf("    %s --> %s: %s\n", from, to, on))
			}
		}
		slices.Sort(lines)
		b.WriteString(strings.Join(lines, ""))
	}
	b.WriteString("    gone --> [*]\n")
	return b.String()
}
