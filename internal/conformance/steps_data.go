package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/pillion/pillion/protocol/frame"
)

var dataVerbs = map[string]func([]byte) (action, error){
	"feed":      as(doFeed),
	"deliver":   as(doDeliver),
	"fill":      as(doFill),
	"committed": as(doCommitted),
	"answers":   as(doAnswers),
	"commit":    as(doCommit),
	"answer":    as(doAnswer),
	"credit":    as(doCredit),
	"credited":  as(doCredited),
	"granted":   as(doGranted),
}

type feedStep struct {
	Feed    string   `json:"feed"`
	Records []record `json:"records"`
	Base    *int64   `json:"base"` // where the frame says that it begins; another place than it should is a fault of ours
	Next    *int64   `json:"next"`
	Times   int      `json:"times"` // so many frames, one behind the other
}

// doFeed sends source records.
func doFeed(p *player, s feedStep) error {
	e, err := p.epoch(s.Feed)
	if err != nil {
		return err
	}
	for range max(1, s.Times) {
		src := e.source
		base := src.position
		if s.Base != nil {
			base = *s.Base
		}
		records, next := number(s.Records, base)
		if s.Next != nil {
			next = *s.Next
		}
		i := item{stream: src, payload: build(frame.Records, src, base, next, records, "")}
		if base == src.position {
			src.position = next
			i.sent = func() { src.delivered(base, next, records) }
		}
		e.queue = append(e.queue, i)
	}
	p.conn.pump()
	return nil
}

type deliverStep struct {
	Deliver  string `json:"deliver"`
	PerFrame int    `json:"per_frame"` // records in a frame; 0: all in one
}

// doDeliver sends what the task's source holds from its position on, as `topic` has said.
func doDeliver(p *player, s deliverStep) error {
	e, err := p.epoch(s.Deliver)
	if err != nil {
		return err
	}
	l := p.model.log(e.log("words"))
	records := l.from(e.source.position)
	for len(records) > 0 {
		n := len(records)
		if s.PerFrame > 0 {
			n = min(n, s.PerFrame)
		}
		next := l.end
		if n < len(records) {
			next = *records[n].Offset
		}
		if err := doFeed(p, feedStep{Feed: s.Deliver, Records: records[:n], Next: &next}); err != nil {
			return err
		}
		records = records[n:]
	}
	return nil
}

// delivered notes which positions a commit may name. The last record's offset + 1 is none when the
// frame passes over a gap behind it.
func (s *stream) delivered(base, next int64, records []record) {
	s.ends[base] = "before a frame"
	for i, r := range records {
		at := *r.Offset + 1
		switch {
		case i < len(records)-1:
			s.ends[at] = "behind a record"
		case at != next:
			s.ends[at] = ""
		}
	}
	s.ends[next] = "next offset"
}

type fillStep struct {
	Fill  string `json:"fill"`
	Key   data   `json:"key"`
	Bytes int    `json:"bytes"`
}

// mostFill is how much is sent to a worker that gives credit without an end.
const mostFill = 64 << 20

// doFill sends frames of one record until the worker's credit is used up.
func doFill(p *player, s fillStep) error {
	e, err := p.epoch(s.Fill)
	if err != nil {
		return err
	}
	value := make(data, s.Bytes)
	for sent := 0; p.conn.maySend(e.source) && len(e.queue) == 0; sent += s.Bytes {
		if sent > mostFill {
			return fail(fmt.Sprintf("a window of at most %d bytes", mostFill), "credit for more", "grant what the application takes, or use a smaller window: this case cannot tell them apart")
		}
		if err := doFeed(p, feedStep{Feed: s.Fill, Records: []record{{Key: s.Key, Value: value}}}); err != nil {
			return err
		}
	}
	return nil
}

type committedStep struct {
	Committed string           `json:"committed"` // a task
	Position  json.RawMessage  `json:"position"`  // a number, or "end": all that was fed
	Most      *int64           `json:"most"`      // and no position past this one
	Counts    *map[string]data `json:"counts"`    // all rows of the table, as its changelog adds up
	Changes   *[][2]data       `json:"changes"`   // output since the last step of this kind
}

// doCommitted waits for a position and compares what has been committed up to it.
func doCommitted(p *player, s committedStep) error {
	want, err := p.wanted(s.Committed, s.Position)
	if err != nil {
		return err
	}
	m := p.model
	at := func() int64 { return m.positions[s.Committed] }
	err = p.until(fmt.Sprintf("commits of task %s up to position %d", s.Committed, want), func() bool { return at() >= want })
	if err != nil {
		if f, ok := err.(*failure); ok {
			f.came += fmt.Sprintf("; committed so far: %d", at())
		}
		return err
	}
	if s.Most != nil && at() > *s.Most {
		return fail(fmt.Sprintf("commits of task %s up to position %d and not past %d", s.Committed, want, *s.Most), fmt.Sprintf("position %d", at()), "")
	}
	if s.Changes != nil {
		var pairs []pair
		for _, c := range *s.Changes {
			pairs = append(pairs, pair{c[0], c[1]})
		}
		same := func(a, b pair) bool { return a.key.equal(b.key) && a.value.equal(b.value) }
		if !slices.EqualFunc(pairs, m.changes[s.Committed], same) {
			return fail("in changes: "+pairsText(pairs), pairsText(m.changes[s.Committed]), "")
		}
		m.changes[s.Committed] = nil
	}
	if s.Counts != nil {
		_, partition, err := split(s.Committed)
		if err != nil {
			return err
		}
		if have := m.log(fmt.Sprintf("counts/%d", partition)).table(); !sameRows(*s.Counts, have) {
			return fail("in the changelog of counts: "+rowsText(*s.Counts), rowsText(have), "")
		}
	}
	return nil
}

// wanted reads a position.
func (p *player) wanted(task string, raw json.RawMessage) (int64, error) {
	if string(raw) == `"end"` {
		e := p.conn.tasks[task]
		if e == nil || e.source == nil {
			return 0, fmt.Errorf("the scenario names task %s, which has no source", task)
		}
		return e.source.position, nil
	}
	var n int64
	return n, json.Unmarshal(raw, &n)
}

type answersStep struct {
	Answers string `json:"answers"` // hold or go
}

// doAnswers holds back the answers to commits, or gives those that were held and goes on.
func doAnswers(p *player, s answersStep) error {
	p.answersHeld = s.Answers == "hold"
	if p.answersHeld {
		return nil
	}
	for _, cm := range slices.Clone(p.conn.held) {
		if err := p.conn.answer(cm, "committed", "", true); err != nil {
			return err
		}
	}
	return nil
}

type commitStep struct {
	Commit   string          `json:"commit"` // a task
	Position json.RawMessage `json:"position"`
}

// doCommit waits for a whole commit whose answer is held.
func doCommit(p *player, s commitStep) error {
	want, err := p.wanted(s.Commit, s.Position)
	if err != nil {
		return err
	}
	return p.until(fmt.Sprintf("a commit of task %s up to position %d", s.Commit, want), func() bool {
		return slices.ContainsFunc(p.conn.held, func(c *commit) bool { return c.of.task == s.Commit && c.next["words"] >= want })
	})
}

type answerStep struct {
	Answer string `json:"answer"` // a task
	With   string `json:"with"`
	Code   string `json:"code"`
	Lands  bool   `json:"lands"` // Kafka has it nevertheless; "committed" always has
}

// doAnswer answers every held commit of a task, in order.
func doAnswer(p *player, s answerStep) error {
	found := false
	for _, cm := range slices.Clone(p.conn.held) {
		if cm.of.task != s.Answer {
			continue
		}
		found = true
		if err := p.conn.answer(cm, s.With, s.Code, s.Lands || s.With == "committed"); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("the scenario answers a commit of %s, and none is held", s.Answer)
	}
	return nil
}

type creditStep struct {
	Credit string `json:"credit"` // hold or go
}

// doCredit holds back the credit for what the worker sends, or gives what was held and goes on.
func doCredit(p *player, s creditStep) error {
	p.creditHeld = s.Credit == "hold"
	owed := p.owed
	if p.creditHeld {
		return nil
	}
	p.owed = nil
	for _, s := range owed {
		p.conn.refund(s)
	}
	return nil
}

type creditedStep struct {
	Credited bool `json:"credited"`
}

// doCredited waits until every byte that was sent has been granted anew.
func doCredited(p *player, _ creditedStep) error {
	c := p.conn
	owes := func() string {
		if most := c.hello.Credit.Connection + c.sent; c.limit < most {
			return fmt.Sprintf("%d bytes of the connection", most-c.limit)
		}
		for _, id := range slices.Sorted(maps.Keys(c.streams)) {
			if s := c.streams[id]; s.of.living() && s.limit < s.window+s.sent {
				return fmt.Sprintf("%d bytes of stream %d (%s of %s)", s.window+s.sent-s.limit, id, s.name, s.of.task)
			}
		}
		return ""
	}
	err := p.until("credit for every byte that was sent", func() bool { return owes() == "" })
	if f, ok := err.(*failure); ok && owes() != "" {
		f.came = "no credit for " + owes()
	}
	return err
}

type grantedStep struct {
	Granted string `json:"granted"` // a task
	Most    int    `json:"most"`    // so many of the frames of its source
}

// doGranted checks that no more than the first frames have been granted anew.
func doGranted(p *player, s grantedStep) error {
	e, err := p.epoch(s.Granted)
	if err != nil {
		return err
	}
	src, most := e.source, int64(0)
	for i := range min(s.Most, len(src.sizes)) {
		most += src.sizes[i]
	}
	if came := src.limit - src.window; came > most {
		return fail(fmt.Sprintf("credit for at most %d frames of %s (%d bytes): the application has not taken more", s.Most, src.name, most), fmt.Sprintf("credit for %d bytes", came), "")
	}
	return nil
}
