package session

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// script drives a machine through one story and compares what it does, in short words.
type script struct {
	t   *testing.T
	m   *Machine
	now time.Time
	ops map[string]int64 // number of the last step of Kafka, by its kind and task
	log []string         // lines of the last event
}

func newScript(t *testing.T, change ...func(*Config)) *script {
	t.Helper()
	cfg := simConfig
	for _, c := range change {
		c(&cfg)
	}
	m, err := NewMachine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &script{t: t, m: m, now: time.Unix(1000, 0), ops: map[string]int64{}}
}

// on takes an event and expects exactly these effects; log lines and stream registrations are not shown.
func (s *script) on(ev Event, want ...string) {
	s.t.Helper()
	effects, err := s.m.Step(s.now, ev)
	if err != nil {
		s.t.Fatalf("%+v: %v", ev, err)
	}
	var got []string
	s.log = nil
	for _, e := range effects {
		if l, ok := e.(Log); ok {
			s.log = append(s.log, strings.TrimSpace(fmt.Sprintln(append([]any{l.Message}, l.Args...)...)))
		}
		if line := s.short(e); line != "" {
			got = append(got, line)
		}
	}
	if !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
		s.t.Fatalf("%T %+v:\n got  %s\n want %s", ev, ev, strings.Join(got, "\n      "), strings.Join(want, "\n      "))
	}
}

func (s *script) short(e Effect) string {
	switch e := e.(type) {
	case Send:
		return fmt.Sprintf("send %d %s", e.Conn, brief(e.Message))
	case SendInStream:
		return fmt.Sprintf("in-stream %s", brief(e.Message))
	case CloseConn:
		return fmt.Sprintf("close %d %d", e.Conn, e.Code)
	case DropInStream:
		return "take back"
	case Prepare:
		return "prepare"
	case JoinGroup:
		return "join"
	case LeaveGroup:
		return "leave"
	case ReleaseTasks:
		return fmt.Sprintf("let go %v", e.Tasks)
	case TakeOverTask:
		s.ops["take"+e.Task.String()] = e.Op
		return "take over " + e.Task.String()
	case CommitPositions:
		s.ops["commit"+e.Task.String()] = e.Op
		return fmt.Sprintf("positions %s %v", e.Task, e.Next)
	case WriteRelease:
		s.ops["release"+e.Task.String()] = e.Op
		return fmt.Sprintf("release %s %v", e.Task, e.Next)
	case Locate:
		return "locate"
	case Produce:
		s.ops["produce"+e.Task.String()] = e.Op
		return fmt.Sprintf("produce %s", e.Task)
	case Transact:
		s.ops["transact"+e.Task.String()] = e.Op
		line := fmt.Sprintf("transact %s %v", e.Task, e.Next)
		for _, w := range e.Writes {
			line += fmt.Sprintf(" at %d", w.Head)
		}
		return line
	case DrainGroup:
		return "drain the group"
	case FinishRestore:
		return fmt.Sprintf("finish %d at %d", e.Stream, e.End)
	case StartRestore:
		if e.From != 0 {
			return fmt.Sprintf("go on %s %s from stream %d, %q", e.Task, e.Table.Name, e.From, e.Checkpoint)
		}
		if e.Copy {
			return fmt.Sprintf("follow %s %s from %q", e.Task, e.Table.Name, e.Checkpoint)
		}
		return fmt.Sprintf("restore %s %s from %q to %d", e.Task, e.Table.Name, e.Checkpoint, e.End)
	case StartFeed:
		if e.Paused {
			return fmt.Sprintf("feed %s %d paused", e.Task, e.Source.Position)
		}
		return fmt.Sprintf("feed %s %d", e.Task, e.Source.Position)
	case PauseStream:
		return "pause"
	case ResumeStream:
		return "resume"
	case Stop:
		return "stop " + e.Err
	}
	return "" // streams, logs, freed buffers
}

func brief(m protocol.Message) string {
	v := reflect.ValueOf(m)
	words := []string{m.Type()}
	for _, name := range []string{"Task", "Epoch", "Re", "Code", "Table", "DeadlineMS"} {
		if f := v.FieldByName(name); f.IsValid() && !f.IsZero() {
			words = append(words, fmt.Sprint(f.Interface()))
		}
	}
	if a, ok := m.(protocol.Assign); ok && a.Role == protocol.RoleStandby {
		words = append(words, "standby")
	}
	return strings.Join(words, " ")
}

func (s *script) took(task TaskID, positions map[string]int64, ends map[string]int64) TookOver {
	return TookOver{Task: task, Op: s.ops["take"+task.String()], TakeOver: TakeOver{Positions: positions, Ends: ends}}
}

func (s *script) produced(task TaskID, r Result) Produced {
	return Produced{Task: task, Op: s.ops["produce"+task.String()], Result: r, Landed: map[string]Landed{"t": {Checkpoint: "v1:x"}}}
}

func (s *script) positioned(task TaskID, r Result) PositionsCommitted {
	return PositionsCommitted{Task: task, Op: s.ops["commit"+task.String()], Result: r}
}

func (s *script) releaseWritten(task TaskID, r Result) ReleaseWritten {
	return ReleaseWritten{Task: task, Op: s.ops["release"+task.String()], Result: r}
}

var (
	task0 = TaskID{Set: "s", Partition: 0}
	task1 = TaskID{Set: "s", Partition: 1}
)

// oneTable is a set with one source and one table.
var oneTable = Prepared{Group: "g", Sets: []PreparedSet{{
	Name: "s", Sources: []string{"in"}, Partitions: 2,
	Tables: []PreparedTable{{Name: "t", Topic: "t-log", Kind: protocol.TableChangelog}},
}}}

// running brings task s/0 to Running on connection 1; its table is stream 2, epoch 1, positions at 10.
func running(t *testing.T, change ...func(*Config)) *script {
	t.Helper()
	s := newScript(t, change...)
	s.on(Connected{Conn: 1, Hello: protocol.Hello{ID: 1}}, "send 1 welcome 1", "prepare")
	s.on(PreparedOK{Conn: 1, Prepared: oneTable}, "join")
	s.on(Assigned{Generation: 1, MemberID: "m", Active: []TaskID{task0}}, "take over s/0")
	s.on(s.took(task0, map[string]int64{"in": 10}, map[string]int64{"t": 5}), "send 1 assign s/0 1")
	s.on(s.from(protocol.Opened{Re: 1, Task: "s/0", Epoch: 1}), `restore s/0 t from "" to 5`)
	s.on(Reached{Stream: 2}, "in-stream restored s/0 1")
	s.on(s.from(protocol.Ready{Re: 2, Task: "s/0", Epoch: 1}), "feed s/0 10")
	return s
}

func (s *script) from(m protocol.Message) Received { return Received{Conn: 1, Message: m} }

// commit of an epoch; with a write to stream 2 when written.
func (s *script) commit(id int64, epoch uint32, next int64, written bool) Received {
	r := s.from(protocol.Commit{ID: id, Task: "s/0", Epoch: epoch, SourceNext: map[string]int64{"in": next}})
	r.Delivered = map[string]int64{"in": 100}
	r.Writes = &protocol.Writes{ID: id}
	if written {
		b := frame.NewBuilder(frame.Writes)
		b.Reset(2, epoch, id)
		b.Append(id, 0, []byte("k"), []byte("v"), nil)
		r.Writes.Frames = [][]byte{b.Finish(nil, 0, nil)}
	}
	return r
}

var (
	isOK     = Result{Outcome: OK}
	isBusy   = Result{Outcome: Rebalancing}
	isFailed = Result{Outcome: Failed}
)
