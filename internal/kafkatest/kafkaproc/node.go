package kafkaproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Node is one broker (and controller): a place on disk, a port, and a process
// that may be running or not.
type Node struct {
	ID   int32
	Addr string // of the plain listener

	// Of a secured Kafka: SASL_SSL, SSL with client certificates, SASL_PLAINTEXT.
	SecureAddr, CertAddr, SaslAddr string

	libs    *Libs
	jvm     []string
	config  string // its server.properties
	logFile string
	brokers int

	running *process
}

// process is one life of a node.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and been waited for
	err  error         // valid after done
}

var errNotRunning = errors.New("the broker is not running")

// Start starts the broker on its data and port, and waits until it answers
// and lists itself.
func (n *Node) Start(ctx context.Context) error {
	if err := n.launch(); err != nil {
		return err
	}
	return n.ready(ctx, 1)
}

// launch starts the process and waits for nothing.
func (n *Node) launch() error {
	if n.Running() {
		return fmt.Errorf("start node %d: it is running", n.ID)
	}
	log, err := os.OpenFile(n.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(n.libs.java, n.libs.javaArgs(n.jvm, "kafka.Kafka", n.config)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel kills the child when the *thread* that started it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start node %d: %w", n.ID, err)
	}
	n.running = p
	return nil
}

// Running says whether the process is there (also when paused).
func (n *Node) Running() bool {
	if n.running == nil {
		return false
	}
	select {
	case <-n.running.done:
		return false
	default:
		return true
	}
}

// Done is closed when the current process has ended.
func (n *Node) Done() <-chan struct{} {
	if n.running == nil {
		done := make(chan struct{})
		close(done)
		return done
	}
	return n.running.done
}

// Kill ends the broker at once, as a power failure would: SIGKILL.
func (n *Node) Kill() error {
	if err := n.signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill node %d: %w", n.ID, err)
	}
	<-n.running.done
	return nil
}

// Stop ends the broker as a rolling restart would: SIGTERM, and wait. A broker
// that has not ended with the context is killed, and that is an error.
func (n *Node) Stop(ctx context.Context) error {
	if err := n.signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop node %d: %w", n.ID, err)
	}
	return n.ended(ctx)
}

func (n *Node) ended(ctx context.Context) error {
	select {
	case <-n.running.done:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("stop node %d: it did not end: %w", n.ID, ctx.Err()), n.Kill())
	}
}

// Pause halts the process: its connections stay, and nobody answers. SIGSTOP.
func (n *Node) Pause() error {
	if err := n.signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("pause node %d: %w", n.ID, err)
	}
	return nil
}

// Continue ends a pause. SIGCONT.
func (n *Node) Continue() error {
	if err := n.signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("continue node %d: %w", n.ID, err)
	}
	return nil
}

func (n *Node) signal(s syscall.Signal) error {
	if !n.Running() {
		return errNotRunning
	}
	err := n.running.cmd.Process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Trouble is what the broker has printed last, without its everyday lines and
// without where in its code that was.
func (n *Node) Trouble(lines int) string {
	var out []string
	for _, l := range strings.Split(n.Log(5_000), "\n") {
		if !strings.Contains(l, " INFO ") && !strings.HasPrefix(l, "\tat ") {
			out = append(out, l)
		}
	}
	return strings.Join(out[max(0, len(out)-lines):], "\n")
}

// Log is the end of what the broker has printed.
func (n *Node) Log(lines int) string {
	text, err := os.ReadFile(n.logFile)
	if err != nil {
		return err.Error()
	}
	return lastLines(text, lines)
}

// ready waits until the node answers and lists that many brokers and itself.
func (n *Node) ready(ctx context.Context, brokers int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, StartTimeout, errors.New("no answer in time"))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ids, err := brokerIDs(ctx, n.Addr)
		if err == nil && ids[n.ID] && len(ids) >= brokers {
			return nil
		}
		select {
		case <-n.running.done:
			return fmt.Errorf("node %d ended while starting: %v\n%s", n.ID, n.running.err, n.Log(40))
		case <-ctx.Done():
			return fmt.Errorf("node %d at %s does not list %d brokers: %w (last: %v, %v)\n%s",
				n.ID, n.Addr, brokers, context.Cause(ctx), ids, err, n.Log(40))
		case <-tick.C:
		}
	}
}
