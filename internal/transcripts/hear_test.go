package transcripts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/gorilla/websocket"

	"github.com/pillion/pillion/session"
)

// item is something that the sidecar has sent.
type item struct {
	message object
	frame   []byte
	close   int
}

func (i item) String() string {
	switch {
	case i.message != nil:
		b, _ := json.Marshal(i.message)
		return string(b)
	case i.frame != nil:
		return fmt.Sprintf("frame %x", i.frame)
	}
	return fmt.Sprintf("close %d", i.close)
}

// lane is what keeps its order. The empty one holds what may come or not.
func (i item) lane() string {
	if i.frame != nil {
		return "data"
	}
	if i.message == nil {
		return "close"
	}
	switch text(i.message, "type") {
	case "restored", "promoted", "demoted":
		return "data"
	case "credit", "restoring":
		return ""
	case "waiting":
		if text(i.message, "code") == "barrier" {
			return "barrier"
		}
		return ""
	}
	return "control"
}

// loose are messages that have no order among themselves: the answers to commits and lost.
func (i item) loose() bool {
	return i.message != nil && slices.Contains([]string{"lost", "committed", "aborted", "stale", "unknown"}, text(i.message, "type"))
}

// read takes what comes until the socket ends.
func (c *connection) read() {
	for {
		kind, b, err := c.ws.ReadMessage()
		if err != nil {
			var closed *websocket.CloseError
			if errors.As(err, &closed) {
				c.items <- item{close: closed.Code}
			}
			return
		}
		i := item{frame: b}
		if kind == websocket.TextMessage {
			i.frame = nil
			_ = decode(b, &i.message)
		}
		c.items <- i
	}
}

// next waits for one more item.
func (p *player) next(what string) {
	p.t.Helper()
	i := await(p, p.items, what)
	if i.message != nil && text(i.message, "type") == "credit" {
		if n := number(i.message, "connection"); n != 0 {
			p.credit[""] = max(p.credit[""], n)
		}
		for stream, n := range numbers(i.message["streams"]) {
			p.credit[stream] = max(p.credit[stream], n)
		}
	}
	p.pending = append(p.pending, i)
}

// expect takes the first item of the lane, waiting for it, and fails when it is another one.
func (p *player) expect(lane string, fits func(item) bool) item {
	p.t.Helper()
	for at := 0; ; at++ {
		for at >= len(p.pending) {
			p.next(lane)
		}
		i := p.pending[at]
		switch {
		case fits(i):
			p.pending = slices.Delete(p.pending, at, at+1)
			return i
		case i.lane() == lane && !i.loose():
			p.fail("the sidecar says something else: %v", i)
		}
	}
}

// hear compares a line of the sidecar, and makes its feeds and replays do what leads to it.
func (p *player) hear(l *line) {
	switch {
	case l.Close != nil:
		code, _ := strconv.Atoi(string(l.Close))
		p.expect("close", func(i item) bool { return i.message == nil && i.frame == nil && i.close == code })
		p.conn = nil
	case l.Frame != nil:
		p.push(p.at)
		want := p.frame(l.bytes(p.t), p.taskOf(l))
		p.expect("data", func(i item) bool { return bytes.Equal(i.frame, want) })
		p.points[p.streams[int64(l.Frame.Stream)]] = l.Frame.Checkpoint
	default:
		p.hearMessage(l)
	}
}

func (p *player) hearMessage(l *line) {
	lane := item{message: l.Message}.lane()
	switch l.kind() {
	case "waiting":
		return // of Kafka and the group: not played
	case "credit":
		p.hearCredit(l.Message)
		return
	case "restoring":
		p.progress(p.real(l.Message, true))
	case "restored":
		p.reach(text(l.Message, "task"))
	case "promoted":
		p.finish(text(l.Message, "task"))
	case "reset":
		p.reset(l.Message)
	}
	i := p.expect(lane, func(i item) bool { return i.message != nil && text(i.message, "type") == l.kind() })
	if err := p.learn(l.Message, i.message); err != nil {
		p.fail("%v: %v", err, i)
	}
	if want := p.real(l.Message, true); !same(want, i.message) {
		b, _ := json.Marshal(want)
		p.fail("the sidecar says\n%v, want\n%s", i, b)
	}
	p.heard(l, i.message)
}

// heard does what the message brings about in the test.
func (p *player) heard(l *line, got object) {
	switch l.kind() {
	case "welcome":
		p.conn = p.events.current()
		if p.misfits() {
			return
		}
		await(p, p.world.prepares, "the look at Kafka") <- nil
		if p.connections == 1 {
			await(p, p.world.joins, "the join")
		}
	case "committed":
		points, _ := got["checkpoints"].(object)
		for table := range points {
			p.points[int64(p.table(text(got, "task"), table))] = text(points, table)
		}
	case "promoted", "demoted":
		p.succeed(got)
		fallthrough
	case "assign":
		p.tasks[text(got, "task")] = got
		for _, field := range []string{"sources", "tables", "outputs"} {
			list, _ := got[field].([]any)
			for _, v := range list {
				p.owner[number(v.(object), "stream")] = text(got, "task")
			}
		}
	case "reset":
		p.pushRecords(text(got, "task"))
	case "revoke", "lost":
		for stream, f := range p.flows {
			if p.owner[int64(stream)] == text(got, "task") && f.gate.Live() {
				p.fail("the gate of stream %d is open", stream)
			}
		}
	}
}

// misfits tells that a cause of this connection refuses the declarations.
func (p *player) misfits() bool {
	for _, l := range p.lines[p.at:] {
		if l.Do["misfit"] != nil {
			return true
		}
	}
	return false
}

// hearCredit waits until the sidecar has granted so much. Streams that it never gave do not count.
func (p *player) hearCredit(want object) {
	granted := func() bool {
		for stream, n := range numbers(want["streams"]) {
			script, _ := strconv.ParseInt(stream, 10, 64)
			if real := p.streams[script]; real != 0 && p.renamingCredit(real) < n {
				return false
			}
		}
		return p.credit[""] >= number(want, "connection")
	}
	for !granted() {
		p.next("credit")
	}
}

func (p *player) renamingCredit(stream int64) int64 { return p.credit[fmt.Sprint(stream)] }

// progress tells of a replay what the line says.
func (p *player) progress(m object) {
	f := p.flow(p.table(text(m, "task"), text(m, "table")))
	p.world.post(session.ReplayProgress{
		Stream: f.stream, Records: number(m, "records"), Bytes: number(m, "bytes"), Rate: number(m, "rate"),
		Remaining: number(m, "remaining"), EtaMS: number(m, "eta_ms"), WaitsFor: text(m, "waits_for"),
	})
}

// reach ends the replays of a task that are not at their ends.
func (p *player) reach(task string) {
	tables, _ := p.tasks[task]["tables"].([]any)
	for _, v := range tables {
		if f := p.flow(uint32(number(v.(object), "stream"))); !f.reached {
			f.reached = true
			p.world.post(session.Reached{Stream: f.stream, End: f.end})
		}
	}
}

// finish takes the replays of a copy to the ends that the session names.
func (p *player) finish(task string) {
	tables, _ := p.tasks[task]["tables"].([]any)
	for _, v := range tables {
		f := p.flow(uint32(number(v.(object), "stream")))
		end := await(p, f.finish, "the end of the copy")
		if want := p.world.end(taskID(task), text(v.(object), "name")); end != want {
			p.fail("the copy goes on to %d, want %d", end, want)
		}
		p.world.post(session.Reached{Stream: f.stream, End: end})
	}
}

// succeed gives the streams of a new epoch what is known of those of the former one.
func (p *player) succeed(got object) {
	before, _ := p.tasks[text(got, "task")]["tables"].([]any)
	tables, _ := got["tables"].([]any)
	for i, v := range tables {
		was, is := number(before[i].(object), "stream"), number(v.(object), "stream")
		p.points[is], p.opened[uint32(is)] = p.points[was], p.points[was]
	}
	for stream := range p.flows {
		if p.owner[int64(stream)] == text(got, "task") {
			delete(p.flows, stream)
		}
	}
}

// reset makes a replay find that its store is of no use.
func (p *player) reset(m object) {
	f := p.flow(p.table(text(m, "task"), text(m, "table")))
	delete(p.flows, f.stream)
	delete(p.opened, f.stream)
	p.world.post(session.ResetNeeded{
		Stream: f.stream, Code: text(m, "code"), Message: text(m, "message"), Start: number(m, "next_offset"),
	})
}

func (p *player) table(task, name string) uint32 {
	tables, _ := p.tasks[task]["tables"].([]any)
	for _, v := range tables {
		if text(v.(object), "name") == name {
			return uint32(number(v.(object), "stream"))
		}
	}
	p.fail("task %s has no table %s", task, name)
	return 0
}

// pushRecords tries to send the next records of a task at once: while its gates are held back, they
// come in their place only.
func (p *player) pushRecords(task string) {
	for i := p.at + 1; i < len(p.lines) && !p.lines[i].Connect; i++ {
		l := &p.lines[i]
		if l.From == "sidecar" && l.kind() == "records" && p.taskOf(l) == task && p.flows[uint32(p.streams[int64(l.Frame.Stream)])] != nil {
			p.push(i)
			return
		}
	}
}

// holdsBack checks, before the worker grants more, that what is pushed and has not come waits for it.
func (p *player) holdsBack() {
	if !p.pingSession() {
		return
	}
	p.expect("barrier", func(i item) bool { return i.lane() == "barrier" })
	for _, i := range p.pending {
		if i.frame != nil {
			p.fail("a frame came without credit: %v", i)
		}
	}
}
