package conformance

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

var sayVerbs = map[string]func([]byte) (action, error){
	"say":     as(doSay),
	"text":    as(doText),
	"bytes":   as(doBytes),
	"hear":    as(doHear),
	"barrier": as(doBarrier),
	"quiet":   as(doQuiet),
	"lively":  as(doLively),
	"wire":    as(doWire),
	"ping":    as(doPing),
}

type sayStep struct {
	Say json.RawMessage `json:"say"`
}

// doSay sends a message as it stands, but for placeholders.
func doSay(p *player, s sayStep) error {
	p.conn.put(opText, p.fillIn(s.Say))
	return nil
}

type textStep struct {
	Text string `json:"text"`
}

// doText sends a text message that may be anything.
func doText(p *player, s textStep) error {
	p.conn.put(opText, []byte(s.Text))
	return nil
}

type bytesStep struct {
	Bytes string `json:"bytes"` // in hex; "epoch words/0" and "stream words/0 words" stand for their numbers
}

// doBytes sends a binary message that may be anything.
func doBytes(p *player, s bytesStep) error {
	var out []byte
	for _, word := range strings.Split(s.Bytes, ",") {
		word = strings.TrimSpace(word)
		if strings.Contains(word, " ") && strings.Contains(word, "/") {
			n, err := strconv.ParseUint(string(p.fillIn(fmt.Appendf(nil, `"$%s"`, word))), 10, 32)
			if err != nil {
				return err
			}
			out = binary.LittleEndian.AppendUint32(out, uint32(n))
			continue
		}
		b, err := hex.DecodeString(strings.ReplaceAll(word, " ", ""))
		if err != nil {
			return err
		}
		out = append(out, b...)
	}
	p.conn.sent += int64(len(out))
	p.conn.put(opBinary, out)
	return nil
}

// fillIn puts numbers where a scenario writes "$id", and "$epoch words/0", "$stream words/0 names",
// "$task words/0".
func (p *player) fillIn(raw []byte) []byte {
	for bytes.Contains(raw, []byte(`"$id"`)) {
		raw = bytes.Replace(raw, []byte(`"$id"`), fmt.Append(nil, p.conn.nextID()), 1)
	}
	for name, e := range p.conn.tasks {
		raw = bytes.ReplaceAll(raw, []byte(`"$epoch `+name+`"`), fmt.Append(nil, e.number))
		task, _ := json.Marshal(e.wireName)
		raw = bytes.ReplaceAll(raw, []byte(`"$task `+name+`"`), task)
		for table, s := range e.tables {
			raw = bytes.ReplaceAll(raw, []byte(`"$stream `+name+` `+table+`"`), fmt.Append(nil, s.id))
		}
		if e.source != nil {
			raw = bytes.ReplaceAll(raw, []byte(`"$stream `+name+` words"`), fmt.Append(nil, e.source.id))
		}
	}
	return raw
}

type hearStep struct {
	Hear json.RawMessage `json:"hear"`
}

// doHear waits for an error of the worker with these fields; others may be there, too.
func doHear(p *player, s hearStep) error {
	return p.hear(p.fillIn(s.Hear))
}

func (p *player) hear(want []byte) error {
	var fields map[string]any
	if err := json.Unmarshal(want, &fields); err != nil {
		return err
	}
	heard := false
	p.hears = func(raw []byte) bool {
		var came map[string]any
		_ = json.Unmarshal(raw, &came)
		for name, value := range fields {
			if !reflect.DeepEqual(came[name], value) {
				return false
			}
		}
		first := !heard
		heard = true
		return first
	}
	defer func() { p.hears = nil }()
	return p.until("the message "+string(want), func() bool { return heard })
}

type barrierStep struct {
	Barrier bool `json:"barrier"`
}

// doBarrier waits until the worker has read every control message so far: it says a message of a type
// that nobody knows, which has an answer.
func doBarrier(p *player, _ barrierStep) error {
	id := p.conn.nextID()
	p.conn.put(opText, fmt.Appendf(nil, `{"type":"x-barrier","id":%d}`, id))
	return p.hear(fmt.Appendf(nil, `{"type":"error","re":%d,"code":"unknown_type"}`, id))
}

type quietStep struct {
	Quiet []string `json:"quiet"` // types of messages
	MS    int      `json:"ms"`
}

// doQuiet lets time pass in which some messages must not come.
func doQuiet(p *player, s quietStep) error {
	p.forbidden = s.Quiet
	defer func() { p.forbidden = nil }()
	return p.pass(time.Duration(s.MS) * time.Millisecond)
}

type livelyStep struct {
	Lively bool `json:"lively"`
}

// doLively waits for progress since the last lost, or sees that there was none.
func doLively(p *player, s livelyStep) error {
	if !s.Lively && p.conn.lively {
		return fail("no progress from a worker whose work stands still", "progress", "PROTOCOL.md, Liveness: from where the work is done")
	}
	return p.until("progress", func() bool { return p.conn.lively == s.Lively })
}

type wireStep struct {
	Wire *manner `json:"wire"` // null: as usual
}

// doWire says how messages are written from now on; what was glued goes out.
func doWire(p *player, s wireStep) error {
	p.manner = manner{}
	if s.Wire != nil {
		p.manner = *s.Wire
	}
	if len(p.glued) > 0 {
		p.conn.wire.post(p.glued, 0)
		p.glued = nil
	}
	return nil
}

type pingStep struct {
	Ping int `json:"ping"` // bytes in it
}

func doPing(p *player, s pingStep) error {
	p.conn.put(opPing, []byte(strings.Repeat("p", s.Ping)))
	return nil
}
