package drill

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// lives counts the processes of a drill.
var lives atomic.Int64

// keeper keeps one process up: a sidecar or a worker. One that ends is started again, until it is to rest.
type keeper struct {
	name    string
	command func() *exec.Cmd
	line    func(life int, text string)
	began   func(life, pid int)
	ended   func(life, code int, explained bool) bool // whether it is explained
	log     io.Writer                                 // all that it says

	quickPause time.Duration // before it is started again, at least

	mu        sync.Mutex
	cmd       *exec.Cmd
	explained bool          // we have ended it
	expected  int           // faults that may make it end by itself
	pause     time.Duration // before the next start
	resting   bool
	changed   chan struct{} // closed and made anew when cmd or resting change
}

const restartPause = 200 * time.Millisecond

func newKeeper(name string) *keeper {
	return &keeper{name: name, resting: true, quickPause: restartPause, changed: make(chan struct{})}
}

// run keeps the process up until ctx ends; then it is killed.
func (k *keeper) run(ctx context.Context) {
	quick := 0 // ends in a row that nothing explains
	for ctx.Err() == nil {
		if k.idle(ctx) {
			continue
		}
		began := time.Now()
		explained := k.once(ctx)
		if explained || time.Since(began) > 5*time.Second {
			quick = 0
		} else if quick++; quick > 5 {
			return // something is wrong for good: its end is told, and it is missed
		}
		k.mu.Lock()
		pause := max(k.pause, k.quickPause<<quick)
		k.pause = 0
		k.mu.Unlock()
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// idle waits while it is to rest.
func (k *keeper) idle(ctx context.Context) bool {
	k.mu.Lock()
	resting, changed := k.resting, k.changed
	k.mu.Unlock()
	if resting {
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return resting
}

// once is one life.
func (k *keeper) once(ctx context.Context) (explained bool) {
	life := int(lives.Add(1))
	cmd := k.command()
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	read := make(chan struct{})
	go func() { defer close(read); k.read(life, r) }()
	// The kernel kills the child when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		<-read
		return k.ended(life, -1, false)
	}
	k.began(life, cmd.Process.Pid)
	k.set(func() { k.cmd = cmd })
	stop := context.AfterFunc(ctx, func() { k.signal(syscall.SIGKILL) })
	err := cmd.Wait()
	stop()
	_ = w.Close()
	<-read
	k.set(func() { k.cmd, explained, k.explained, k.expected = nil, k.explained || k.expected > 0, false, 0 })
	return k.ended(life, exitCode(err), explained || ctx.Err() != nil)
}

func (k *keeper) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
	close(k.changed)
	k.changed = make(chan struct{})
}

func (k *keeper) read(life int, r io.Reader) {
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		text, err := lines.ReadString('\n')
		if text != "" {
			fmt.Fprintf(k.log, "%s [%d] %s\n", time.Now().Format("15:04:05.000"), life, strings.TrimRight(text, "\n"))
			k.line(life, text)
		}
		if err != nil {
			return
		}
	}
}

// signal reaches the process, if there is one. It is nothing that explains an end.
func (k *keeper) signal(s syscall.Signal) (pid int, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cmd == nil {
		return 0, false
	}
	return k.cmd.Process.Pid, k.cmd.Process.Signal(s) == nil
}

// end sends a signal that ends it; the next start comes after the pause. now is called directly before.
func (k *keeper) end(s syscall.Signal, pause time.Duration, now func()) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cmd == nil {
		return false
	}
	k.explained, k.pause = true, pause
	now()
	_ = k.cmd.Process.Signal(syscall.SIGCONT)
	return k.cmd.Process.Signal(s) == nil
}

// expect says that it may end by itself from now on: as it is, or, when it is being started, as it will be.
func (k *keeper) expect() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expected++
}

// unexpect says that what was expected does not come.
func (k *keeper) unexpect() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expected = max(0, k.expected-1)
}

// stop halts it for a while. now is called directly before. The later call of resume is for the same life only.
func (k *keeper) stop(now func()) (resume func(), ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	cmd := k.cmd
	if cmd == nil {
		return nil, false
	}
	now()
	if cmd.Process.Signal(syscall.SIGSTOP) != nil {
		return nil, false
	}
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.cmd == cmd {
			_ = cmd.Process.Signal(syscall.SIGCONT)
		}
	}, true
}

func (k *keeper) pid() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cmd == nil {
		return 0
	}
	return k.cmd.Process.Pid
}

// up lets it be started.
func (k *keeper) up() { k.set(func() { k.resting, k.pause = false, 0 }) }

// rest: it is not started again when it ends.
func (k *keeper) rest() { k.set(func() { k.resting = true }) }

// gone waits until there is no process.
func (k *keeper) gone(ctx context.Context) error {
	for {
		k.mu.Lock()
		cmd, changed := k.cmd, k.changed
		k.mu.Unlock()
		if cmd == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s does not end", k.name)
		}
	}
}

func (k *keeper) goneWithin(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return k.gone(ctx) == nil
}

func exitCode(err error) int {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}

// environ is ours without what the tester has set for Pillion.
func environ(more ...string) (list []string) {
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "PILLION_") && !strings.HasPrefix(kv, "DRILL_") && !strings.HasPrefix(kv, "LD_PRELOAD=") {
			list = append(list, kv)
		}
	}
	return append(list, more...)
}
