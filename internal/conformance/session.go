package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// conn is one connection of the worker, from the handshake to its end.
type conn struct {
	p       *player
	number  int
	wire    *wire
	hello   protocol.Hello
	welcome protocol.Welcome

	tasks   map[string]*epoch // the newest of each task
	epochs  map[uint32]*epoch
	streams map[uint32]*stream

	lastStream  uint32
	lastID      int64 // of our requests
	lastRequest int64 // of the worker's

	sent, limit       int64 // what we send
	received, granted int64 // what the worker sends
	sending           *commit
	held              []*commit // whole, and without an answer

	greeted bool // hello came
	lively  bool // progress came since the last lost
	ended   bool
	code    int // of the close; 0: none
	why     string
}

// say sends a control message.
func (c *conn) say(m protocol.Message) error {
	b, err := protocol.Encode(m)
	if err != nil {
		return fmt.Errorf("the scenario makes a bad message: %w", err)
	}
	c.text(b)
	return nil
}

func (c *conn) text(b []byte) {
	if c.p.scenario.Extra {
		b = append(bytes.TrimSuffix(bytes.Clone(b), []byte("}")), `,"x_nobody_knows":{"a":[1,null,1.5e3,"\u0000"],"type":"lost"}}`...)
	}
	c.put(opText, b)
}

func (c *conn) put(op byte, payload []byte) {
	if c.wire == nil || c.ended {
		return
	}
	b := c.p.manner.encode(op, payload)
	if c.p.manner.Glue {
		c.p.glued = append(c.p.glued, b...)
		return
	}
	c.wire.post(b, c.p.manner.Chunk)
}

func (c *conn) nextID() int64 {
	c.lastID++
	return c.lastID
}

// pump sends what waits in the tasks' streams, as far as the worker's credit allows. A frame without
// credit stops only what is behind it in its own task.
func (c *conn) pump() {
	for _, name := range slices.Sorted(maps.Keys(c.tasks)) {
		e := c.tasks[name]
		for len(e.queue) > 0 && e.living() {
			i := e.queue[0]
			if i.stream == nil {
				c.text(i.payload)
			} else {
				if !c.maySend(i.stream) {
					break
				}
				n := int64(len(i.payload))
				c.sent, i.stream.sent = c.sent+n, i.stream.sent+n
				i.stream.sizes = append(i.stream.sizes, n)
				c.put(opBinary, i.payload)
			}
			e.queue = e.queue[1:]
			if i.sent != nil {
				i.sent()
			}
		}
	}
}

func (c *conn) maySend(s *stream) bool { return s.sent < s.limit && c.sent < c.limit }

// inStream sends a message behind the frames of its task.
func (c *conn) inStream(e *epoch, m protocol.Message, sent func()) error {
	b, err := protocol.Encode(m)
	if err != nil {
		return fmt.Errorf("the scenario makes a bad message: %w", err)
	}
	e.queue = append(e.queue, item{payload: b, sent: sent})
	c.pump()
	return nil
}

// arrived takes one message of the worker.
func (c *conn) arrived(a arrived) error {
	if a.binary {
		if !c.greeted {
			return fail("hello, and nothing else before welcome", "a data frame", "PROTOCOL.md, section 2")
		}
		return c.frame(a.data)
	}
	if limit := c.p.limits().MaxControl; int64(len(a.data)) > limit {
		return fail(fmt.Sprintf("control messages of at most %d bytes", limit), fmt.Sprintf("one of %d", len(a.data)), "limits.max_control of welcome")
	}
	m, err := protocol.Decode(a.data)
	var bad *protocol.DecodeError
	if errors.As(err, &bad) {
		return fail("messages as in spec/schema", fmt.Sprintf("%s: %.200s", bad.Message, a.data), "compare the message with its schema and with the vectors in spec/vectors/messages")
	}
	if m == nil {
		return nil
	}
	c.p.trace("worker", string(a.data))
	if slices.Contains(c.p.forbidden, m.Type()) {
		return fail("no "+m.Type()+" now", fmt.Sprintf("%.200s", a.data), "")
	}
	return c.control(m, a.data)
}

func (c *conn) control(m protocol.Message, raw []byte) error {
	if _, hello := m.(protocol.Hello); hello == c.greeted {
		return fail("hello once, and before everything else", fmt.Sprintf("%.200s", raw), "PROTOCOL.md, section 2: the worker sends hello and nothing else until welcome comes")
	}
	switch m := m.(type) {
	case protocol.Hello:
		c.hello, c.greeted, c.lastRequest = m, true, m.ID
		c.limit = m.Credit.Connection
		return nil
	case protocol.Opened:
		return c.opened(m)
	case protocol.Ready:
		return c.ready(m)
	case protocol.Released:
		return c.released(m)
	case protocol.Commit:
		return c.commit(m)
	case protocol.Credit:
		return c.grant(m)
	case protocol.Progress:
		c.lively = true
		return nil
	case protocol.Error:
		return c.said(m, raw)
	}
	return fail("messages that a worker sends", fmt.Sprintf("%.200s", raw), "PROTOCOL.md, section 4 says who sends which")
}

// find gives the epoch of a message; nil when it is over.
func (c *conn) find(kind, task string, number uint32) (*epoch, error) {
	e := c.epochs[number]
	if e == nil || e.wireName != task {
		return nil, fail("a task and an epoch that were assigned on this connection", fmt.Sprintf("%s of task %s, epoch %d", kind, task, number), "name task and epoch exactly as assign, promoted or demoted gave them")
	}
	if !e.living() {
		return nil, nil
	}
	return e, nil
}

func (c *conn) opened(m protocol.Opened) error {
	e, err := c.find("opened", m.Task, m.Epoch)
	if e == nil {
		return err
	}
	if s := e.resets[m.Re]; s != nil {
		delete(e.resets, m.Re)
		if p := m.Checkpoints[s.name]; p != nil && *p != "" {
			return fail("opened with null for "+s.name, fmt.Sprintf("the checkpoint %q", *p), "reset: wipe rows and checkpoint of that store before opened is sent")
		}
		return nil
	}
	if m.Re != e.asked || e.state != waitsOpen && e.state != revoking {
		return fail("opened once for each assign and reset", fmt.Sprintf("opened with re %d for task %s in state %s", m.Re, e.task, e.state), "re is the id of the request that it answers")
	}
	for name, given := range m.Checkpoints {
		s := e.tables[name]
		if s == nil {
			return fail("checkpoints of the task's tables", fmt.Sprintf("one of a table %q", name), "opened has the names that assign lists")
		}
		if given == nil || *given == "" {
			continue
		}
		at, known := c.p.model.points[*given]
		if !known || at.log != e.log(name) {
			return fail(fmt.Sprintf("a checkpoint that was given for %s, unchanged, or null", e.log(name)), fmt.Sprintf("%q", *given), "keep the checkpoint as an opaque string, one for each task and table")
		}
		if at.void {
			return fail("a store without the rows of a commit whose epoch was over when its answer came", fmt.Sprintf("the checkpoint of that answer for %s", e.log(name)), "after lost the store takes nothing of the epoch any more, not even at committed")
		}
		s.position = at.position
	}
	if e.state == waitsOpen {
		e.state = restoring
	}
	return nil
}

func (c *conn) ready(m protocol.Ready) error {
	e, err := c.find("ready", m.Task, m.Epoch)
	if e == nil || e.overtaken[m.Re] || e.state == revoking {
		return err
	}
	if m.Re != e.ready || e.state != restored {
		return fail("ready once for each restored and promoted", fmt.Sprintf("ready with re %d for task %s in state %s", m.Re, e.task, e.state), "re is the id of the request that it answers; send it when all frames before it are applied")
	}
	e.ready, e.state, e.ran = 0, running, true
	return nil
}

func (c *conn) released(m protocol.Released) error {
	e, err := c.find("released", m.Task, m.Epoch)
	if e == nil {
		return err
	}
	if m.Re != e.revoke || e.state != revoking && e.state != failed {
		return fail("released once for each revoke", fmt.Sprintf("released with re %d for task %s in state %s", m.Re, e.task, e.state), "a worker cannot give a task back by itself")
	}
	if c.sending != nil && c.sending.of == e {
		return fail("released behind the last commit", "released in the middle of the frames of a commit", "send it when the commit before it has left")
	}
	e.state = released
	c.overWhenAnswered(e)
	return nil
}

func (c *conn) overWhenAnswered(e *epoch) {
	if e.state == released && c.waiting(e) == 0 {
		e.state = over
	}
}

func (c *conn) waiting(e *epoch) (n int) {
	for _, cm := range c.held {
		if cm.of == e {
			n++
		}
	}
	return n
}

// grant takes the worker's credit.
func (c *conn) grant(m protocol.Credit) error {
	const hint = "limit = first limit + bytes taken; bytes that were never sent cannot be taken"
	if most := c.hello.Credit.Connection + c.sent; m.Connection > most {
		return fail(fmt.Sprintf("at most %d for the connection", most), fmt.Sprintf("a limit of %d", m.Connection), hint)
	}
	c.limit = max(c.limit, m.Connection)
	for id, limit := range m.Streams {
		s := c.streams[id]
		if s == nil {
			return fail("streams that were given", fmt.Sprintf("credit for a stream %d", id), "the numbers are those of assign, promoted and demoted")
		}
		if most := s.window + s.sent; limit > most {
			return fail(fmt.Sprintf("at most %d for stream %d", most, id), fmt.Sprintf("a limit of %d", limit), hint)
		}
		s.limit = max(s.limit, limit)
	}
	c.pump()
	return nil
}

// said takes an error of the worker: only a step that waits for it wants one.
func (c *conn) said(m protocol.Error, raw []byte) error {
	if e := c.epochs[m.Epoch]; m.Epoch != 0 && e != nil && !e.living() {
		return nil
	}
	if c.p.hears != nil && c.p.hears(raw) {
		return nil
	}
	return fail("no error", fmt.Sprintf("%.300s", raw), "the worker refuses what a sidecar may say or send here")
}

// writes checks what a data frame of the worker is.
func (c *conn) writes(b []byte) (*frame.Frame, *stream, error) {
	f, err := frame.Parse(b)
	if err != nil {
		return nil, nil, fail("frames as in PROTOCOL.md, section 5", err.Error(), "try the encoder with spec/vectors/frames")
	}
	s := c.streams[f.Stream]
	switch {
	case f.Kind != frame.Writes:
		return nil, nil, fail("frames of kind writes", "one of kind "+f.Kind.String(), "a worker sends no other kind")
	case s == nil:
		return nil, nil, fail("frames on streams that were given", fmt.Sprintf("one on stream %d", f.Stream), "changelogs have the stream of their table, outputs their own")
	case f.Epoch != s.of.number:
		return nil, nil, fail(fmt.Sprintf("epoch %d on stream %d", s.of.number, s.id), fmt.Sprintf("epoch %d", f.Epoch), "a stream belongs to one epoch for ever")
	case s != s.of.output && s.kind != protocol.TableChangelog:
		return nil, nil, fail("writes to changelogs and outputs", "writes to "+s.name, "source and global tables are read-only, and so are sources")
	case int64(len(b)) > c.welcome.Limits.MaxFrame:
		return nil, nil, fail(fmt.Sprintf("frames of at most %d bytes", c.welcome.Limits.MaxFrame), fmt.Sprintf("one of %d", len(b)), "limits.max_frame of welcome")
	}
	return f, s, nil
}
