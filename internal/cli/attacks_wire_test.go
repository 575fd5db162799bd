package cli

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/pillion/pillion/protocol"
)

// raw sends bytes past the websocket library. The mask of all frames is zero.
func (p *peer) raw(b []byte) {
	p.t.Helper()
	if _, err := p.ws.NetConn().Write(b); err != nil {
		p.t.Fatalf("cannot send: %v", err)
	}
}

// wsHead is the head of a frame whose length may be a lie.
func wsHead(first byte, length uint64) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{first, 0x80 | 127}, length), 0, 0, 0, 0)
}

// hugeFrames begins frames of 2 GiB and more, and ends them with what was allowed, or never.
func hugeFrames(t *testing.T, b *besieged) {
	junk := make([]byte, 1<<20)
	for _, c := range []struct {
		first  byte
		length uint64
	}{{0x82, 1 << 31}, {0x82, 1<<63 - 1}, {0x81, 1 << 31}} {
		p := work(t, b.url)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p.raw(wsHead(c.first, c.length))
		if c.first == 0x82 { // a frame that is valid as far as it goes
			task := p.task("s/0")
			f := writes(task.changelog(), task.Epoch, p.id(), []byte("k"), "v")
			binary.LittleEndian.PutUint32(f[28:], 1<<31-1) // its values
			p.raw(f)
		}
		for range 2 {
			p.raw(junk)
		}
		p.until("too_large or bad_message", func(h heard) bool {
			e, ok := h.message.(protocol.Error)
			return ok && (e.Code == protocol.CodeTooLarge || e.Code == protocol.CodeBadMessage)
		})
		runtime.ReadMemStats(&after)
		if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 64 {
			t.Errorf("%d MiB were allocated for a frame of %d bytes that was not sent", got, c.length)
		}
		p.ws.NetConn().Close()
	}
	// A frame that stops in the middle holds nobody up: the next worker takes the place.
	p := work(t, b.url)
	p.raw(wsHead(0x82, 100_000))
	p.raw(junk[:100])
	work(t, b.url)
}

// badFraming breaks the rules of the websocket itself.
func badFraming(t *testing.T, b *besieged) {
	for name, bytes := range map[string][]byte{
		"no mask":              {0x81, 2, '{', '}'},
		"reserved bits":        append([]byte{0xf1, 0x82, 0, 0, 0, 0}, "{}"...),
		"an unknown opcode":    append([]byte{0x83, 0x82, 0, 0, 0, 0}, "{}"...),
		"a part of nothing":    append([]byte{0x80, 0x82, 0, 0, 0, 0}, "{}"...),
		"a ping of 126":        append([]byte{0x89, 0xfe, 0, 126, 0, 0, 0, 0}, make([]byte, 126)...),
		"a ping in parts":      {0x09, 0x80, 0, 0, 0, 0},
		"a negative length":    wsHead(0x82, 1<<63),
		"a message in another": append(append([]byte{0x01, 0x82, 0, 0, 0, 0}, "{}"...), append([]byte{0x81, 0x82, 0, 0, 0, 0}, "{}"...)...),
		"a close of one byte":  {0x88, 0x81, 0, 0, 0, 0, 3},
		"a close that is none": {0x88, 0x82, 0, 0, 0, 0, 0, 7},
	} {
		p := work(t, b.url)
		p.raw(bytes)
		var closed *websocket.CloseError
		if err := p.ended(); errors.As(err, &closed) && closed.Code == protocol.CloseInternal {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// ended reads to the end of a connection, and answers nothing.
func (p *peer) ended() (err error) {
	p.t.Helper()
	_ = p.ws.SetReadDeadline(time.Now().Add(patience))
	for err == nil {
		_, _, err = p.ws.ReadMessage()
	}
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() {
		p.t.Fatalf("it is still open after %v", patience)
	}
	return err
}

// manyParts sends a message in parts that never end, most of them empty.
func manyParts(t *testing.T, b *besieged) {
	p := work(t, b.url)
	p.raw([]byte{0x01, 0x80, 0, 0, 0, 0})
	empty := []byte(strings.Repeat("\x00\x80\x00\x00\x00\x00", 10_000))
	for range 20 {
		p.raw(empty)
	}
	work(t, b.url)
	p = work(t, b.url) // pings between the parts, and a byte in each
	p.raw([]byte{0x01, 0x80, 0, 0, 0, 0})
	for range 1000 {
		p.raw([]byte{0x00, 0x81, 0, 0, 0, 0, ' ', 0x89, 0x80, 0, 0, 0, 0})
	}
	p.raw(append([]byte{0x80, 0x80 | byte(len(`{"type":"q"}`)), 0, 0, 0, 0}, `{"type":"q"}`...))
	p.hearsError(protocol.CodeUnknownType)
	p.isAlive()
}

func pings(t *testing.T, b *besieged) {
	p := work(t, b.url)
	ping := []byte(strings.Repeat("\x89\x84\x00\x00\x00\x00ping\x8a\x80\x00\x00\x00\x00", 1000))
	for range 200 {
		p.raw(ping)
	}
	p.isAlive()
}

// deepAndWide are messages within the limit of size that are large when they are read.
func deepAndWide(t *testing.T, b *besieged) {
	const size = 1<<20 - 100
	deep := strings.Repeat("[", size/2) + strings.Repeat("]", size/2)
	fields := make([]string, size/16)
	for i := range fields {
		fields[i] = fmt.Sprintf(`"%x":0`, i)
	}
	for name, rest := range map[string]string{
		"deep": deep, "deep objects": strings.Repeat(`{"a":`, 9000) + "0" + strings.Repeat("}", 9000), "half deep": deep[:size/2],
		"wide": "[" + strings.Repeat("[],", size/3-1) + "[]]", "many fields": "{" + strings.Join(fields, ",") + "}",
		"a number": strings.Repeat("9", size), "a fraction": "0." + strings.Repeat("1", size-2) + "e-99999999", "a text": `"` + strings.Repeat(`\u0000`, size/6) + `"`,
	} {
		p := work(t, b.url)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p.text(`{"type":"zz_ping","id":4711,"x":%s}`, rest)
		p.until("an error", func(h heard) bool { _, ok := h.message.(protocol.Error); return ok })
		runtime.ReadMemStats(&after)
		if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 256 {
			t.Errorf("%s: %d MiB were allocated for a message of 1 MiB", name, got)
		}
		p.ws.NetConn().Close()
	}
}

// credits grants what no ledger can hold, takes it back, and grants to streams that never were.
func credits(t *testing.T, b *besieged) {
	for _, text := range []string{
		`{"type":"credit","connection":9223372036854775807}`, `{"type":"credit","connection":9223372036854775808}`,
		`{"type":"credit","connection":1e300}`, `{"type":"credit","connection":0}`, `{"type":"credit","connection":1,"streams":{"1":9007199254740991}}`,
		`{"type":"credit","connection":1,"streams":{"4294967295":5,"4294967296":5}}`, `{"type":"credit","connection":1,"streams":{"1":-1}}`,
	} {
		p := work(t, b.url)
		p.text("%s", text)
		p.text(`{"type":"zz_ping","id":4711}`)
		p.until("an answer", func(h heard) bool { e, ok := h.message.(protocol.Error); return ok && e.Code != "" })
		p.ws.NetConn().Close()
	}
	for _, window := range []string{"9223372036854775807", "9007199254740991", "1"} {
		p := dial(t, b.url)
		hello := strings.Replace(string(must(protocol.Encode(peerHello()))), `"credit":{"connection":4194304,"stream":1048576}`, `"credit":{"connection":`+window+`,"stream":`+window+`}`, 1)
		if !strings.Contains(hello, window) {
			t.Fatal(hello)
		}
		p.text("%s", hello)
		if h := p.until("an answer", func(h heard) bool { return h.message != nil || h.close != 0 }); h.close == protocol.CloseInternal {
			t.Errorf("a window of %s: closed with %d", window, h.close)
		}
		p.ws.NetConn().Close()
	}
}

// boasts are declarations of more than there is.
func boasts(t *testing.T, b *besieged) {
	for name, change := range map[string]func(h *protocol.Hello){
		"sets": func(h *protocol.Hello) {
			h.Sets = nil
			for i := range 5000 {
				h.Sets = append(h.Sets, protocol.Set{Name: fmt.Sprint("s", i), Sources: []string{fmt.Sprint("nowhere-", i)}})
			}
		},
		"tables": func(h *protocol.Hello) {
			for i := range 5000 {
				h.Sets[0].Tables = append(h.Sets[0].Tables, protocol.Table{Name: fmt.Sprint("t", i), SourceTopic: fmt.Sprint("nowhere-", i)})
			}
		},
		"outputs": func(h *protocol.Hello) {
			for i := range 10_000 {
				h.Outputs = append(h.Outputs, fmt.Sprint("nowhere-", i))
			}
		},
		"a name": func(h *protocol.Hello) { h.Sets[0].Sources = []string{strings.Repeat("n", 500_000)} },
	} {
		p := dial(t, b.url)
		hello := peerHello()
		change(&hello)
		began := time.Now()
		p.say(hello)
		p.until("a refusal of "+name, func(h heard) bool { return h.close != 0 })
		if took := time.Since(began); took > patience {
			t.Errorf("%s: it took %v", name, took)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
