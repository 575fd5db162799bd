package cli

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/pillion/pillion/protocol"
)

func foreignStreams(t *testing.T, b *besieged) {
	p := work(t, b.url)
	for _, c := range []struct {
		stream func() uint32
		atOnce string // an error before the answer
		code   string
	}{
		{func() uint32 { return 99_999 }, protocol.CodeUnknownStream, protocol.CodeUnknownStream},
		{func() uint32 { return p.task("s/0").Sources[0].Stream }, protocol.CodeUndeclaredOutput, protocol.CodeUndeclaredOutput},
		{func() uint32 { return p.task("s/1").changelog() }, "", protocol.CodeUnknownStream},
	} {
		task, id := p.task("s/0"), p.id()
		p.binary(writes(task.changelog(), task.Epoch, id, []byte("rounds"), "hostile"))
		p.binary(writes(c.stream(), task.Epoch, id, []byte("rounds"), "hostile"))
		if c.atOnce != "" {
			p.hearsError(c.atOnce)
		}
		p.commit(task, id, 0)
		p.isAborted(id, c.code)
	}
	p = work(t, b.url)
	p.binary(writes(0, 1, 2, []byte("k"), "v"))
	p.isClosed(protocol.CloseBadMessage, protocol.CodeBadMessage)
}

func staleEpochs(t *testing.T, b *besieged) {
	p := work(t, b.url)
	old := p.task("s/0")
	id := p.id()
	p.commit(old, id, math.MaxInt32)
	p.isAborted(id, protocol.CodeBadPosition)
	if now := p.task("s/0"); now.Epoch == old.Epoch {
		t.Fatal("the epoch goes on")
	}
	for _, epoch := range []uint32{old.Epoch, 0xffffffff} {
		id := p.id()
		p.binary(writes(old.changelog(), epoch, id, []byte("rounds"), "hostile"))
		p.say(protocol.Commit{ID: id, Task: "s/0", Epoch: epoch, SourceNext: map[string]int64{"in": 0}})
		hearsOf(p, func(m protocol.Stale) bool { return m.Re == id && m.Epoch == epoch })
	}
	// Late answers of an epoch that is over are ignored.
	p.say(protocol.Opened{Re: old.ID, Task: "s/0", Epoch: old.Epoch, Checkpoints: map[string]*string{"t": nil}})
	p.say(protocol.Ready{Re: old.ID, Task: "s/0", Epoch: old.Epoch})
	p.say(protocol.Released{Re: old.ID, Task: "s/0", Epoch: old.Epoch})
	p.say(protocol.Error{Code: protocol.CodeStoreOpenFailed, Message: "late", Task: "s/0", Epoch: old.Epoch})
	// Frames of an epoch that is over under the commit of the living one.
	task := p.task("s/0")
	id = p.id()
	p.binary(writes(old.changelog(), old.Epoch, id, []byte("rounds"), "hostile"))
	p.commit(task, id, 0)
	p.isAborted(id, protocol.CodeStaleEpoch)
	p.isAlive()
}

func foreignTasks(t *testing.T, b *besieged) {
	p := work(t, b.url)
	for _, name := range []string{"nobody/0", "s/2", "s/-1", "s", "/", "s/0/0", strings.Repeat("s", 10_000)} {
		id := p.id()
		p.text(`{"type":"commit","id":%d,"task":%q,"epoch":%d,"source_next":{"in":0}}`, id, name, p.task("s/0").Epoch)
		hearsOf(p, func(m protocol.Stale) bool { return m.Re == id })
	}
	// The writes of one task under the commit of another.
	task, other, id := p.task("s/0"), p.task("s/1"), p.id()
	p.binary(writes(other.changelog(), other.Epoch, id, []byte("rounds"), "hostile"))
	p.commit(task, id, 0)
	p.isAborted(id, protocol.CodeBadMessage)
	p.isAlive()
}

func outOfOrder(t *testing.T, b *besieged) {
	p := dial(t, b.url).greet()
	a := hearsOf(p, func(m protocol.Assign) bool { return m.Task == "s/0" })
	id := p.id()
	p.say(protocol.Commit{ID: id, Task: a.Task, Epoch: a.Epoch, SourceNext: map[string]int64{"in": 0}})
	if e := p.hearsError(protocol.CodeNotAllowed); e.Re != id {
		t.Errorf("the answer is to %d", e.Re)
	}
	p.allRun()
	for _, m := range []protocol.Message{
		protocol.Opened{Re: a.ID, Task: a.Task, Epoch: a.Epoch, Checkpoints: map[string]*string{"t": nil}}, // twice
		protocol.Opened{Re: 4711, Task: a.Task, Epoch: a.Epoch, Checkpoints: map[string]*string{}},
		protocol.Ready{Re: 4711, Task: a.Task, Epoch: a.Epoch},
		protocol.Released{Re: 4711, Task: a.Task, Epoch: a.Epoch}, // nobody has asked
	} {
		p.say(m)
		p.hearsError(protocol.CodeNotAllowed)
	}
	p.isAlive()
}

func badPositions(t *testing.T, b *besieged) {
	p := work(t, b.url)
	for i, next := range []map[string]int64{{"in": 1 << 40}, {"out": 0}, {"in": 0, "bulk": 0}} {
		task, id := p.task(fmt.Sprintf("s/%d", i%2)), p.id()
		p.binary(writes(task.changelog(), task.Epoch, id, []byte("rounds"), "hostile"))
		p.say(protocol.Commit{ID: id, Task: task.Task, Epoch: task.Epoch, SourceNext: next})
		p.isAborted(id, protocol.CodeBadPosition)
	}
	task, id := p.task("s/1"), p.id()
	p.binary(writes(task.changelog(), task.Epoch, id, nil, "no key"))
	p.commit(task, id, task.Sources[0].Position)
	p.isAborted(id, protocol.CodeNullKey)
}

func unfinishedCommits(t *testing.T, b *besieged) {
	p := work(t, b.url)
	task := p.task("s/0")
	p.binary(writes(task.changelog(), task.Epoch, p.id(), []byte("rounds"), "hostile"))
	p.isAlive() // other messages may come between
	p.binary(writes(task.changelog(), task.Epoch, p.id(), []byte("rounds"), "hostile"))
	p.isClosed(protocol.CloseBadMessage, protocol.CodeBadMessage)
	p = work(t, b.url) // and one that just goes
	task = p.task("s/0")
	p.binary(writes(task.changelog(), task.Epoch, p.id(), []byte("rounds"), "hostile"))
	p.ws.NetConn().Close()
}

func hugeCommit(t *testing.T, b *besieged) {
	p := work(t, b.url)
	task, id := p.task("s/0"), p.id()
	part := strings.Repeat("x", 64<<10)
	for range 5 {
		p.binary(writes(task.changelog(), task.Epoch, id, []byte("rounds"), part))
	}
	p.hearsError(protocol.CodeCommitTooLarge)
	p.commit(task, id, task.Sources[0].Position)
	p.isAborted(id, protocol.CodeCommitTooLarge)
}

// overrun reads nothing, so that the way to the worker fills up and nothing new can be granted, and
// sends on and on.
func overrun(t *testing.T, b *besieged) {
	p := dial(t, b.url)
	hello := peerHello()
	hello.Credit = protocol.Window{Connection: 1 << 40, Stream: 1 << 40}
	p.say(hello)
	p.allRun()
	task, id, part := p.task("s/0"), p.id(), strings.Repeat("x", 200<<10)
	for range 60 {
		p.binary(writes(task.changelog(), task.Epoch, id, []byte("rounds"), part))
	}
	p.greedy = true
	p.isClosed(protocol.CloseCreditOverrun, protocol.CodeCreditOverrun)
}

func flood(t *testing.T, b *besieged) {
	p := work(t, b.url)
	for range 50_000 {
		p.say(protocol.Progress{})
	}
	for i := range 5_000 {
		p.say(protocol.Credit{Connection: 1<<52 + int64(i), Streams: map[uint32]int64{uint32(i + 1): 1 << 52}})
		p.say(protocol.Error{Code: "made_up", Message: strings.Repeat("m", 1000)})
		p.text(`{"type":"zz_news","optional":true,"text":%q}`, strings.Repeat("n", 1000))
	}
	p.isAlive()
}

// deaf makes the sidecar answer and reads nothing, not even the goodbye: it is cut off.
func deaf(t *testing.T, b *besieged) {
	p := work(t, b.url)
	if err := p.ws.SetWriteDeadline(time.Now().Add(2 * patience)); err != nil {
		t.Fatal(err)
	}
	var err error
	for err == nil {
		err = p.ws.WriteMessage(websocket.TextMessage, []byte(`{"type":"q"}`))
	}
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() {
		t.Fatalf("not cut off: %v", err)
	}
}

func flapping(t *testing.T, b *besieged) {
	var last *peer
	for range 30 {
		p := dial(t, b.url).greet()
		if last != nil {
			last.isClosed(protocol.CloseSuperseded, protocol.CodeSuperseded)
		}
		last = p
	}
	last.allRun()
	last.isAlive()
}

func complaints(t *testing.T, b *besieged) {
	p := work(t, b.url)
	for range 2 {
		for i := range 2 {
			task := p.task(fmt.Sprintf("s/%d", i))
			p.say(protocol.Error{Code: protocol.CodeOffsetMismatch, Message: "a gap", Task: task.Task, Epoch: task.Epoch, Stream: task.changelog()})
			hearsOf(p, func(m protocol.Lost) bool { return m.Task == task.Task && m.Epoch == task.Epoch })
		}
		p.allRun()
	}
	p.say(protocol.Error{Code: "made_up", Message: "about nothing"})
	p.say(protocol.Error{Code: "made_up", Message: "about nobody", Task: "nobody/1", Epoch: 1})
	p.isAlive()
}
