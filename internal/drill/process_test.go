package drill

import (
	"context"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// A process is started again when it ends, says what it says, and rests when it is told to.
func TestKeeper(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	k := newKeeper("echo")
	lines, ends, began := make(chan string, 10), make(chan bool, 10), make(chan int, 10)
	k.command = func() *exec.Cmd { return exec.Command("sh", "-c", "echo hello; exec sleep 100") }
	k.line = func(_ int, text string) { lines <- text }
	k.began = func(_, pid int) { began <- pid }
	k.ended = func(_, code int, explained bool) bool { ends <- explained && code == 137; return explained }
	k.log = io.Discard
	done := make(chan bool)
	go func() { k.run(ctx); close(done) }()
	if _, ok := k.signal(sigterm); ok {
		t.Error("it is up before it is to be")
	}
	k.up()
	<-began
	for range 2 {
		if got := <-lines; got != "hello\n" {
			t.Errorf("it says %q", got)
		}
		struck := false
		if !k.end(sigkill, time.Millisecond, func() { struck = true }) || !struck || !<-ends {
			t.Error("its end is not explained")
		}
		<-began
	}
	<-lines
	resume, ok := k.stop(func() {})
	if !ok {
		t.Fatal("it cannot be stopped")
	}
	resume()
	k.rest()
	k.end(sigkill, 0, func() {})
	if err := k.gone(ctx); err != nil || !<-ends {
		t.Error("it is not gone")
	}
	if k.pid() != 0 || k.end(sigkill, 0, func() { t.Error("a fault struck nobody") }) {
		t.Error("it rests and has a process")
	}
	cancel()
	<-done
}

// INVARIANT: an end that nothing explains is told, and what ends again and again is left alone.
func TestKeeperGivesUp(t *testing.T) {
	k := newKeeper("false")
	ends := 0
	k.command = func() *exec.Cmd { return exec.Command("sh", "-c", "exit 7") }
	k.line, k.began, k.log = func(int, string) {}, func(int, int) {}, io.Discard
	k.ended = func(_, code int, explained bool) bool {
		if code != 7 || explained {
			t.Errorf("code %d, explained %v", code, explained)
		}
		ends++
		return explained
	}
	k.quickPause = time.Millisecond
	k.up()
	k.run(context.Background())
	if ends < 3 {
		t.Errorf("%d ends", ends)
	}
}

// A fault can ask a worker to die that is just being started: the end of that life is explained, and no other.
func TestAnEndIsExpectedWhileTheProcessStarts(t *testing.T) {
	k := newKeeper("false")
	var told []bool
	k.command = func() *exec.Cmd { return exec.Command("sh", "-c", "exit 7") }
	k.line, k.began, k.log = func(int, string) {}, func(int, int) {}, io.Discard
	k.ended = func(_, _ int, explained bool) bool {
		told = append(told, explained)
		return explained
	}
	k.quickPause = time.Millisecond
	k.expect()
	k.expect()
	k.unexpect()
	k.up()
	k.run(context.Background())
	if len(told) < 2 || !told[0] || slices.Contains(told[1:], true) {
		t.Errorf("explained: %v", told)
	}
}

// The worker that kills itself says so, and may be a later life than the one that was asked.
func TestAWorkerThatSaysThatItDiesIsExplained(t *testing.T) {
	p := &pair{n: 1, worker: newKeeper("worker"), history: NewHistory(io.Discard)}
	p.workerSays(3, `{"event": "dies", "at": 1, "text": "between committed and the store's flush"}`)
	p.worker.mu.Lock()
	defer p.worker.mu.Unlock()
	if p.worker.expected != 1 {
		t.Error("its end is not explained")
	}
}

func TestEnvironIsOurs(t *testing.T) {
	t.Setenv("PILLION_GROUP_ID", "the tester's")
	t.Setenv("LD_PRELOAD", "")
	for _, kv := range environ("X=1") {
		if strings.HasPrefix(kv, "PILLION_") || strings.HasPrefix(kv, "LD_PRELOAD=") {
			t.Error(kv)
		}
	}
}

// A worker that comes to a sidecar that drains ends with 0; with a sidecar that stays nothing explains that.
func TestAWorkerOfASidecarThatLeavesMayEnd(t *testing.T) {
	p := &pair{n: 1, worker: newKeeper("worker"), sidecar: newKeeper("sidecar"), history: NewHistory(io.Discard)}
	if p.leave(0, func() {}) || p.leaving {
		t.Error("a sidecar that is not up leaves")
	}
	for _, leaving := range []bool{false, true} {
		p.leaving = leaving
		if p.workerEnded(1, 0, false) != leaving || p.workerEnded(1, 2, false) {
			t.Errorf("while the sidecar leaves (%v) an end is judged wrongly", leaving)
		}
	}
	p.sidecarBegan(2, 7)
	if p.leaving {
		t.Error("a new sidecar leaves")
	}
}
