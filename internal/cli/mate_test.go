//go:build kafka

package cli

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
	"github.com/pillion/pillion/restore"
)

// mate is a worker that works by itself until its sidecar lets it go: it counts the records of each key
// in a table, holds copies of what others count, and keeps its stores on a disk that outlives it. It
// trusts nobody: a frame that does not begin where its store ends, a record that skips an offset, and
// everything that must not happen while members only come and go, is a fault of its board.
type mate struct {
	ws      *websocket.Conn
	name    string
	level   protocol.Level
	board   *board
	disk    map[string]*mateStore // by task
	tasks   map[string]*mateTask
	streams map[uint32]*mateStream
	taken   int64
	lastID  int64
	asked   int // how often a task was asked back
}

// mateStore is the table of one task as it stands on disk.
type mateStore struct {
	rows       map[string]int
	checkpoint *string
}

// mateTask is one epoch of a task.
type mateTask struct {
	name    string
	epoch   uint32
	role    protocol.Role
	table   uint32 // stream
	store   *mateStore
	restore int64 // where the next restore frame begins; -1: anywhere
	source  int64 // where the next records frame begins
	pending []*frame.Frame
	commit  *mateCommit // on its way
	revoke  int64       // id of what is to be answered once the commit has its answer; 0: nothing
}

type mateCommit struct {
	id      int64
	records int
	rows    map[string]int
}

type mateStream struct {
	task  *mateTask
	taken int64
}

// newMate connects a worker. Its loop is run.
func newMate(t *testing.T, b *board, name, url string, level protocol.Level, disk map[string]*mateStore) *mate {
	t.Helper()
	d := websocket.Dialer{Subprotocols: []string{protocol.Subprotocol}, HandshakeTimeout: patience}
	ws, _, err := d.Dial(url, peerHeader())
	if err != nil {
		t.Fatal(err)
	}
	return &mate{
		ws: ws, name: name, level: level, board: b, disk: disk,
		tasks: map[string]*mateTask{}, streams: map[uint32]*mateStream{}, lastID: 1,
	}
}

// run works until the sidecar closes the connection, and gives the code of that.
func (m *mate) run() int {
	defer m.ws.Close()
	m.say(protocol.Hello{
		ID: 1, Versions: []int{1}, Client: protocol.Software{Name: "mate", Version: "1"}, MaxFrame: 1 << 27, Credit: peerWindow,
		Level: m.level, Sets: []protocol.Set{{Name: "s", Sources: []string{"in"}, Tables: []protocol.Table{{Name: "t"}}}},
	})
	for {
		kind, b, err := m.ws.ReadMessage()
		if err != nil {
			var closed *websocket.CloseError
			if !errors.As(err, &closed) {
				m.fault("the connection ended with %v", err)
				return -1
			}
			return closed.Code
		}
		if kind == websocket.BinaryMessage {
			m.frame(b)
		} else if said, err := protocol.Decode(b); err != nil {
			m.fault("the sidecar says %s: %v", b, err)
		} else {
			m.hear(said)
		}
	}
}

func (m *mate) fault(format string, args ...any) {
	m.board.fault("%s: %s", m.name, fmt.Sprintf(format, args...))
}

func (m *mate) say(said protocol.Message) {
	b, err := protocol.Encode(said)
	if err != nil {
		m.fault("%v", err)
		return
	}
	m.send(websocket.TextMessage, b)
}

// send says nothing of an error: reading will.
func (m *mate) send(kind int, b []byte) {
	var gone *net.OpError
	if err := m.ws.WriteMessage(kind, b); err != nil && !errors.As(err, &gone) && !errors.Is(err, websocket.ErrCloseSent) {
		m.fault("cannot send: %v", err)
	}
}

func (m *mate) hear(said protocol.Message) {
	switch said := said.(type) {
	case protocol.Assign:
		m.assign(said)
	case protocol.Restored:
		if t := m.at(said.Task, said.Epoch); t != nil {
			m.say(protocol.Ready{Re: said.ID, Task: said.Task, Epoch: said.Epoch})
			m.board.put(m.name, said.Task, running)
		}
	case protocol.Promoted:
		m.adopt(said.Task, protocol.RoleActive, said.Epoch, said.Tables, said.Sources)
		m.say(protocol.Ready{Re: said.ID, Task: said.Task, Epoch: said.Epoch})
		m.board.put(m.name, said.Task, running)
		m.board.count("promoted")
	case protocol.Demoted:
		m.adopt(said.Task, protocol.RoleStandby, said.Epoch, said.Tables, nil)
		m.board.put(m.name, said.Task, copies)
		m.board.count("demoted")
	case protocol.Revoke:
		m.revoke(said)
	case protocol.Committed:
		m.committed(said)
	case protocol.Lost:
		m.lost(said)
	case protocol.Aborted, protocol.Stale, protocol.Unknown, protocol.Reset, protocol.Error:
		m.fault("the sidecar says %s %+v", said.Type(), said)
	}
}

// at is the task in this epoch; nil when that is over.
func (m *mate) at(task string, epoch uint32) *mateTask {
	if t := m.tasks[task]; t != nil && t.epoch == epoch {
		return t
	}
	return nil
}

func (m *mate) assign(a protocol.Assign) {
	store := m.disk[a.Task]
	if store == nil {
		store = &mateStore{rows: map[string]int{}}
		m.disk[a.Task] = store
	}
	t := &mateTask{name: a.Task, epoch: a.Epoch, role: a.Role, store: store}
	m.hold(t, a.Tables, a.Sources)
	m.say(protocol.Opened{Re: a.ID, Task: a.Task, Epoch: a.Epoch, Checkpoints: map[string]*string{"t": store.checkpoint}})
	if a.Role == protocol.RoleStandby {
		m.board.put(m.name, a.Task, copies)
		return
	}
	m.board.put(m.name, a.Task, opening)
	m.board.count("opened as active")
}

// adopt goes on with what a task has under another role.
func (m *mate) adopt(task string, role protocol.Role, epoch uint32, tables []protocol.TableStream, sources []protocol.SourceStream) {
	was := m.tasks[task]
	if was == nil || was.role == role {
		m.fault("%s becomes %s in epoch %d, and was %+v", task, role, epoch, was)
		return
	}
	if was.commit != nil {
		m.fault("%s becomes %s while a commit is on its way", task, role)
	}
	m.hold(&mateTask{name: task, epoch: epoch, role: role, store: was.store}, tables, sources)
}

func (m *mate) hold(t *mateTask, tables []protocol.TableStream, sources []protocol.SourceStream) {
	m.tasks[t.name] = t
	if t.role == protocol.RoleStandby && m.level != protocol.LevelStandby {
		m.fault("is given the copy of %s, which it cannot hold", t.name)
	}
	if t.role == protocol.RoleActive != (len(sources) == 1) || len(tables) != 1 {
		m.fault("%s as %s has %d sources and %d tables", t.name, t.role, len(sources), len(tables))
	}
	for _, s := range sources {
		m.streams[s.Stream], t.source = &mateStream{task: t}, s.Position
	}
	for _, s := range tables {
		m.streams[s.Stream], t.table = &mateStream{task: t}, s.Stream
	}
	t.restore = m.position(t.store)
}

// position is where the replay of a store begins: at its checkpoint, or, of an empty one, wherever the
// changelog does.
func (m *mate) position(s *mateStore) int64 {
	if s.checkpoint == nil {
		return -1
	}
	c, err := restore.ParseCheckpoint(*s.checkpoint)
	if err != nil {
		m.fault("checkpoint %q: %v", *s.checkpoint, err)
	}
	return c.Next
}

func (m *mate) frame(b []byte) {
	f, err := frame.Parse(b)
	if err != nil {
		m.fault("%v", err)
		return
	}
	s := m.streams[f.Stream]
	if s == nil {
		m.fault("a frame of stream %d, which was never assigned", f.Stream)
		return
	}
	m.taken, s.taken = m.taken+int64(len(b)), s.taken+int64(len(b))
	m.say(protocol.Credit{Connection: m.taken + peerWindow.Connection, Streams: map[uint32]int64{f.Stream: s.taken + peerWindow.Stream}})
	t := s.task
	switch {
	case m.at(t.name, f.Epoch) != t:
		// Of an epoch that is over: credited, and no more.
	case f.Kind == frame.Restore:
		m.apply(t, f)
	case t.source != f.Base:
		m.fault("records of %s begin at %d, and %d is next", t.name, f.Base, t.source)
	default:
		t.source = f.Next
		t.pending = append(t.pending, f)
		m.work(t)
	}
}

func (m *mate) apply(t *mateTask, f *frame.Frame) {
	if t.restore >= 0 && f.Base != t.restore {
		m.fault("a restore frame of %s begins at %d, and the store ends at %d", t.name, f.Base, t.restore)
	}
	t.restore = f.Next
	for r := range f.Records {
		n, err := strconv.Atoi(string(r.Value))
		if err != nil {
			m.fault("%s restores %q for %q", t.name, r.Value, r.Key)
		}
		t.store.rows[string(r.Key)] = n
	}
	if c := string(f.Checkpoint()); c != "" {
		t.store.checkpoint = &c
	}
	m.board.count("restored records", int(f.Count))
}

// work commits the next frame of records, unless one is on its way.
func (m *mate) work(t *mateTask) {
	if t.commit != nil || t.revoke != 0 || len(t.pending) == 0 {
		return
	}
	f := t.pending[0]
	t.pending = t.pending[1:]
	m.lastID++
	t.commit = &mateCommit{id: m.lastID, records: int(f.Count), rows: map[string]int{}}
	b := frame.NewBuilder(frame.Writes)
	b.Reset(t.table, t.epoch, t.commit.id)
	for r := range f.Records {
		n, ok := t.commit.rows[string(r.Key)]
		if !ok {
			n = t.store.rows[string(r.Key)]
		}
		t.commit.rows[string(r.Key)] = n + 1
		b.Append(int64(b.Len()), 0, r.Key, []byte(strconv.Itoa(n+1)), nil)
	}
	if b.Len() > 0 {
		m.send(websocket.BinaryMessage, b.Finish(nil, 0, nil))
	}
	m.board.note(m.name, t.name, "commit %d up to %d", t.commit.id, f.Next)
	m.say(protocol.Commit{ID: t.commit.id, Task: t.name, Epoch: t.epoch, SourceNext: map[string]int64{"in": f.Next}})
}

func (m *mate) committed(c protocol.Committed) {
	t := m.at(c.Task, c.Epoch)
	if t == nil || t.commit == nil || t.commit.id != c.Re {
		return // released behind its last commit: the store replays what that wrote
	}
	for key, n := range t.commit.rows {
		t.store.rows[key] = n
	}
	if checkpoint, ok := c.Checkpoints["t"]; ok {
		t.store.checkpoint = &checkpoint
	}
	m.board.progress(c.Task, t.commit.records)
	m.board.note(m.name, t.name, "commit %d committed, %d frames wait", c.Re, len(t.pending))
	t.commit = nil
	if t.revoke != 0 {
		m.release(t)
		return
	}
	m.work(t)
}

// revoke answers behind the last commit: sometimes at once, sometimes when that has its answer.
func (m *mate) revoke(r protocol.Revoke) {
	t := m.at(r.Task, r.Epoch)
	if t == nil {
		return
	}
	if t.role != protocol.RoleActive {
		m.fault("the copy of %s is asked back", t.name)
	}
	m.asked++
	t.revoke, t.pending = r.ID, nil
	m.board.put(m.name, t.name, leaving)
	if t.commit == nil || m.asked%2 == 0 {
		m.release(t)
	}
}

func (m *mate) release(t *mateTask) {
	m.say(protocol.Released{Re: t.revoke, Task: t.name, Epoch: t.epoch})
	delete(m.tasks, t.name)
	m.board.put(m.name, t.name, nothing)
	m.board.count("released")
}

// lost ends a copy when the group wants it no more. Nobody loses what he is the active of.
func (m *mate) lost(l protocol.Lost) {
	t := m.at(l.Task, l.Epoch)
	if t == nil {
		return
	}
	if t.role == protocol.RoleActive {
		m.fault("%s is lost (%s): %s", t.name, l.Code, l.Message)
	}
	delete(m.tasks, t.name)
	m.board.put(m.name, t.name, nothing)
	m.board.count("copies ended")
}
