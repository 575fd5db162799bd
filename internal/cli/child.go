package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
)

// child is the worker process. It runs in a process group of its own, so that Ctrl-C reaches the
// sidecar first: the worker may finish and commit before it is told to go.
type child struct {
	command []string
	env     []string
	label   string
	out     io.Writer
	errOut  io.Writer
	log     hclog.Logger
	restart bool

	patience time.Duration // see childPatience; also how long its output may stay open after it

	mu      sync.Mutex
	cmd     *exec.Cmd
	goodbye syscall.Signal // the signal that ended us; handed on after the drain
}

func newChild(command, env []string, label string, out, errOut io.Writer, log hclog.Logger, restart bool) *child {
	return &child{command: command, env: env, label: label, out: out, errOut: errOut, log: log, restart: restart, patience: childPatience}
}

// ending notes the signal that the worker gets after the drain, and that it is not started again.
func (c *child) ending(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.goodbye == 0 {
		c.goodbye = s
	}
}

func (c *child) isEnding() (syscall.Signal, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.goodbye, c.goodbye != 0
}

// dismiss sends the worker away.
func (c *child) dismiss() {
	c.signal(c.farewell())
}

// farewell is the signal with which it is sent away.
func (c *child) farewell() syscall.Signal {
	s, _ := c.isEnding()
	return cmp.Or(s, syscall.SIGTERM)
}

// signal reaches the worker's whole process group.
func (c *child) signal(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd != nil && c.cmd.Process != nil {
		_ = syscall.Kill(-c.cmd.Process.Pid, s)
	}
}

// Run starts the worker, again and again when it may, and returns its last exit code. After drained
// the worker may exit by itself for a while, then it is sent the signal, then killed.
func (c *child) Run(ctx context.Context, drained <-chan struct{}) (int, error) {
	pause := 100 * time.Millisecond
	for {
		began := time.Now()
		code, killed, err := c.once(ctx, drained)
		if err != nil {
			return 0, err
		}
		if _, ending := c.isEnding(); !c.restart || !killed || ending || ctx.Err() != nil {
			return code, nil
		}
		if time.Since(began) > 10*time.Second {
			pause = 100 * time.Millisecond
		}
		c.log.Warn("the worker has died, starting it again", "exit_code", code, "pause", pause.String())
		select {
		case <-time.After(pause):
		case <-drained:
			return code, nil
		case <-ctx.Done():
			return code, nil
		}
		pause = min(pause*2, 5*time.Second)
	}
}

// once runs one life of the worker. killed: it was ended by a signal, crashed (exit code 1), or says that another start may cure it (3).
func (c *child) once(ctx context.Context, drained <-chan struct{}) (code int, killed bool, err error) {
	cmd := exec.Command(c.command[0], c.command[1:]...)
	cmd.Env = c.env
	cmd.SysProcAttr = ownGroup()
	stdout, stderr := c.pipe(c.out), c.pipe(c.errOut)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = c.patience // a child of the worker's own may outlive it, and hold its output
	defer stdout.close()
	defer stderr.close()
	c.mu.Lock()
	err = cmd.Start()
	if err == nil {
		c.cmd = cmd
	}
	c.mu.Unlock()
	if err != nil {
		return 0, false, usagef("cannot start the worker: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	err = c.await(ctx, drained, exited)
	c.mu.Lock()
	c.cmd = nil
	c.mu.Unlock()
	return exitCode(err)
}

// await waits for the exit; after the drain it helps.
func (c *child) await(ctx context.Context, drained <-chan struct{}, exited <-chan error) error {
	select {
	case err := <-exited:
		return err
	case <-ctx.Done():
		c.signal(syscall.SIGKILL)
		return <-exited
	case <-drained:
	}
	for _, s := range []syscall.Signal{c.farewell(), syscall.SIGKILL} {
		select {
		case err := <-exited:
			return err
		case <-time.After(c.patience):
			c.log.Warn("the worker is still there after the drain", "signal", s.String())
			c.signal(s)
		}
	}
	return <-exited
}

func exitCode(err error) (code int, killed bool, fault error) {
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // the latter only when it exited with 0
		return 0, false, nil
	case !errors.As(err, &exit):
		return 0, false, fmt.Errorf("waiting for the worker: %w", err)
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), true, nil
	}
	return exit.ExitCode(), exit.ExitCode() == 1 || exit.ExitCode() == 3, nil
}

// longestLine is how much of what the worker prints is held: a longer line comes in pieces.
const longestLine = 64 << 10

// prefixed copies lines with the worker's label in front.
type prefixed struct {
	w    *io.PipeWriter
	done chan struct{}
}

func (p prefixed) Write(b []byte) (int, error) { return p.w.Write(b) }

func (p prefixed) close() {
	_ = p.w.Close()
	<-p.done
}

func (c *child) pipe(to io.Writer) prefixed {
	r, w := io.Pipe()
	p := prefixed{w: w, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		lines := bufio.NewReaderSize(r, longestLine)
		for {
			line, err := lines.ReadSlice('\n')
			if errors.Is(err, bufio.ErrBufferFull) { // the rest is a line of its own
				err = nil
			}
			if len(line) > 0 {
				fmt.Fprintf(to, "%s | %s\n", c.label, bytes.TrimSuffix(line, []byte("\n")))
			}
			if err != nil {
				_ = r.CloseWithError(err)
				return
			}
		}
	}()
	return p
}
