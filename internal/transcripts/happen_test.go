package transcripts

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/gorilla/websocket"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
	"github.com/pillion/pillion/session"
)

// actions are what a cause may do (spec/README.md).
var actions = map[string]func(p *player, do object){
	"give":     (*player).give,
	"take":     func(p *player, do object) { p.take(text(do, "take")) },
	"stand_by": (*player).standBy,
	"land": func(p *player, do object) {
		for _, id := range do["land"].([]any) {
			p.land(number(object{"id": id}, "id"))
		}
	},
	"refuse": func(p *player, do object) {
		p.produced(number(do, "refuse")).end <- &session.RefusedError{Code: text(do, "code"), Message: "as the transcript wants it"}
	},
	"doubt": (*player).doubt,
	"back":  func(p *player, _ object) { close(p.world.back) },
	"lose":  (*player).lose,
	"misfit": func(p *player, do object) {
		await(p, p.world.prepares, "the look at Kafka") <- &session.RefusedError{Code: text(do, "misfit"), Message: "as the transcript wants it"}
	},
	"drain":    func(p *player, _ object) { p.world.post(session.Drain{}) },
	"holders":  (*player).holders,
	"newcomer": (*player).newcomer,
	"pass":     func(*player, object) {},
	"hang":     func(*player, object) {}, // what follows is awaited
}

// happen makes a cause happen. One without do shows in what follows.
func (p *player) happen(l *line) {
	if l.Do == nil {
		return
	}
	for name, act := range actions {
		if _, ok := l.Do[name]; ok {
			act(p, l.Do)
			return
		}
	}
	p.fail("nothing is known of this cause")
}

// holders is what the group's coordinator tells from now on.
func (p *player) holders(do object) {
	w := p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holders, _ = do["holders"].(object)
	w.stale, _ = do["stale"].(bool)
}

func taskID(name string) session.TaskID {
	set, partition, _ := strings.Cut(name, "/")
	n, _ := strconv.Atoi(partition)
	return session.TaskID{Set: set, Partition: int32(n)}
}

func (p *player) give(do object) {
	t := taskID(text(do, "give"))
	w := p.world
	w.mu.Lock()
	left := w.left
	w.left = false
	w.mu.Unlock()
	if left {
		await(p, w.joins, "the join")
	}
	w.mu.Lock()
	leaving := w.leaving[t]
	delete(w.leaving, t)
	delete(w.standby, t)
	w.active[t] = true
	w.mu.Unlock()
	if leaving {
		if got := await(p, w.releases, "the follow-up join"); got != t {
			p.fail("%v is let go", got)
		}
	}
	w.is(t, numbers(do["positions"]), numbers(do["ends"]))
	w.sync()
}

func (p *player) take(name string) {
	t := taskID(name)
	w := p.world
	w.mu.Lock()
	w.leaving[t] = w.active[t]
	delete(w.active, t)
	delete(w.standby, t)
	w.mu.Unlock()
	w.sync()
}

// standBy makes the member a standby; what it was the active of it is to let go of.
func (p *player) standBy(do object) {
	t := taskID(text(do, "stand_by"))
	w := p.world
	w.is(t, nil, numbers(do["ends"]))
	w.mu.Lock()
	w.leaving[t] = w.active[t]
	delete(w.active, t)
	w.standby[t] = true
	w.mu.Unlock()
	w.sync()
}

// produced is the produce of a commit, with the frames that the worker sent for it.
func (p *player) produced(id int64) *call {
	c := await(p, p.world.produces, fmt.Sprintf("the writes of commit %d", id))
	var got [][]byte
	for _, w := range c.writes {
		got = append(got, w.Frames...)
	}
	if !bytes.Equal(bytes.Join(got, nil), bytes.Join(p.writes[id], nil)) {
		p.fail("commit %d writes %x, want %x", id, got, p.writes[id])
	}
	return c
}

// land ends a commit well: its writes, then its positions.
func (p *player) land(id int64) {
	task := text(p.commits[id], "task")
	ends := map[string]int64{}
	if len(p.writes[id]) > 0 {
		c := p.produced(id)
		for _, w := range c.writes {
			for _, b := range w.Frames {
				h, _ := frame.ParseHeader(b)
				ends[w.Table] += int64(h.Count) + p.world.end(taskID(task), w.Table)
			}
		}
		c.points = p.checkpoints(id)
		c.end <- nil
	}
	want := p.world.position(taskID(task))
	maps.Copy(want, numbers(p.commits[id]["source_next"]))
	c := await(p, p.world.commits, fmt.Sprintf("the positions of commit %d", id))
	if c.task != taskID(task) || !maps.Equal(c.next, want) {
		p.fail("%v is committed to %v, want %v", c.task, c.next, want)
	}
	p.world.is(c.task, c.next, ends)
	c.end <- nil
}

// checkpoints are those that the answer to a commit names.
func (p *player) checkpoints(id int64) map[string]string {
	points := map[string]string{}
	for _, l := range p.lines[p.at:] {
		if l.Connect {
			break
		}
		if l.kind() == "committed" && number(l.Message, "re") == id {
			o, _ := l.Message["checkpoints"].(object)
			for table := range o {
				points[table] = text(o, table)
			}
		}
	}
	return points
}

func (p *player) doubt(do object) {
	c := p.produced(number(do, "doubt"))
	w := p.world
	w.mu.Lock()
	w.back = make(chan struct{})
	w.mu.Unlock()
	for task := range p.tasks {
		w.is(taskID(task), nil, numbers(do["ends"]))
	}
	c.end <- &session.UnknownError{Err: errors.New("as the transcript wants it"), Code: text(do, "code")}
}

func (p *player) lose(do object) {
	w := p.world
	w.mu.Lock()
	clear(w.active)
	clear(w.standby)
	clear(w.leaving)
	w.mu.Unlock()
	w.post(session.GroupLost{Code: text(do, "lose"), Message: "the membership was lost"})
	for id := range p.writes {
		p.produced(id).end <- &session.UnknownError{Err: errors.New("they do not arrive")}
	}
}

// newcomer says the hello of this connection on another one.
func (p *player) newcomer(object) {
	ws := p.dial()
	for _, l := range p.lines {
		if l.kind() == "hello" {
			hello := l.text[strings.Index(l.text, `"message": `)+len(`"message": `) : len(l.text)-1]
			if err := ws.WriteMessage(websocket.TextMessage, []byte(hello)); err != nil {
				p.fail("%v", err)
			}
		}
	}
	_, b, err := ws.ReadMessage()
	if err != nil {
		p.fail("the newcomer is not welcome: %v", err)
	}
	if m, err := protocol.Decode(b); err != nil || m.Type() != protocol.TypeWelcome {
		p.fail("the newcomer hears %s", b)
	}
}

func (w *world) end(t session.TaskID, table string) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ends[t][table]
}

func (w *world) position(t session.TaskID) map[string]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.positions[t])
}
