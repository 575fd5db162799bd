package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/pillion/pillion/protocol"
)

// verbs are the steps of a scenario by their first key.
var verbs = map[string]func([]byte) (action, error){}

func init() {
	for _, group := range []map[string]func([]byte) (action, error){connectVerbs, taskVerbs, dataVerbs, sayVerbs} {
		for name, verb := range group {
			verbs[name] = verb
		}
	}
}

var connectVerbs = map[string]func([]byte) (action, error){
	"start":   as(doStart),
	"connect": as(doConnect),
	"refuse":  as(doRefuse),
	"close":   as(doClose),
	"closes":  as(doCloses),
	"exits":   as(doExits),
	"signal":  as(doSignal),
	"inside":  as(doInside),
	"let_go":  as(doLetGo),
	"pause":   as(doPause),
}

type startStep struct {
	Start bool `json:"start"`
}

func doStart(p *player, _ startStep) error {
	p.quietSince = time.Time{}
	return p.start(p.environment())
}

type connectStep struct {
	Connect bool  `json:"connect"`
	AfterMS int64 `json:"after_ms"`
}

// doConnect waits for a connection, checks the handshake and hello, and answers welcome.
func doConnect(p *player, s connectStep) error {
	h, err := p.knock(s.AfterMS)
	if err != nil {
		return err
	}
	p.conns++
	c := &conn{p: p, number: p.conns, tasks: map[string]*epoch{}, epochs: map[uint32]*epoch{}, streams: map[uint32]*stream{}}
	if err := p.server.check(h.request); err != nil {
		h.answer <- verdict{status: 400, code: "bad_subprotocol"}
		return err
	}
	p.conn = c
	h.answer <- verdict{conn: c.number}
	if err := p.until("hello", func() bool { return c.greeted && c.wire != nil }); err != nil {
		return err
	}
	if err := c.checkHello(); err != nil {
		return err
	}
	return c.greet()
}

// knock waits for a handshake of the worker, which it starts when nobody has, and leaves it unanswered.
func (p *player) knock(afterMS int64) (*handshake, error) {
	if p.worker == nil {
		if err := doStart(p, startStep{}); err != nil {
			return nil, err
		}
	}
	p.leaving = p.worker != nil && !p.worker.over
	defer func() { p.leaving = false }()
	err := p.until("a connection", func() bool { return p.knocking != nil || p.worker != nil && p.worker.over })
	if err != nil {
		return nil, err
	}
	if p.knocking == nil {
		return nil, fail("a connection", fmt.Sprintf("the worker's process ended with exit code %d", p.worker.code), "")
	}
	h := p.knocking
	p.knocking = nil
	if waited := time.Since(p.quietSince).Milliseconds(); !p.quietSince.IsZero() && waited < afterMS {
		return nil, fail(fmt.Sprintf("a pause of at least %d ms before the next attempt", afterMS), fmt.Sprintf("one of %d ms", waited), "PROTOCOL.md, section 9: 100 ms, then twice as long each time, at most 5 s, with some jitter")
	}
	return h, nil
}

type refuseStep struct {
	Refuse  int    `json:"refuse"`
	Code    string `json:"code"`
	AfterMS int64  `json:"after_ms"`
}

// doRefuse sends the next handshake away.
func doRefuse(p *player, s refuseStep) error {
	h, err := p.knock(s.AfterMS)
	if err != nil {
		return err
	}
	p.quietSince = time.Now() // the worker begins to wait later than that
	h.answer <- verdict{status: s.Refuse, code: s.Code}
	return nil
}

// checkHello compares the declarations with the job.
func (c *conn) checkHello() error {
	h := c.hello
	if !slices.Contains(h.Versions, 1) {
		return fail("versions with 1", fmt.Sprint(h.Versions), "this is version 1 of the protocol")
	}
	level := string(c.hello.Level)
	if level == "" {
		level = "tables"
	}
	if slices.Index(Levels, level) < slices.Index(Levels, c.p.options.Level) && c.p.scenario.Job != jobStateless || !slices.Contains(Levels, level) {
		return fail("hello with the level "+c.p.options.Level+", which is being checked", fmt.Sprintf("level %q (without one it is tables)", c.hello.Level), "a sidecar gives standbys only to a worker whose hello says standby")
	}
	want := map[string]any{
		"sets":    []any{map[string]any{"name": "words", "sources": []any{"words"}}},
		"outputs": []any{"changes"}, "globals": nil,
	}
	if c.p.scenario.Job == jobTables {
		want["sets"].([]any)[0].(map[string]any)["tables"] = []any{map[string]any{"name": "counts"}, map[string]any{"name": "names", "source_topic": "names"}}
		want["globals"] = []any{map[string]any{"name": "places", "topic": "places"}}
	}
	if h.Group != "conformance" {
		return fail("the group conformance", fmt.Sprintf("%q", h.Group), "spec/scenarios/README.md says what the conformance job declares")
	}
	for field, have := range map[string]any{"sets": h.Sets, "outputs": h.Outputs, "globals": h.Globals} {
		a, _ := json.Marshal(want[field])
		b, _ := json.Marshal(plain(have))
		if string(a) != string(b) {
			return fail(field+" "+string(a), string(b), "spec/scenarios/README.md says what the conformance job declares; PILLION_CONFORMANCE_JOB was "+c.p.scenario.Job)
		}
	}
	return nil
}

// plain is a value as JSON has it, an empty list as null.
func plain(v any) any {
	b, _ := json.Marshal(v)
	var out any
	_ = json.Unmarshal(b, &out)
	if l, ok := out.([]any); ok && len(l) == 0 {
		return nil
	}
	return out
}

// greet answers hello.
func (c *conn) greet() error {
	s := c.p.scenario
	c.welcome = protocol.Welcome{
		Re: c.hello.ID, Version: 1, Session: fmt.Sprintf("case %s, connection %d", s.Name, c.number),
		Sidecar: protocol.Software{Name: "pillion conformance", Version: "1"}, Group: "conformance", Guarantee: "at_least_once",
		Limits: c.p.limits(), Credit: protocol.Window{Connection: 1 << 20, Stream: 1 << 20},
		Deadlines: protocol.Deadlines{Revoke: 10000, WorkerGrace: 10000, MaxProcessing: 300000},
	}
	if s.Credit != nil {
		c.welcome.Credit = *s.Credit
	}
	if s.Deadlines != nil {
		c.welcome.Deadlines = *s.Deadlines
	}
	c.granted = c.welcome.Credit.Connection
	return c.say(c.welcome)
}

type closeStep struct {
	Close  *int   `json:"close"`
	Reason string `json:"reason"`
}

// doClose ends the connection from this side; null: as a sidecar that was killed.
func doClose(p *player, s closeStep) error {
	c := p.conn
	p.quietSince = time.Now()
	if s.Close == nil {
		_ = c.wire.Close()
	} else {
		c.put(opClose, closePayload(*s.Close, s.Reason))
	}
	p.leaving = true
	defer func() { p.leaving = false }()
	err := p.until("the end of the connection", func() bool { return c.ended })
	if s.Close != nil && err == nil {
		_ = c.wire.Close()
	}
	return err
}

type closesStep struct {
	Closes []int `json:"closes"`
}

// doCloses waits for the worker's close. An error before it says why.
func doCloses(p *player, s closesStep) error {
	p.leaving, p.hears = true, func([]byte) bool { return true }
	defer func() { p.leaving, p.hears = false, nil }()
	if err := p.until(fmt.Sprintf("a close with one of %v", s.Closes), func() bool { return p.conn.ended }); err != nil {
		return err
	}
	if !slices.Contains(s.Closes, p.conn.code) {
		return fail(fmt.Sprintf("a close with one of %v", s.Closes), fmt.Sprintf("code %d (0: none)", p.conn.code), "")
	}
	return nil
}

type exitsStep struct {
	Exits json.RawMessage `json:"exits"` // a code, "not 0" or "any"
}

// doExits waits for the end of the process; a new connection instead of it is a fault.
func doExits(p *player, s exitsStep) error {
	p.leaving = true
	defer func() { p.leaving = false }()
	want := "the worker to exit without another connection"
	if err := p.until(want, func() bool { return p.worker.over || p.knocking != nil }); err != nil {
		return err
	}
	if !p.worker.over {
		return fail(want, "another connection", "")
	}
	var code int
	bad := false
	switch string(s.Exits) {
	case `"any"`:
	case `"not 0"`:
		bad = p.worker.code == 0
	default:
		if err := json.Unmarshal(s.Exits, &code); err != nil {
			return err
		}
		bad = p.worker.code != code
	}
	if bad {
		return fail(fmt.Sprintf("the exit code %s", s.Exits), fmt.Sprint(p.worker.code), "")
	}
	return nil
}

type signalStep struct {
	Signal string `json:"signal"`
}

func doSignal(p *player, s signalStep) error {
	signals := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "INT": syscall.SIGINT}
	if signals[s.Signal] == 0 {
		return fmt.Errorf("the scenario has no signal %q", s.Signal)
	}
	p.worker.signal(signals[s.Signal])
	if s.Signal != "KILL" {
		return nil
	}
	p.leaving = true
	defer func() { p.leaving = false }()
	return p.until("the end of the killed process", func() bool { return p.worker.over && p.conn.ended })
}

type insideStep struct {
	Inside string `json:"inside"`
}

// doInside waits until the worker's handler is at a record that holds it.
func doInside(p *player, s insideStep) error {
	return p.until("the worker's handler at the record that holds it (file "+s.Inside+".in)", func() bool {
		_, err := os.Stat(p.work(s.Inside + ".in"))
		return err == nil
	})
}

type letGoStep struct {
	LetGo string `json:"let_go"`
}

func doLetGo(p *player, s letGoStep) error {
	return os.WriteFile(p.work(s.LetGo+".go"), nil, 0o600)
}

type pauseStep struct {
	Pause int `json:"pause"`
}

func doPause(p *player, s pauseStep) error { return p.pass(time.Duration(s.Pause) * time.Millisecond) }
