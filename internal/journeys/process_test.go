//go:build kafka

package journeys

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait (one of them is for a worker that blocks for a minute). No test takes that long unless it fails.
const patience = 90 * time.Second

const sigcont = syscall.SIGCONT

// entry is one line of a process's output: JSON of the sidecar's log or of a worker's event.
type entry struct {
	text   string
	fields map[string]any
}

// is says whether an entry has this message (a log line's @message, an event's name) and fields,
// given in pairs.
func (e entry) is(name string, pairs ...any) bool {
	if e.fields["@message"] != name && e.fields["event"] != name {
		return false
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if fmt.Sprint(e.fields[pairs[i].(string)]) != fmt.Sprint(pairs[i+1]) {
			return false
		}
	}
	return true
}

func (e entry) str(field string) string { s, _ := e.fields[field].(string); return s }

func (e entry) num(field string) int64 { n, _ := e.fields[field].(float64); return int64(n) }

// process is a child with its output kept.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd

	mu      sync.Mutex
	entries []entry
	changed chan struct{} // closed and made anew with every line
	ended   chan struct{}
	code    int
}

// start runs a command in the environment of the test and env. It is killed when the test ends.
func start(t *testing.T, name string, env []string, command ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, changed: make(chan struct{}), ended: make(chan struct{})}
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Env = append(without(os.Environ(), "PILLION_"), env...)
	r, w := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = w, w
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	read := make(chan struct{})
	go func() { defer close(read); p.read(r) }()
	go func() {
		err := p.cmd.Wait()
		w.Close()
		<-read
		p.mu.Lock()
		p.code = exitCode(err)
		p.mu.Unlock()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() || os.Getenv("JOURNEYS_LOG") != "" {
			t.Logf("%s said\n%s", p.name, p.tail(150))
		}
	})
	return p
}

// without drops the variables with a prefix: what the tester has set is not for the tested.
func without(environ []string, prefix string) []string {
	return slices.DeleteFunc(environ, func(kv string) bool { return strings.HasPrefix(kv, prefix) })
}

func (p *process) read(r io.Reader) {
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			p.add(strings.TrimRight(line, "\n"))
		}
		if err != nil {
			return
		}
	}
}

func (p *process) add(text string) {
	e := entry{text: text}
	if at := strings.IndexByte(text, '{'); at >= 0 { // behind the label of a child
		_ = json.Unmarshal([]byte(text[at:]), &e.fields)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.entries = append(p.entries, e)
	close(p.changed)
	p.changed = make(chan struct{})
}

// mark is how many lines there are: what a wait for something new begins at.
func (p *process) mark() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.entries)
}

// since are the entries from a mark on that match.
func (p *process) since(mark int, match func(entry) bool) []entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []entry
	for _, e := range p.entries[mark:] {
		if match(e) {
			out = append(out, e)
		}
	}
	return out
}

// waitFor waits until an entry from the mark on matches.
func (p *process) waitFor(mark int, what string, match func(entry) bool) entry {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		p.mu.Lock()
		fresh, changed := p.entries[mark:], p.changed
		mark = len(p.entries)
		p.mu.Unlock()
		for _, e := range fresh {
			if match(e) {
				return e
			}
		}
		select {
		case <-changed:
		case <-p.ended:
			if p.mark() == mark {
				p.t.Fatalf("%s ended with code %d before %s", p.name, p.exit(), what)
			}
		case <-deadline:
			p.t.Fatalf("%s: waited %v for %s, in vain", p.name, patience, what)
		}
	}
}

// waitSince waits for a message or event after the mark.
func (p *process) waitSince(mark int, name string, pairs ...any) entry {
	p.t.Helper()
	return p.waitFor(mark, fmt.Sprintf("%q %v", name, pairs), func(e entry) bool { return e.is(name, pairs...) })
}

// waitAll waits for so many of a message or event after the mark.
func (p *process) waitAll(mark, count int, name string) (all []entry) {
	p.t.Helper()
	p.waitFor(mark, fmt.Sprintf("%d times %q", count, name), func(e entry) bool {
		if e.is(name) {
			all = append(all, e)
		}
		return len(all) == count
	})
	return all
}

// wait waits for a message or event, said already or not.
func (p *process) wait(name string, pairs ...any) entry {
	p.t.Helper()
	return p.waitSince(0, name, pairs...)
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatalf("send %v to %s: %v", s, p.name, err)
	}
}

// kill is SIGKILL, and waits for the end.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	p.exit()
}

// stop is SIGTERM; it gives the exit code.
func (p *process) stop() int {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	return p.exit()
}

// exit waits for the end and gives the exit code; 128 + n after signal n.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("%s: waited %v for its end, in vain", p.name, patience)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.code
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

// tail is the end of what it said, but for commits that went well.
func (p *process) tail(lines int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	told := slices.DeleteFunc(slices.Clone(p.entries), func(e entry) bool { return e.is("commit", "ok", true) })
	for _, e := range told[max(0, len(told)-lines):] {
		b.WriteString("    " + e.text + "\n")
	}
	return b.String()
}

// until asks until done; for what tells nobody when it happens.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v until %s, in vain", patience, what)
		}
		<-tick.C
	}
}
