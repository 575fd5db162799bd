package conformance

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// state is where an epoch stands, as the player sees it.
type state string

const (
	waitsOpen state = "opening"
	restoring state = "restoring"
	restored  state = "restored"
	running   state = "running"
	revoking  state = "revoking"
	released  state = "released"
	failed    state = "failed"
	over      state = "over"
)

// epoch is one life of a task on the present connection.
type epoch struct {
	task      string // as scenarios call it
	wireName  string
	set       string
	partition int32
	number    uint32
	role      protocol.Role
	state     state
	ran       bool // it has been running
	asked     int64
	ready     int64 // the id that ready must answer; 0: none
	overtaken map[int64]bool
	revoke    int64
	resets    map[int64]*stream
	tables    map[string]*stream
	source    *stream
	output    *stream
	next      int64  // position of the last commit that came
	queue     []item // what goes in stream, and waits for credit
}

// stream is one topic partition under one epoch.
type stream struct {
	id       uint32
	of       *epoch
	name     string // of the table, source or output
	topic    string
	kind     protocol.TableKind // of tables
	position int64              // where the next frame begins
	window   int64              // first limit of what we send
	sent     int64
	limit    int64
	sizes    []int64 // of the frames that were sent
	received int64
	granted  int64
	ends     map[int64]string // positions that a commit may name, and what they are
}

// item travels in its task's stream: a frame, or a message behind frames.
type item struct {
	stream  *stream // nil: a message
	payload []byte
	sent    func()
}

// commit is one that came whole, or is coming.
type commit struct {
	id     int64
	of     *epoch
	frames []*frame.Frame
	bytes  int64
	next   map[string]int64
}

func (e *epoch) living() bool { return e.state != over }

func (e *epoch) log(table string) string { return table + "/" + strconv.Itoa(int(e.partition)) }

// split takes "words/0" apart.
func split(task string) (set string, partition int32, err error) {
	set, number, ok := strings.Cut(task, "/")
	n, err := strconv.ParseInt(number, 10, 32)
	if !ok || err != nil {
		return "", 0, fmt.Errorf("%q is no task: write set/partition", task)
	}
	return set, int32(n), nil
}

// begin makes an epoch with its streams.
func (c *conn) begin(task string, role protocol.Role) (*epoch, error) {
	set, partition, err := split(task)
	if err != nil {
		return nil, err
	}
	if old := c.tasks[task]; old != nil {
		old.state = over
	}
	c.p.epochs++
	e := &epoch{
		task: task, wireName: c.p.nameOf(task), set: set, partition: partition, number: c.p.epochs, role: role, state: waitsOpen,
		resets: map[int64]*stream{}, tables: map[string]*stream{}, overtaken: map[int64]bool{},
	}
	switch {
	case role == protocol.RoleGlobal:
		c.table(e, set, protocol.TableGlobal)
	case c.p.scenario.Job == jobTables:
		c.table(e, "counts", protocol.TableChangelog)
		c.table(e, "names", protocol.TableSource)
	}
	if role == protocol.RoleActive {
		e.source = c.stream(e, "words", "words")
		e.source.position = c.p.model.positions[task]
		e.next = e.source.position
		e.source.ends = map[int64]string{e.next: "the position of assign"}
		e.output = c.stream(e, "changes", "changes")
	}
	c.tasks[task] = e
	return e, nil
}

func (c *conn) table(e *epoch, name string, kind protocol.TableKind) {
	topic := name
	if kind == protocol.TableChangelog {
		topic = "conformance-" + name + "-changelog"
	}
	e.tables[name] = c.stream(e, name, topic)
	e.tables[name].kind = kind
}

func (c *conn) stream(e *epoch, name, topic string) *stream {
	c.lastStream += 3 // numbers need not be dense
	s := &stream{id: c.lastStream, of: e, name: name, topic: topic, window: c.hello.Credit.Stream, limit: c.hello.Credit.Stream, granted: c.welcome.Credit.Stream}
	c.streams[s.id] = s
	return s
}

// order gives the tables of an epoch as assign lists them.
func (e *epoch) order() []*stream {
	var out []*stream
	for _, name := range []string{"counts", "names"} {
		if s := e.tables[name]; s != nil {
			out = append(out, s)
		}
	}
	if e.role == protocol.RoleGlobal {
		out = append(out, e.tables[e.set])
	}
	return out
}

func (e *epoch) tableStreams() []protocol.TableStream {
	var out []protocol.TableStream
	for _, s := range e.order() {
		out = append(out, protocol.TableStream{Name: s.name, Topic: s.topic, Kind: s.kind, Stream: s.id})
	}
	return out
}

func (e *epoch) sources() []protocol.SourceStream {
	if e.source == nil {
		return nil
	}
	return []protocol.SourceStream{{Topic: e.source.topic, Stream: e.source.id, Position: e.source.position}}
}

func (e *epoch) outputs() []protocol.OutputStream {
	if e.output == nil {
		return nil
	}
	return []protocol.OutputStream{{Topic: e.output.topic, Stream: e.output.id}}
}
