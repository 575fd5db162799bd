package specgen

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pillion/pillion/internal/codegen"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// line is one line of a transcript.
type line struct {
	Note       string            `json:"note"`
	Cause      string            `json:"cause"`
	Do         json.RawMessage   `json:"do"`
	Connect    bool              `json:"connect"`
	From       string            `json:"from"`
	Message    json.RawMessage   `json:"message"`
	Frame      *Frame            `json:"frame"`
	Hex        string            `json:"hex"`
	Close      json.RawMessage   `json:"close"`
	Dropped    bool              `json:"dropped"`
	Held       bool              `json:"held"`
	Race       bool              `json:"race"`
	Queued     bool              `json:"queued"`
	Delivered  string            `json:"delivered"`
	Next       map[string]int64  `json:"next"`
	Given      *store            `json:"given"`
	Store      string            `json:"store"`
	Task       string            `json:"task"`
	Rows       map[string]string `json:"rows"`
	Checkpoint *string           `json:"checkpoint"`
}

// store is what a store holds before a task is assigned.
type store struct {
	Store      string            `json:"store"`
	Task       string            `json:"task"`
	Rows       map[string]string `json:"rows"`
	Checkpoint *string           `json:"checkpoint"`
}

// side is what one side has sent on the present connection.
type side struct {
	lastID  int64
	raced   bool                       // no request follows, see spec/README.md
	pending map[int64]protocol.Message // requests without an answer
	spent   map[uint32]int64
	limit   map[uint32]int64 // by stream; 0: the connection
	initial int64
}

func newSide() *side {
	return &side{pending: map[int64]protocol.Message{}, spent: map[uint32]int64{}, limit: map[uint32]int64{}}
}

// model checks a conversation against the rules of PROTOCOL.md.
type model struct {
	schemas *Schemas
	types   map[string]bool
	sides   map[string]*side
	epochs  map[string]uint32 // of each task; 0: none
	streams map[uint32]string // task and epoch of each stream that was given
	next    map[uint32]int64  // where the next frame of a stream starts
	commit  int64             // id of the writes since the last commit
	stores  map[string]map[string]string
	points  map[string]*string
	writes  map[int64][]*frame.Frame
	tables  map[uint32]string // store of a table's stream
}

func TestTranscriptsKeepTheRules(t *testing.T) {
	s := schemas(t)
	types := map[string]bool{}
	paths, _ := filepath.Glob(filepath.Join(root, "spec/transcripts/*.jsonl"))
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".jsonl"), func(t *testing.T) {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			m := &model{schemas: s, types: types, stores: map[string]map[string]string{}, points: map[string]*string{}}
			for i, text := range bytes.Split(bytes.TrimSpace(raw), []byte("\n")) {
				var l line
				dec := json.NewDecoder(bytes.NewReader(text))
				dec.DisallowUnknownFields()
				if err := dec.Decode(&l); err != nil {
					t.Fatalf("line %d: %v", i+1, err)
				}
				if err := m.take(l); err != nil {
					t.Fatalf("line %d: %v\n%s", i+1, err, text)
				}
			}
		})
	}
	codes, err := codegen.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range codes.Messages {
		if !types[c.Type] {
			t.Errorf("no transcript has the message %s", c.Type)
		}
	}
	for _, k := range codes.FrameKinds {
		if !types[k.Name] {
			t.Errorf("no transcript has a frame of kind %s", k.Name)
		}
	}
}

func (m *model) take(l line) error {
	switch {
	case l.Connect:
		m.sides = map[string]*side{"worker": newSide(), "sidecar": newSide()}
		m.epochs, m.streams, m.next, m.tables = map[string]uint32{}, map[uint32]string{}, map[uint32]int64{}, map[uint32]string{}
		m.commit, m.writes = 0, map[int64][]*frame.Frame{}
	case l.Frame != nil:
		return m.frame(l)
	case l.Message != nil:
		return m.message(l)
	case l.Store != "":
		return m.store(l)
	case l.Given != nil:
		name := l.Given.Store + " " + l.Given.Task
		m.stores[name], m.points[name] = l.Given.Rows, l.Given.Checkpoint
	case l.Delivered != "":
		return m.delivered(l)
	case l.Close != nil && string(l.Close) != "null":
		var code int
		if err := json.Unmarshal(l.Close, &code); err != nil || protocol.CloseName(code) == "" {
			return fmt.Errorf("close code %s is not in codes.json", l.Close)
		}
	}
	return nil
}

// delivered is never more than what was sent.
func (m *model) delivered(l line) error {
	for _, next := range l.Next {
		if next > slices.Max(slices.Collect(maps.Values(m.next))) {
			return fmt.Errorf("%d was never sent", next)
		}
	}
	return nil
}

func other(name string) string {
	if name == "worker" {
		return "sidecar"
	}
	return "worker"
}

func (m *model) message(l line) error {
	decoded, err := protocol.Decode(l.Message)
	if decoded == nil {
		var head struct {
			Type string
			ID   int64
		}
		_ = json.Unmarshal(l.Message, &head)
		if !strings.HasPrefix(head.Type, "zz_") {
			return err
		}
		m.sides[l.From].lastID = max(m.sides[l.From].lastID, head.ID)
		return nil
	}
	if c, ok := decoded.(protocol.Commit); ok && l.Race != (m.epochs[c.Task] != c.Epoch) {
		return fmt.Errorf("epoch %d of %s is over, or not: race is %v", c.Epoch, c.Task, l.Race)
	}
	name := decoded.Type()
	m.types[name] = true
	if err := m.schemas.Validate(decode(l.Message)); err != nil {
		return err
	}
	if (l.From == "worker" && !protocol.FromWorker(name)) || (l.From == "sidecar" && !protocol.FromSidecar(name)) {
		return fmt.Errorf("%s does not send %s", l.From, name)
	}
	me := m.sides[l.From]
	if id := protocol.RequestID(decoded); id != 0 {
		if me.raced = me.raced || l.Race; me.raced && !l.Race {
			return fmt.Errorf("request %d follows a line with race", id)
		}
		if id <= me.lastID {
			return fmt.Errorf("id %d after %d", id, me.lastID)
		}
		me.lastID, me.pending[id] = id, decoded
	}
	var fields map[string]any
	_ = json.Unmarshal(l.Message, &fields)
	if re, ok := fields["re"].(float64); ok {
		request := m.sides[other(l.From)].pending[int64(re)]
		if request == nil && name != "error" {
			return fmt.Errorf("no request %v is open", re)
		}
		delete(m.sides[other(l.From)].pending, int64(re))
	}
	return m.apply(l.From, decoded)
}

func (m *model) apply(from string, decoded protocol.Message) error {
	switch d := decoded.(type) {
	case protocol.Hello:
		m.sides["sidecar"].limit[0], m.sides["sidecar"].initial = d.Credit.Connection, d.Credit.Stream
	case protocol.Welcome:
		m.sides["worker"].limit[0], m.sides["worker"].initial = d.Credit.Connection, d.Credit.Stream
	case protocol.Credit:
		peer := m.sides[other(from)]
		peer.limit[0] = max(peer.limit[0], d.Connection)
		for id, n := range d.Streams {
			peer.limit[id] = max(peer.limit[id], n)
		}
	case protocol.Assign:
		return m.open(d.Task, d.Epoch, d.Sources, d.Tables, d.Outputs)
	case protocol.Promoted:
		return m.open(d.Task, d.Epoch, d.Sources, d.Tables, d.Outputs)
	case protocol.Demoted:
		return m.open(d.Task, d.Epoch, nil, d.Tables, nil)
	case protocol.Lost:
		m.epochs[d.Task] = 0
	case protocol.Reset:
		delete(m.next, d.Stream)
		m.next[d.Stream] = d.NextOffset
		m.stores[d.Table+" "+d.Task], m.points[d.Table+" "+d.Task] = nil, nil
	case protocol.Opened:
		for table, cp := range d.Checkpoints {
			if encode(cp) != encode(m.points[table+" "+d.Task]) {
				return fmt.Errorf("the store of %s is at %s", table, encode(m.points[table+" "+d.Task]))
			}
		}
	case protocol.Commit:
		if m.commit != 0 && m.commit != d.ID {
			return fmt.Errorf("commit %d ends writes of %d", d.ID, m.commit)
		}
		m.commit = 0
	case protocol.Committed:
		for _, f := range m.writes[d.Re] {
			if store := m.tables[f.Stream]; store != "" {
				m.put(store, f)
			}
		}
		for table, cp := range d.Checkpoints {
			m.points[table+" "+d.Task] = &cp
		}
	}
	return nil
}

func (m *model) open(task string, epoch uint32, sources []protocol.SourceStream, tables []protocol.TableStream, outputs []protocol.OutputStream) error {
	m.epochs[task] = epoch
	for _, s := range sources {
		m.streams[s.Stream], m.next[s.Stream] = fmt.Sprint(task, " ", epoch), s.Position
	}
	for _, s := range tables {
		if m.streams[s.Stream] != "" {
			return fmt.Errorf("stream %d is given twice", s.Stream)
		}
		m.streams[s.Stream], m.tables[s.Stream] = fmt.Sprint(task, " ", epoch), s.Name+" "+task
	}
	for _, s := range outputs {
		m.streams[s.Stream] = fmt.Sprint(task, " ", epoch)
	}
	return nil
}

func (m *model) frame(l line) error {
	b, err := hex.DecodeString(l.Hex)
	if err != nil {
		return err
	}
	f, err := frame.Parse(b)
	if err != nil {
		return err
	}
	if encode(FormOf(f)) != encode(l.Frame) {
		return fmt.Errorf("hex is %s", encode(FormOf(f)))
	}
	m.types[f.Kind.String()] = true
	if (f.Kind == frame.Writes) != (l.From == "worker") {
		return fmt.Errorf("%s does not send %s frames", l.From, f.Kind)
	}
	if m.streams[f.Stream] == "" {
		return fmt.Errorf("stream %d was never given", f.Stream)
	}
	if room := m.sides[l.From].room(f.Stream); room != !l.Held {
		return fmt.Errorf("credit for it: %v", room)
	}
	if l.Held {
		return nil
	}
	m.sides[l.From].spent[0] += int64(len(b))
	m.sides[l.From].spent[f.Stream] += int64(len(b))
	if f.Kind == frame.Writes {
		if m.commit != 0 && m.commit != f.Base {
			return fmt.Errorf("writes of %d between those of %d", f.Base, m.commit)
		}
		m.commit = f.Base
		m.writes[f.Base] = append(m.writes[f.Base], f)
		return nil
	}
	return m.position(f, l.Dropped)
}

func (s *side) room(stream uint32) bool {
	limit, ok := s.limit[stream]
	if !ok {
		limit = s.initial
	}
	return s.spent[stream] < limit && s.spent[0] < s.limit[0]
}

// position checks what a worker must see and what it must drop.
func (m *model) position(f *frame.Frame, dropped bool) error {
	of := strings.Fields(m.streams[f.Stream])
	stale := fmt.Sprint(m.epochs[of[0]]) != of[1] || of[1] != fmt.Sprint(f.Epoch)
	next, known := m.next[f.Stream]
	if bad := stale || (known && next != f.Base); bad != dropped {
		return fmt.Errorf("stale %v, starts at %d, expected %d; dropped %v", stale, f.Base, next, dropped)
	}
	if dropped {
		return nil
	}
	m.next[f.Stream] = f.Next
	if store := m.tables[f.Stream]; store != "" {
		m.put(store, f)
		cp := string(f.Checkpoint())
		m.points[store] = &cp
	}
	return nil
}

func (m *model) put(store string, f *frame.Frame) {
	rows := map[string]string{}
	maps.Copy(rows, m.stores[store])
	for r := range f.Records {
		if r.Value == nil {
			delete(rows, string(r.Key))
		} else {
			rows[string(r.Key)] = string(r.Value)
		}
	}
	m.stores[store] = rows
}

func (m *model) store(l line) error {
	name := l.Store + " " + l.Task
	if !maps.Equal(m.stores[name], l.Rows) || encode(m.points[name]) != encode(l.Checkpoint) {
		return fmt.Errorf("the store holds %v at %s", m.stores[name], encode(m.points[name]))
	}
	return nil
}
