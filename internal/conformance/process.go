package conformance

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

// exited is the event of a process.
type exited struct {
	number int
	code   int // 128 + signal when it was killed
}

// worker is the process under test.
type worker struct {
	number int
	cmd    *exec.Cmd
	output *tail
	over   bool
	code   int
}

// start runs the command; its end is an event.
func (p *player) start(env []string) error {
	p.processes++
	w := &worker{number: p.processes, output: p.output}
	w.cmd = exec.Command(p.options.Command[0], p.options.Command[1:]...)
	w.cmd.Dir = p.options.Dir
	w.cmd.Env = append(slices.Clone(p.options.Environ), env...)
	if p.options.Environ == nil {
		w.cmd.Env = append(os.Environ(), env...)
	}
	w.cmd.Stdout, w.cmd.Stderr = w.output, w.output
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	w.cmd.WaitDelay = time.Second // a child of its own may hold its output
	if err := w.cmd.Start(); err != nil {
		return fmt.Errorf("cannot start the worker: %w", err)
	}
	p.worker = w
	p.ends.Go(func() {
		_ = w.cmd.Wait()
		w.sweep()
		code := w.cmd.ProcessState.ExitCode()
		if status, ok := w.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			code = 128 + int(status.Signal())
		}
		select {
		case p.events <- exited{w.number, code}:
		case <-p.done:
		}
	})
	return nil
}

// signal reaches the process and its children.
func (w *worker) signal(s syscall.Signal) {
	if w != nil && !w.over {
		_ = syscall.Kill(-w.cmd.Process.Pid, s)
	}
}

// sweep ends the children that a process has left behind, so that they do not stay when the case is over.
func (w *worker) sweep() { _ = syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL) }

// tail keeps the end of what the worker prints.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailSize = 4 << 10

// Write never fails.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, b...)
	if len(t.b) > tailSize {
		t.b = bytes.Clone(t.b[len(t.b)-tailSize:])
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
