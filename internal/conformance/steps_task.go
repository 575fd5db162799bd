package conformance

import (
	"fmt"
	"slices"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

var taskVerbs = map[string]func([]byte) (action, error){
	"topic":    as(doTopic),
	"position": as(doPosition),
	"assign":   as(doAssign),
	"opened":   as(doOpened),
	"restore":  as(doRestore),
	"restored": as(doRestored),
	"ready":    as(doReady),
	"open":     as(doOpen),
	"revoke":   as(doRevoke),
	"released": as(doReleased),
	"lost":     as(doLost),
	"promote":  as(doPromote),
	"demote":   as(doDemote),
	"reset":    as(doReset),
}

type topicStep struct {
	Topic   string   `json:"topic"` // "<table>/<partition>"
	Records []record `json:"records"`
	End     int64    `json:"end"`
	Anew    bool     `json:"anew"` // what was there is gone
}

// doTopic says what a table's topic holds.
func doTopic(p *player, s topicStep) error {
	l := p.model.log(s.Topic)
	if s.Anew {
		*l = log{}
	}
	records, end := number(s.Records, l.end)
	l.records = append(l.records, records...)
	l.end = max(end, s.End)
	return nil
}

type positionStep struct {
	Position string `json:"position"` // a task
	At       int64  `json:"at"`
}

func doPosition(p *player, s positionStep) error {
	p.model.positions[s.Position] = s.At
	return nil
}

type assignStep struct {
	Assign string        `json:"assign"`
	Role   protocol.Role `json:"role"`
	Newest bool          `json:"newest"` // opened names the newest checkpoints, or none
	Wait   *bool         `json:"wait"`   // for opened; true unless it says false
}

func doAssign(p *player, s assignStep) error {
	if s.Role == "" {
		s.Role = protocol.RoleActive
	}
	e, err := p.conn.begin(s.Assign, s.Role)
	if err != nil {
		return err
	}
	e.asked = p.conn.nextID()
	p.conn.epochs[e.number] = e
	err = p.conn.say(protocol.Assign{ID: e.asked, Task: e.wireName, Set: e.set, Partition: e.partition, Role: s.Role, Epoch: e.number,
		Sources: e.sources(), Tables: e.tableStreams(), Outputs: e.outputs()})
	if err != nil || s.Wait != nil && !*s.Wait {
		return err
	}
	if err := doOpened(p, openedStep{Opened: s.Assign}); err != nil || !s.Newest {
		return err
	}
	for _, t := range e.order() {
		if newest := p.model.newest(e.log(t.name)); t.position != 0 && t.position != newest {
			return fail(fmt.Sprintf("the newest checkpoint of %s, at %d, or null", e.log(t.name), newest), fmt.Sprintf("an older one, at %d", t.position), "")
		}
	}
	return nil
}

type openedStep struct {
	Opened string `json:"opened"`
}

// doOpened waits for the answer to assign, or to every reset.
func doOpened(p *player, s openedStep) error {
	e, err := p.epoch(s.Opened)
	if err != nil {
		return err
	}
	return p.until("opened for "+e.task, func() bool { return e.state != waitsOpen && len(e.resets) == 0 })
}

type restoreStep struct {
	Restore  string `json:"restore"`
	Table    string `json:"table"`     // only this one
	PerFrame int    `json:"per_frame"` // records in a frame; 0: all in one
	Until    *int64 `json:"until"`     // position at which it stops
	Base     *int64 `json:"base"`      // where the first frame says that it begins; another place than it should is a fault of ours
	Empty    bool   `json:"empty"`     // a frame of 0 records behind the others, with a checkpoint
}

// doRestore sends what the tables' topics hold, from where the worker's stores are.
func doRestore(p *player, s restoreStep) error {
	e, err := p.epoch(s.Restore)
	if err != nil {
		return err
	}
	for _, t := range e.order() {
		if s.Table != "" && t.name != s.Table {
			continue
		}
		l := p.model.log(e.log(t.name))
		end := l.end
		if s.Until != nil {
			end = *s.Until
		}
		records := l.from(t.position)
		if past := slices.IndexFunc(records, func(r record) bool { return *r.Offset >= end }); past >= 0 {
			records = records[:past]
		}
		for len(records) > 0 {
			n := len(records)
			if s.PerFrame > 0 {
				n = min(n, s.PerFrame)
			}
			next := end
			if n < len(records) {
				next = *records[n].Offset
			}
			base := t.position
			if s.Base != nil {
				base, s.Base = *s.Base, nil
			}
			p.restoreFrame(t, base, records[:n], next)
			records = records[n:]
		}
		if s.Empty || t.position < end {
			p.restoreFrame(t, t.position, nil, end)
		}
	}
	p.conn.pump()
	return nil
}

// restoreFrame queues one frame, with a checkpoint.
func (p *player) restoreFrame(t *stream, base int64, records []record, next int64) {
	point := p.model.checkpoint(t.of.log(t.name), next, false)
	b := build(frame.Restore, t, base, next, records, point)
	t.position = next
	t.of.queue = append(t.of.queue, item{stream: t, payload: b})
}

// build makes a frame of records that have offsets.
func build(kind frame.Kind, s *stream, base, next int64, records []record, checkpoint string) []byte {
	b := frame.NewBuilder(kind)
	b.WithTimestamps(slices.ContainsFunc(records, func(r record) bool { return r.Timestamp != nil }))
	b.Reset(s.id, s.of.number, base)
	for _, r := range records {
		b.Append(*r.Offset, r.stamp(), r.Key, r.Value, r.section())
	}
	return b.Finish(nil, next, []byte(checkpoint))
}

type restoredStep struct {
	Restored string `json:"restored"`
	Wait     *bool  `json:"wait"` // for ready; true unless it says false
}

func doRestored(p *player, s restoredStep) error {
	e, err := p.epoch(s.Restored)
	if err != nil {
		return err
	}
	id := p.conn.nextID()
	err = p.conn.inStream(e, protocol.Restored{ID: id, Task: e.wireName, Epoch: e.number}, func() {
		e.ready, e.state = id, restored
	})
	if err != nil || s.Wait != nil && !*s.Wait {
		return err
	}
	return doReady(p, readyStep{Ready: s.Restored})
}

type readyStep struct {
	Ready string `json:"ready"`
}

func doReady(p *player, s readyStep) error {
	e, err := p.epoch(s.Ready)
	if err != nil {
		return err
	}
	return p.until("ready for "+e.task, func() bool { return len(e.queue) == 0 && e.state == running })
}

type openStep struct {
	Open     string        `json:"open"`
	Role     protocol.Role `json:"role"`
	PerFrame int           `json:"per_frame"`
}

// doOpen is assign, opened, restore, restored, ready.
func doOpen(p *player, s openStep) error {
	if err := doAssign(p, assignStep{Assign: s.Open, Role: s.Role}); err != nil {
		return err
	}
	if err := doRestore(p, restoreStep{Restore: s.Open, PerFrame: s.PerFrame}); err != nil {
		return err
	}
	return doRestored(p, restoredStep{Restored: s.Open})
}

type revokeStep struct {
	Revoke     string `json:"revoke"`
	Code       string `json:"code"`
	DeadlineMS int64  `json:"deadline_ms"`
}

// doRevoke asks for a task. What has not been sent of it stays here.
func doRevoke(p *player, s revokeStep) error {
	e, err := p.epoch(s.Revoke)
	if err != nil {
		return err
	}
	if s.Code == "" {
		s.Code = protocol.CodeRebalance
	}
	if s.DeadlineMS == 0 {
		s.DeadlineMS = 10000
	}
	e.queue, e.revoke = nil, p.conn.nextID()
	if e.state != failed {
		e.state = revoking
	}
	return p.conn.say(protocol.Revoke{ID: e.revoke, Task: e.wireName, Epoch: e.number, DeadlineMS: s.DeadlineMS, Code: s.Code})
}

type releasedStep struct {
	Released string `json:"released"`
}

func doReleased(p *player, s releasedStep) error {
	e := p.conn.tasks[s.Released]
	if e == nil {
		return fmt.Errorf("the scenario names task %s, which is not assigned", s.Released)
	}
	return p.until("released for "+e.task, func() bool { return e.state == released || e.state == over })
}

type lostStep struct {
	Lost string `json:"lost"`
	Code string `json:"code"`
}

func doLost(p *player, s lostStep) error {
	e, err := p.epoch(s.Lost)
	if err != nil {
		return err
	}
	if s.Code == "" {
		s.Code = "fenced"
	}
	e.queue, e.state = nil, over
	p.conn.lively = false
	return p.conn.say(protocol.Lost{Task: e.wireName, Epoch: e.number, Code: s.Code, Message: "the case wants it so"})
}

type promoteStep struct {
	Promote string `json:"promote"`
	Wait    *bool  `json:"wait"` // for ready; true unless it says false
}

// doPromote makes a standby the active, behind the frames that were sent.
func doPromote(p *player, s promoteStep) error {
	old, err := p.epoch(s.Promote)
	if err != nil {
		return err
	}
	e, err := p.takesOver(old, protocol.RoleActive)
	if err != nil {
		return err
	}
	id := p.conn.nextID()
	err = p.conn.inStream(e, protocol.Promoted{ID: id, Task: e.wireName, Epoch: e.number, Sources: e.sources(), Tables: e.tableStreams(), Outputs: e.outputs()}, func() {
		old.state, e.ready, e.state = over, id, restored
	})
	if err != nil || s.Wait != nil && !*s.Wait {
		return err
	}
	return doReady(p, readyStep{Ready: s.Promote})
}

type demoteStep struct {
	Demote string `json:"demote"`
}

// doDemote makes an active a standby. Its records that were not sent stay here.
func doDemote(p *player, s demoteStep) error {
	old, err := p.epoch(s.Demote)
	if err != nil {
		return err
	}
	old.queue = slices.DeleteFunc(old.queue, func(i item) bool { return i.stream == old.source })
	e, err := p.takesOver(old, protocol.RoleStandby)
	if err != nil {
		return err
	}
	return p.conn.inStream(e, protocol.Demoted{Task: e.wireName, Epoch: e.number, Tables: e.tableStreams()}, func() {
		old.state, e.state = over, restoring
	})
}

// takesOver makes the next epoch of a task with the stores, and the queue, of the one before.
func (p *player) takesOver(old *epoch, role protocol.Role) (*epoch, error) {
	before := old.state
	e, err := p.conn.begin(old.task, role)
	if err != nil {
		return nil, err
	}
	old.state = before // until the worker is told
	e.queue, old.queue = old.queue, nil
	for name, s := range e.tables {
		s.position = old.tables[name].position
	}
	p.conn.epochs[e.number] = e
	return e, nil
}

type resetStep struct {
	Reset string `json:"reset"`
	Table string `json:"table"`
	Next  int64  `json:"next_offset"`
	Wait  *bool  `json:"wait"` // for opened; true unless it says false
}

// doReset has one store wiped. Frames of it, and a restored that was not answered, do not count any more.
func doReset(p *player, s resetStep) error {
	e, err := p.epoch(s.Reset)
	if err != nil {
		return err
	}
	t := e.tables[s.Table]
	if t == nil {
		return fmt.Errorf("the scenario resets table %q, which task %s does not have", s.Table, e.task)
	}
	e.queue = slices.DeleteFunc(e.queue, func(i item) bool { return i.stream == t || i.stream == nil })
	if e.ready != 0 {
		e.overtaken[e.ready] = true
	}
	id := p.conn.nextID()
	t.position, e.resets[id] = s.Next, t
	err = p.conn.say(protocol.Reset{ID: id, Task: e.wireName, Epoch: e.number, Table: t.name, Stream: t.id, NextOffset: s.Next, Code: "recreated", Message: "the case wants it so"})
	if err != nil || s.Wait != nil && !*s.Wait {
		return err
	}
	return doOpened(p, openedStep{Opened: s.Reset})
}
