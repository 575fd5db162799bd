package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/pillion/pillion/protocol"
)

// BenchmarkCommit is what one commit costs the session's goroutine, by the number of its tasks.
func BenchmarkCommit(b *testing.B) {
	for _, tasks := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(tasks, "-tasks"), func(b *testing.B) {
			m, now := manyTasks(b, tasks)
			step := func(ev Event) []Effect {
				effects, err := m.Step(now, ev)
				if err != nil {
					b.Fatal(err)
				}
				return effects
			}
			id := int64(1)
			for b.Loop() {
				id++
				t := m.tasks[TaskID{Set: "s", Partition: int32(id) % int32(tasks)}]
				step(Received{Conn: 1, Message: protocol.Commit{
					ID: id, Task: t.id.String(), Epoch: t.epoch, SourceNext: map[string]int64{"in": 0},
				}})
				step(PositionsCommitted{Task: t.id, Op: m.lastOp})
				_ = m.Deadline()
			}
		})
	}
}

// manyTasks brings tasks of one source each to Running.
func manyTasks(b *testing.B, tasks int) (*Machine, time.Time) {
	b.Helper()
	m, err := NewMachine(simConfig)
	if err != nil {
		b.Fatal(err)
	}
	now := time.Unix(1000, 0)
	var queue []Event
	step := func(ev Event) {
		effects, err := m.Step(now, ev)
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range effects {
			switch e := e.(type) {
			case TakeOverTask:
				queue = append(queue, TookOver{Task: e.Task, Op: e.Op, TakeOver: TakeOver{Positions: map[string]int64{"in": 0}}})
			case Send:
				if a, ok := e.Message.(protocol.Assign); ok {
					queue = append(queue, Received{Conn: 1, Message: protocol.Opened{Re: a.ID, Task: a.Task, Epoch: a.Epoch}})
				}
			case SendInStream:
				r := e.Message.(protocol.Restored)
				queue = append(queue, Received{Conn: 1, Message: protocol.Ready{Re: r.ID, Task: r.Task, Epoch: r.Epoch}})
			}
		}
	}
	step(Connected{Conn: 1, Hello: protocol.Hello{ID: 1, MaxFrame: 1 << 20}})
	step(PreparedOK{Conn: 1, Prepared: Prepared{Group: "g", Sets: []PreparedSet{{Name: "s", Sources: []string{"in"}, Partitions: int32(tasks)}}}})
	ev := Assigned{Generation: 1, MemberID: "m"}
	for p := range int32(tasks) {
		ev.Active = append(ev.Active, TaskID{Set: "s", Partition: p})
	}
	step(ev)
	for len(queue) > 0 {
		next := queue[0]
		queue = queue[1:]
		step(next)
	}
	if got := m.Status().Tasks["running"]; got != tasks {
		b.Fatalf("%d tasks run", got)
	}
	return m, now
}
