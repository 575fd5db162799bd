package cli

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// attack is one way to be a bad worker. The answers are those of PROTOCOL.md, section 10.
type attack struct {
	name string
	on   func(t *testing.T, b *besieged)
}

var attacks = []attack{
	{"garbage before hello", garbageFirst},
	{"garbage after hello", garbageLater},
	{"lengths that lie", lyingLengths},
	{"too large", tooLarge},
	{"handshakes that are refused", refusedHandshakes},
	{"a handshake that never ends", slowLoris},
	{"a second hello", secondHello},
	{"types and fields that do not fit", unfitting},
	{"streams that are not its own", foreignStreams},
	{"epochs that are over", staleEpochs},
	{"tasks that are not its own", foreignTasks},
	{"answers out of order", outOfOrder},
	{"positions that cannot be", badPositions},
	{"commits that never end", unfinishedCommits},
	{"a commit that is too large", hugeCommit},
	{"writes without credit", overrun},
	{"a flood of control messages", flood},
	{"answers that nobody reads", deaf},
	{"workers that supersede each other", flapping},
	{"a complaint about everything", complaints},
	{"frames of gigabytes", hugeFrames},
	{"framing that is none", badFraming},
	{"a message in endless parts", manyParts},
	{"a flood of pings", pings},
	{"messages that are deep and wide", deepAndWide},
	{"credit that no ledger holds", credits},
	{"declarations of everything", boasts},
}

func garbageFirst(t *testing.T, b *besieged) {
	for _, text := range []string{"", "hello", "{", "[]", "null", `{"type": 1}`, `{"kind": "hello"}`, "\xff\xfe", strings.Repeat("[", 100_000), `{"type":"commit","id":1}`} {
		p := dial(t, b.url)
		p.text("%s", text)
		p.isClosed(protocol.CloseBadMessage, protocol.CodeBadMessage)
	}
	p := dial(t, b.url)
	p.say(protocol.Progress{})
	p.isClosed(protocol.CloseBadMessage, protocol.CodeNotAllowed)
	p = dial(t, b.url)
	p.binary(writes(1, 1, 1, []byte("k"), "v"))
	p.isClosed(protocol.CloseBadMessage, protocol.CodeNotAllowed)
	p = dial(t, b.url)
	hello := peerHello()
	hello.Versions = []int{7}
	p.say(hello)
	p.isClosed(protocol.CloseVersion, protocol.CodeVersion)
}

func garbageLater(t *testing.T, b *besieged) {
	for _, say := range []func(p *peer){
		func(p *peer) { p.text("not JSON") },
		func(p *peer) { p.text("\xff") },
		func(p *peer) { p.text(`{"type":"commit","task":"s/0"}`) }, // cannot be answered: no id
		func(p *peer) { p.text(`{"type":"credit","connection":-1}`) },
		func(p *peer) { p.binary(nil) },
		func(p *peer) { p.binary([]byte("garbage")) },
		func(p *peer) { p.binary(bytes.Repeat([]byte{0xff}, 1000)) },
		func(p *peer) { p.binary(writes(1, 1, 1, []byte("k"), "v")[:50]) },
		func(p *peer) { p.binary(append(writes(1, 1, 1, []byte("k"), "v"), 0)) },
		func(p *peer) { // of a kind that only the sidecar sends
			r := frame.NewBuilder(frame.Records)
			r.Reset(1, 1, 0)
			p.binary(r.Finish(nil, 0, nil))
		},
	} {
		p := work(t, b.url)
		say(p)
		p.isClosed(protocol.CloseBadMessage, protocol.CodeBadMessage)
	}
}

func lyingLengths(t *testing.T, b *besieged) {
	for at := 12; at < frame.HeaderSize; at += 4 { // count, next, sizes; base is the commit's id
		if at >= 16 && at < 24 {
			continue
		}
		p := work(t, b.url)
		task := p.task("s/0")
		f := writes(task.changelog(), task.Epoch, 2, []byte("k"), "v")
		binary.LittleEndian.PutUint32(f[at:], 0x7fffffff)
		p.binary(f)
		p.isClosed(protocol.CloseBadMessage, protocol.CodeBadMessage)
	}
	p := work(t, b.url)
	task := p.task("s/0")
	f := writes(task.changelog(), task.Epoch, 2, []byte("k"), "v")
	binary.LittleEndian.PutUint32(f[frame.HeaderSize:], 0xffffffff) // a key of -1 bytes
	p.binary(f)
	p.isClosed(protocol.CloseBadMessage, protocol.CodeBadMessage)
}

func tooLarge(t *testing.T, b *besieged) {
	p := work(t, b.url)
	p.text(`{"type":"progress","more":"%s"}`, strings.Repeat("x", 1<<20))
	p.isClosed(protocol.CloseTooLarge, protocol.CodeTooLarge)
	p = work(t, b.url)
	task := p.task("s/0")
	p.binary(writes(task.changelog(), task.Epoch, 2, []byte("k"), strings.Repeat("x", 256<<10)))
	p.isClosed(protocol.CloseTooLarge, protocol.CodeTooLarge)
	p = dial(t, b.url) // before hello alike
	p.text("%s", strings.Repeat(" ", 2<<20))
	p.isClosed(protocol.CloseTooLarge, protocol.CodeTooLarge)
}

func refusedHandshakes(t *testing.T, b *besieged) {
	for _, c := range []struct {
		status int
		code   string
		change func(h http.Header, d *websocket.Dialer) (path string)
	}{
		{403, "forbidden", func(h http.Header, _ *websocket.Dialer) string { h.Set("Origin", "https://example.com"); return "" }},
		{403, "forbidden", func(h http.Header, _ *websocket.Dialer) string { h.Set("Origin", "null"); return "" }},
		{403, "forbidden", func(h http.Header, _ *websocket.Dialer) string { h.Set("Host", "rebound.example:7420"); return "" }},
		{401, "unauthorized", func(h http.Header, _ *websocket.Dialer) string { h.Del("Authorization"); return "" }},
		{401, "unauthorized", func(h http.Header, _ *websocket.Dialer) string { h.Set("Authorization", "Bearer guess"); return "" }},
		{404, "not_found", func(http.Header, *websocket.Dialer) string { return "/metrics" }},
		{400, "bad_subprotocol", func(_ http.Header, d *websocket.Dialer) string { d.Subprotocols = []string{"pillion.v9"}; return "" }},
	} {
		header, d := peerHeader(), &websocket.Dialer{Subprotocols: []string{protocol.Subprotocol}}
		path := c.change(header, d)
		_, resp, err := d.Dial(b.url+path, header)
		if err == nil || resp == nil {
			t.Fatalf("%d %s: let in, %v", c.status, c.code, err)
		}
		var body struct{ Code, Message string }
		if err := json.NewDecoder(resp.Body).Decode(&body); err != nil || resp.StatusCode != c.status || body.Code != c.code || body.Message == "" {
			t.Errorf("answered %d %+v (%v), want %d %s", resp.StatusCode, body, err, c.status, c.code)
		}
	}
}

func slowLoris(t *testing.T, b *besieged) {
	silent := dial(t, b.url)
	addr := strings.TrimPrefix(b.url, "ws://")
	var ends sync.WaitGroup
	for i := range 300 { // more than are let in at once
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nX-%d: ", addr, i)
		if i < 200 {
			ends.Go(func() {
				_ = c.SetReadDeadline(time.Now().Add(patience))
				if _, err := io.ReadAll(c); err != nil {
					t.Errorf("the head of a request may take more than %v: %v", patience, err)
				}
			})
		}
	}
	work(t, b.url) // waits at most until the first of them are cut off
	ends.Wait()
	silent.isClosed(protocol.CloseHelloTimeout, protocol.CodeHelloTimeout)
}

func secondHello(t *testing.T, b *besieged) {
	p := work(t, b.url)
	again := peerHello()
	again.ID, again.Group = p.id(), "another"
	p.say(again)
	if e := p.hearsError(protocol.CodeNotAllowed); e.Re != again.ID {
		t.Errorf("the answer is to %d", e.Re)
	}
	p.isAlive()
}

// isAlive checks that the connection goes on as if nothing had been.
func (p *peer) isAlive() {
	p.t.Helper()
	p.text(`{"type":"zz_ping","id":%d}`, p.id())
	if e := p.hearsError(protocol.CodeUnknownType); e.Re != p.lastID {
		p.t.Errorf("the answer is to %d, want %d", e.Re, p.lastID)
	}
}

func unfitting(t *testing.T, b *besieged) {
	for _, body := range []string{
		`"task":"","epoch":1,"source_next":{"in":1}`, `"task":"s/0","epoch":-1,"source_next":{"in":1}`, `"task":"s/0","epoch":1`,
		`"task":"s/0","epoch":1,"source_next":{"in":-5}`, `"task":"s/0","epoch":1,"source_next":{"in":1.5}`,
		`"task":"s/0","epoch":1,"source_next":{"in":99999999999999999999}`, `"task":7,"epoch":1,"source_next":{}`, `"task":null`,
	} {
		p := work(t, b.url)
		task, id := p.task("s/0"), p.id()
		p.binary(writes(task.changelog(), task.Epoch, id, []byte("rounds"), "hostile"))
		p.text(`{"type":"commit","id":%d,%s}`, id, body)
		p.isClosed(protocol.CloseBadMessage, protocol.CodeBadMessage) // its rows are lost
	}
	p := work(t, b.url)
	task := p.task("s/0")
	p.text(`{"type":"ready","id":%d,"re":"seven"}`, p.id())
	if e := p.hearsError(protocol.CodeBadMessage); e.Re != p.lastID {
		t.Errorf("the answer is to %d", e.Re)
	}
	p.text(`{"type":"zz_news","optional":true}`)
	for _, m := range []string{`"welcome"`, `"assign"`, `"lost"`, `"committed"`} { // what only the sidecar says
		p.text(`{"type":%s,"id":%d}`, m, p.id())
		if e := p.hearsError(protocol.CodeBadMessage); e.Re != p.lastID {
			t.Errorf("%s: the answer is to %d", m, e.Re)
		}
	}
	p.say(protocol.Lost{Task: "s/0", Epoch: task.Epoch, Code: protocol.CodeFenced, Message: "says the worker"})
	p.hearsError(protocol.CodeNotAllowed)
	p.isAlive()
}
