package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/pillion/pillion/protocol"
)

// player plays one case.
type player struct {
	scenario Scenario
	options  Options
	model    *model
	server   *server
	dir      string
	ctx      context.Context

	events chan any
	done   chan struct{}
	ends   sync.WaitGroup // of processes

	worker    *worker
	processes int
	output    *tail
	log       *tail // what was said, for people

	conn        *conn
	conns       int
	knocking    *handshake // not answered yet
	quietSince  time.Time  // when the player last ended a connection or handshake
	epochs      uint32
	answersHeld bool
	creditHeld  bool
	owed        []*stream
	manner      manner
	glued       []byte

	hears     func(raw []byte) bool // what a step waits to be told
	forbidden []string              // types that must not come now
	leaving   bool                  // the step expects the connection or the process to end
}

// play plays a case from beginning to end.
func play(ctx context.Context, s Scenario, o Options) (result Result) {
	p := &player{scenario: s, options: o, model: newModel(), ctx: ctx, events: make(chan any, 64), done: make(chan struct{}), output: &tail{}, log: &tail{}}
	result = Result{Case: s.Name, Level: s.Level, About: s.About}
	began := time.Now()
	defer func() { result.Seconds = time.Since(began).Seconds() }()
	err := p.set()
	defer p.close()
	for i := 0; i < len(s.steps) && err == nil; i++ {
		result.Line, result.Step = s.steps[i].line, s.steps[i].text
		p.trace("step", s.steps[i].text)
		err = s.steps[i].do(p)
	}
	result.judge(p, err)
	return result
}

// judge says how it ended.
func (r *Result) judge(p *player, err error) {
	var f *failure
	switch {
	case err == nil:
		r.Pass, r.Line, r.Step = true, 0, ""
	case errors.As(err, &f):
		r.Expected, r.Came, r.Hint = f.want, f.came, f.hint
		if r.Hint == "" {
			r.Hint = p.scenario.Hint
		}
	default:
		r.Expected, r.Came, r.Hint = "the case to be played", err.Error(), p.scenario.Hint
	}
	if !r.Pass {
		r.Output, r.Trace = p.output.String(), p.log.String()
	}
}

// set makes what the worker finds: a directory, a token, a listener.
func (p *player) set() error {
	dir, err := os.MkdirTemp("", "pillion-conformance-")
	if err != nil {
		return err
	}
	p.dir = dir
	raw := make([]byte, 16)
	_, _ = rand.Read(raw)
	token := hex.EncodeToString(raw)
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("  "+token+"\n\n"), 0o600); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o700); err != nil {
		return err
	}
	network, address := "tcp", "127.0.0.1:0"
	if p.scenario.Listen == "unix" {
		network, address = "unix", filepath.Join(dir, "sock")
	}
	if p.server, err = listen(network, address, token, p.events, p.done); err != nil {
		return err
	}
	go func() { _ = p.server.http.Serve(p.server.listener) }()
	return nil
}

// close ends everything, whatever state it is in.
func (p *player) close() {
	close(p.done)
	if p.server != nil {
		_ = p.server.http.Close()
	}
	if p.conn != nil && p.conn.wire != nil {
		_ = p.conn.wire.Close()
	}
	p.worker.signal(syscall.SIGKILL)
	p.ends.Wait()
	if p.dir != "" {
		_ = os.RemoveAll(p.dir)
	}
}

// environment is what the worker's process gets.
func (p *player) environment() []string {
	env := []string{
		"PILLION_URL=" + p.server.url, "PILLION_TOKEN_FILE=" + filepath.Join(p.dir, "token"),
		"PILLION_CONFORMANCE_JOB=" + p.scenario.Job, "PILLION_CONFORMANCE_DIR=" + p.work(""),
	}
	if p.scenario.Proxy {
		for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
			env = append(env, name+"=http://127.0.0.1:1")
		}
		env = append(env, "NO_PROXY=", "no_proxy=")
	}
	return env
}

func (p *player) work(name string) string { return filepath.Join(p.dir, "work", name) }

// nameOf is what a task is called on the wire.
func (p *player) nameOf(task string) string {
	if p.scenario.Names == "odd" {
		return "§ " + hex.EncodeToString([]byte(task)) + " \"/\\ 9"
	}
	return task
}

func (p *player) limits() protocol.Limits {
	if p.scenario.Limits != nil {
		return *p.scenario.Limits
	}
	return protocol.Limits{MaxFrame: 16 << 20, MaxControl: 1 << 20, MaxCommitBytes: 16 << 20, MaxOutstandingCommits: 2}
}

// until handles events until met says so. What it says besides is why it waits, for people; a missing
// event is the worker's fault.
func (p *player) until(want string, met func() bool) error {
	return p.untilWithin(p.options.Patience, want, met)
}

func (p *player) untilWithin(patience time.Duration, want string, met func() bool) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for !met() {
		if err := p.alive(want); err != nil {
			return err
		}
		select {
		case e := <-p.events:
			if err := p.handle(e); err != nil {
				return err
			}
		case <-poll.C:
		case <-timer.C:
			return fail(want, fmt.Sprintf("nothing of it within %s%s", patience, p.standing()), "")
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
	}
	return nil
}

// pass lets time go by; what comes is checked.
func (p *player) pass(d time.Duration) error {
	end := time.Now().Add(d)
	return p.untilWithin(d+p.options.Patience, "a worker that goes on", func() bool { return time.Now().After(end) })
}

// alive fails when the worker has gone although the step did not want it.
func (p *player) alive(want string) error {
	if p.leaving {
		return nil
	}
	if p.worker != nil && p.worker.over && (p.conn == nil || p.conn.ended) { // else its last words are on their way
		return fail(want, fmt.Sprintf("the worker's process ended with exit code %d", p.worker.code), "")
	}
	if c := p.conn; c != nil && c.ended {
		how := "without a close code"
		if c.code != 0 {
			how = fmt.Sprintf("with %d", c.code)
		}
		return fail(want, "the worker ended the connection "+how, "")
	}
	return nil
}

// standing says what the worker is known to be doing, for failures.
func (p *player) standing() string {
	if p.conn == nil || p.conn.ended {
		return ""
	}
	for _, e := range p.conn.tasks {
		if e.living() && len(e.queue) > 0 && e.queue[0].stream != nil && !p.conn.maySend(e.queue[0].stream) {
			s := e.queue[0].stream
			return fmt.Sprintf("; frames for %s wait for the worker's credit (stream: sent %d of %d, connection: %d of %d)", s.name, s.sent, s.limit, p.conn.sent, p.conn.limit)
		}
	}
	return ""
}

// handle takes one event.
func (p *player) handle(event any) error {
	switch e := event.(type) {
	case handshake:
		if p.knocking != nil {
			return fail("one connection at a time", "a second handshake while the first waits", "open the next connection when the one before has ended")
		}
		p.knocking = &e
	case opening:
		if p.conn != nil && p.conn.number == e.conn {
			p.conn.wire = e.wire
		}
	case arrived:
		if p.conn != nil && p.conn.number == e.conn && !p.conn.ended {
			return p.conn.arrived(e)
		}
	case ended:
		if p.conn != nil && p.conn.number == e.conn && !p.conn.ended {
			p.conn.ended, p.conn.code, p.conn.why = true, e.code, e.why
			p.conn.held = nil // Kafka has nothing of them, unless the scenario says so
			p.trace("worker", fmt.Sprintf("end of the connection, close %d", e.code))
		}
	case exited:
		if p.worker != nil && p.worker.number == e.number {
			p.worker.over, p.worker.code = true, e.code
			p.trace("worker", fmt.Sprintf("exit code %d", e.code))
		}
	}
	return nil
}

// trace keeps what happened, for people.
func (p *player) trace(who, what string) {
	if len(what) > 300 {
		what = what[:300] + "…"
	}
	fmt.Fprintf(p.log, "%s: %s\n", who, what)
}

// epoch finds the living epoch of a task.
func (p *player) epoch(task string) (*epoch, error) {
	if p.conn == nil {
		return nil, errors.New("the scenario has no connection yet")
	}
	e := p.conn.tasks[task]
	if e == nil || !e.living() {
		return nil, fmt.Errorf("the scenario names task %s, which is not assigned", task)
	}
	return e, nil
}
