//go:build kafka

package cli

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"time"
)

// leftover is what this process holds.
type leftover struct {
	goroutines, files int
	heap              uint64
}

// hold counts what this process holds.
func (c *churn) hold() (now leftover) {
	c.t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		c.t.Fatalf("what is open cannot be counted here, so that a leak would not show: %v", err)
	}
	now.goroutines, now.files = runtime.NumGoroutine(), len(files)
	return now
}

// rest is the least that this process holds while nobody is a member and nothing is produced.
func (c *churn) rest() leftover {
	c.t.Helper()
	c.paused.Store(true)
	defer c.paused.Store(false)
	least := c.hold()
	began := time.Now()
	soon(c.t, func() bool {
		now := c.hold()
		least.goroutines, least.files = min(least.goroutines, now.goroutines), min(least.files, now.files)
		return time.Since(began) > time.Second
	}, func() string { return "" })
	least.heap = heap()
	return least
}

// gone waits until no more is held than before.
func (c *churn) gone(before leftover) {
	c.t.Helper()
	c.paused.Store(true)
	defer c.paused.Store(false)
	var now leftover
	took := soon(c.t, func() bool {
		now = c.hold()
		return now.goroutines <= before.goroutines && now.files <= before.files
	}, func() string {
		return fmt.Sprintf("%d goroutines, %d before; %d files and connections, %d before\n%s", now.goroutines, before.goroutines, now.files, before.files, stacks())
	})
	now.heap = heap()
	c.t.Logf("%v after %d joins and leaves: %d goroutines (%d before), %d files and connections (%d), %d KiB of heap (%d)", took.Round(time.Millisecond),
		c.changes, now.goroutines, before.goroutines, now.files, before.files, now.heap>>10, before.heap>>10)
	if now.heap > before.heap+4<<20 {
		c.t.Errorf("the heap has grown from %d to %d bytes", before.heap, now.heap)
	}
}

// stacks are those of all goroutines: of all sidecars.
func stacks() string {
	var b bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
	return b.String()
}

func heap() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools let go
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return memory.HeapAlloc
}
