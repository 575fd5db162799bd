//go:build kafka

package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// state is what a mate does for a task.
type state int

const (
	nothing state = iota
	copies        // holds a copy: the store is open
	opening       // is given it, and the table is not whole yet
	running
	leaving // asked back, and not released
)

// board is what all mates of a test have said: who does what, what went wrong, how far each task has come.
type board struct {
	mu      sync.Mutex
	does    map[string]map[string]state // by mate and task
	faults  []string
	counted map[string]int    // events by name
	done    map[string]int    // records by task
	last    map[string]string // what was said or heard last of each task
}

func newBoard() *board {
	return &board{does: map[string]map[string]state{}, counted: map[string]int{}, done: map[string]int{}, last: map[string]string{}}
}

// put notes what a mate does for a task. INVARIANT: two mates never have a task running at once.
func (b *board) put(mate, task string, s state) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.does[mate] == nil {
		b.does[mate] = map[string]state{}
	}
	b.does[mate][task] = s
	if s != running {
		return
	}
	for other, does := range b.does {
		if other != mate && (does[task] == running || does[task] == leaving) {
			b.faults = append(b.faults, fmt.Sprintf("%s runs at %s, and %s has not released it", task, mate, other))
		}
	}
}

// leave forgets a mate that has ended.
func (b *board) leave(mate string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for task, s := range b.does[mate] {
		if s > copies {
			b.faults = append(b.faults, fmt.Sprintf("%s has ended with %s, which it had not released", mate, task))
		}
	}
	delete(b.does, mate)
}

func (b *board) fault(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.faults) < 20 {
		b.faults = append(b.faults, fmt.Sprintf(format, args...))
	}
}

// count adds one, or n, to what has happened so often.
func (b *board) count(what string, n ...int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counted[what] += append(n, 1)[0]
}

func (b *board) progress(task string, records int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done[task] += records
}

// note keeps the last that a mate has said or heard of a task.
func (b *board) note(mate, task, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last[task] = fmt.Sprintf("%s: %s", mate, fmt.Sprintf(format, args...))
}

// where is what was noted last of tasks.
func (b *board) where(tasks []string) (last []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, task := range tasks {
		last = append(last, b.last[task])
	}
	return last
}

// committed is how many records of each task have been committed.
func (b *board) committed() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.done)
}

// unsettled says what is not yet as it shall be with these mates: each of the tasks active on exactly
// one, in equal shares, and copied by so many others that can; nothing when all is.
func (b *board) unsettled(mates, able []string, tasks, replicas int) (what []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(mates) == 0 {
		return nil
	}
	active := map[string]int{}
	for partition := range tasks {
		task := fmt.Sprintf("s/%d", partition)
		held, others := map[state]int{}, slices.Clone(able)
		for _, mate := range mates {
			s := b.does[mate][task]
			held[s]++
			if s == running {
				active[mate]++
				others = slices.DeleteFunc(others, func(other string) bool { return other == mate })
			}
		}
		if held[running] != 1 || held[opening]+held[leaving] > 0 || held[copies] != min(replicas, len(others)) {
			what = append(what, fmt.Sprintf("%s: active on %d, opened by %d, released by %d, copied by %d",
				task, held[running], held[opening], held[leaving], held[copies]))
		}
	}
	for _, mate := range mates {
		if n := active[mate]; n < tasks/len(mates) || n > (tasks+len(mates)-1)/len(mates) {
			what = append(what, fmt.Sprintf("%s has %d of %d tasks", mate, n, tasks))
		}
	}
	return what
}

// check fails the test for what went wrong.
func (b *board) check(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.faults) > 0 {
		t.Fatalf("what must not happen:\n    %s", strings.Join(b.faults, "\n    "))
	}
}

func (b *board) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var said []string
	for _, what := range slices.Sorted(maps.Keys(b.counted)) {
		said = append(said, fmt.Sprintf("%s %d", what, b.counted[what]))
	}
	return strings.Join(said, ", ")
}

// soon asks until it is so; for what tells nobody when it happens. It gives how long that took.
func soon(t *testing.T, so func() bool, otherwise func() string) time.Duration {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		if time.Since(began) > patience {
			t.Fatalf("waited %v in vain: %s", patience, otherwise())
		}
		<-tick.C
	}
	return time.Since(began)
}
