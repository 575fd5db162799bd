package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// find gives the living task of a message.
func (w *mini) find(task string, epoch uint32) *miniTask {
	if t := w.tasks[task]; living(t) && t.epoch == epoch {
		return t
	}
	return nil
}

func (w *mini) handle(m protocol.Message) {
	switch m := m.(type) {
	case protocol.Welcome:
		w.welcome, w.limit = m, m.Credit.Connection
	case protocol.Assign:
		w.assign(m)
	case protocol.Reset:
		if t := w.find(m.Task, m.Epoch); t != nil {
			w.reset(t, m)
		}
	case protocol.Revoke:
		if t := w.find(m.Task, m.Epoch); t != nil && w.mayRevoke(t) {
			for w.is("revoke-takes-all") && w.workOne() {
				t.outstanding = 0
			}
			w.dropOf(t)
			t.state = "revoking"
			w.out = append(w.out, outgoing{task: t, tell: protocol.Released{Re: m.ID, Task: t.name, Epoch: t.epoch}})
			if w.is("released-first") {
				w.out[0], w.out[len(w.out)-1] = w.out[len(w.out)-1], w.out[0]
			}
		}
	case protocol.Lost:
		if t := w.find(m.Task, m.Epoch); t != nil {
			if w.is("lost-is-fatal") {
				os.Exit(1)
			}
			w.dropOf(t)
			w.over(t)
			if m.Code == protocol.CodeHung && !w.is("silent-after-hung") {
				w.say(protocol.Progress{})
			}
		}
	case protocol.Credit:
		w.limit = max(w.limit, m.Connection)
		for id, n := range m.Streams {
			if s := w.streams[id]; s != nil {
				s.limit = max(s.limit, n)
			}
		}
	case protocol.Committed:
		w.committed(m)
	case protocol.Aborted:
		w.failed(m.Re, m.Code)
	case protocol.Unknown:
		if c := w.commits[m.Re]; c != nil && w.is("unknown-is-committed") {
			c.task.stores["counts"].change(c.rows, "")
		}
		w.failed(m.Re, m.Code)
	case protocol.Stale:
		w.failed(m.Re, "stale")
	case protocol.Error:
		w.failed(m.Re, m.Code)
	case protocol.Waiting:
		if w.is("unknown-code") && m.Code != "ok" {
			panic("a code that I do not know: " + m.Code)
		}
	}
}

// mayRevoke is what mutants get wrong.
func (w *mini) mayRevoke(t *miniTask) bool {
	return (t.state == "running" || !w.is("revoke-only-running")) && !(t.promoted && w.is("promoted-not-revoked")) &&
		(t.outstanding == 0 || !w.is("never-released-while-unanswered"))
}

func (w *mini) dropOf(t *miniTask) {
	w.dropQueued(func(q queued) bool {
		if q.frame != nil {
			s := w.streams[q.frame.Stream]
			return s != nil && s.task == t
		}
		r, ok := q.message.(protocol.Restored)
		return ok && r.Task == t.name && r.Epoch == t.epoch
	})
}

func (w *mini) assign(m protocol.Assign) {
	if old := w.tasks[m.Task]; living(old) {
		w.say(protocol.Error{Re: m.ID, Code: protocol.CodeNotAllowed, Message: "I have it", Task: m.Task, Epoch: m.Epoch})
		return
	}
	t := w.newTask(m.Task, m.Set, m.Partition, m.Role, m.Epoch, m.Sources, m.Tables, m.Outputs)
	points := map[string]*string{}
	for _, s := range m.Tables {
		partition := int(m.Partition)
		if w.is("parses-task-names") {
			_, number, _ := strings.Cut(m.Task, "/")
			partition, _ = strconv.Atoi(number)
		}
		store := openStore(w, filepath.Join(w.dir, fmt.Sprintf("%s.%s.%d", m.Set, s.Name, partition)))
		t.stores[s.Name] = store
		points[s.Name] = nil
		if store.Checkpoint != "" {
			point := store.Checkpoint
			if w.is("trims-checkpoints") {
				point = strings.TrimSpace(point)
			}
			points[s.Name] = &point
		}
	}
	w.say(protocol.Opened{Re: m.ID, Task: t.name, Epoch: t.epoch, Checkpoints: points})
	t.state = "restoring"
}

func (w *mini) reset(t *miniTask, m protocol.Reset) {
	w.dropQueued(func(q queued) bool { return q.frame != nil && q.frame.Stream == m.Stream })
	if !w.is("reset-keeps-rows") && (t.state == "running" || !w.is("reset-only-running")) {
		t.stores[m.Table].wipe()
	}
	s := w.streams[m.Stream]
	s.next, s.refused, t.holding = m.NextOffset, false, true
	t.resets++
	w.say(protocol.Opened{Re: m.ID, Task: t.name, Epoch: t.epoch, Checkpoints: map[string]*string{m.Table: nil}})
}

func (w *mini) committed(m protocol.Committed) {
	c := w.commits[m.Re]
	if c == nil {
		return
	}
	delete(w.commits, m.Re)
	t := c.task
	t.outstanding--
	if w.is("settles-later") && len(w.incoming) > 0 {
		w.arrived(<-w.incoming)
		for w.workOne() {
			continue
		}
	}
	if t.state != "over" || w.is("store-after-lost") {
		if store := t.stores["counts"]; store != nil && m.Checkpoints["counts"] != "" {
			if t.state == "released" && w.is("checkpoint-without-rows") {
				c.rows = nil
			}
			store.change(c.rows, m.Checkpoints["counts"])
		}
		if len(t.layers) > 0 {
			t.layers = t.layers[1:]
		}
	}
	if t.state == "released" && t.outstanding == 0 {
		w.over(t)
	}
}

func (w *mini) failed(re int64, code string) {
	c := w.commits[re]
	if c == nil {
		return
	}
	delete(w.commits, re)
	t := c.task
	t.outstanding--
	if w.is("answers-by-task") {
		t = w.tasks[t.name]
	}
	fmt.Println("commit", re, "ended with", code)
	if t.state == "over" {
		return
	}
	if w.is("repeats-aborted") {
		w.again = append(w.again, c)
	}
	t.layers = nil
	if t.state == "released" {
		if t.outstanding == 0 && !w.is("waits-for-lost") {
			w.over(t)
		}
		return
	}
	t.state = "failed"
}

func (w *mini) over(t *miniTask) { t.state, t.layers = "over", nil }

// process is the conformance job.
func (w *mini) process(t *miniTask, topic string, f *frame.Frame) {
	layer := map[string]*[]byte{}
	t.layers = append(t.layers, layer)
	var out []record
	last := t.next[topic]
	for r := range f.Records {
		w.hold(string(r.Value))
		last = r.Offset + 1
		if w.job == jobStateless {
			key, value := r.Key, r.Value
			if w.is("null-is-empty") {
				key, value = append([]byte{}, key...), append([]byte{}, value...)
			}
			out = append(out, record{Key: key, Value: value})
			continue
		}
		if r.Key == nil {
			continue
		}
		value := w.count(t, r)
		layer[string(r.Key)] = value
		out = append(out, w.change(t, r.Key, value))
	}
	t.next[topic] = f.Next
	if w.is("last-offset-plus-1") {
		t.next[topic] = last
	}
	if w.is("rows-before-committed") && w.job == jobTables {
		t.stores["counts"].change(layer, "")
	}
	w.commit(t, layer, out)
}

// hold keeps the handler inside a record until the player lets it go.
func (w *mini) hold(value string) {
	verb, name, ok := strings.Cut(value, " ")
	if !ok || verb != "wait" && verb != "block" {
		return
	}
	path := filepath.Join(w.dir, name)
	_ = os.WriteFile(path+".in", nil, 0o600)
	for {
		if _, err := os.Stat(path + ".go"); err == nil {
			return
		}
		if w.is("dies-at-sigterm") && len(w.stop) > 0 {
			os.Exit(143)
		}
		if w.is("grants-on-arrival") && len(w.incoming) > 0 {
			w.arrived(<-w.incoming)
		}
		if w.is("pings-and-gives-up") {
			w.ws.Close() // no pong came in time
		}
		time.Sleep(time.Millisecond)
	}
}

// count is the new value of a row.
func (w *mini) count(t *miniTask, r frame.Record) *[]byte {
	if r.Value == nil && !w.is("null-is-empty") {
		return nil
	}
	n := 0
	if have := w.find3(t, string(r.Key)); have != nil {
		n, _ = strconv.Atoi(string(*have))
	}
	text := []byte(strconv.Itoa(n + 1))
	return &text
}

func (w *mini) find3(t *miniTask, key string) *[]byte {
	if !w.is("no-pending-rows") {
		for i := len(t.layers) - 1; i >= 0; i-- {
			if v, ok := t.layers[i][key]; ok {
				return v
			}
		}
	}
	return t.stores["counts"].get(key)
}

func (w *mini) change(t *miniTask, key []byte, value *[]byte) record {
	if value == nil {
		return record{Key: key}
	}
	text := string(*value)
	if v := t.stores["names"].get(string(key)); v != nil {
		text += " " + string(*v)
	}
	for _, g := range w.tasks {
		if g.role == protocol.RoleGlobal && living(g) && (g.partition == 0 || !w.is("one-global-partition")) {
			if v := g.stores["places"].get(string(key)); v != nil {
				text += " " + string(*v)
			}
		}
	}
	return record{Key: key, Value: data(text)}
}

func recordsOf(rows map[string]*[]byte) []record {
	out := []record{}
	zero := int64(0)
	for k, v := range rows {
		r := record{Key: data(k), Offset: &zero}
		if v != nil {
			r.Value = *v
		}
		out = append(out, r)
	}
	return out
}

// commit sends what a frame made. A worker that batches would have less to send.
func (w *mini) commit(t *miniTask, rows map[string]*[]byte, out []record) {
	c := &miniCommit{task: t, rows: rows, out: out}
	id := w.id()
	zero := int64(0)
	for i := range out {
		out[i].Offset = &zero
	}
	if len(rows) > 0 {
		c.frames = append(c.frames, w.writes(t, t.ids["counts"], id, recordsOf(rows))...)
	}
	c.frames = append(c.frames, w.writes(t, t.ids["> changes"], id, out)...)
	next := map[string]int64{}
	for k, v := range t.next {
		next[k] = v
	}
	c.end = protocol.Commit{ID: id, Task: t.name, Epoch: t.epoch, SourceNext: next}
	c.frames = append(c.frames, outgoing{task: t, commit: &c.end})
	if w.is("mixes-commits") && len(w.out) > 1 {
		w.out = append(append([]outgoing{}, c.frames...), w.out...)
	} else {
		w.out = append(w.out, c.frames...)
	}
	w.commits[id] = c
	t.outstanding++
}

// writes cuts records into frames.
func (w *mini) writes(t *miniTask, s *miniStream, id int64, records []record) []outgoing {
	most := int(min(256<<10, w.welcome.Limits.MaxFrame))
	if w.is("uncut-frames") {
		most = 1 << 30
	}
	var out []outgoing
	for len(records) > 0 {
		n, size := 0, frame.HeaderSize
		for n < len(records) && (n == 0 || size+len(records[n].Key)+len(records[n].Value)+11 <= most) {
			size += len(records[n].Key) + len(records[n].Value) + 11
			n++
		}
		out = append(out, outgoing{task: t, stream: s, data: build(frame.Writes, &stream{id: s.id, of: &epoch{number: t.epoch}}, id, 0, records[:n], "")})
		records = records[n:]
	}
	return out
}
