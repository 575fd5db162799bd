package bridge

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

func TestHelloTimeout(t *testing.T) {
	s, r := start(t, func(c *Config) { c.HelloTimeout = 30 * time.Millisecond })
	dial(t, s).refused(protocol.CloseHelloTimeout, protocol.CodeHelloTimeout, "no hello within 30ms: it is the first message of a connection")
	if len(r.events) != 0 {
		t.Fatal("a connection without hello reached the handler")
	}
}

func TestFirstMessageMustBeHello(t *testing.T) {
	s, r := start(t, nil)
	for name, tc := range map[string]struct {
		kind        int
		bytes       string
		close       int
		code, words string
	}{
		"progress":  {websocket.TextMessage, `{"type":"progress"}`, protocol.CloseBadMessage, protocol.CodeNotAllowed, "progress came before hello"},
		"no json":   {websocket.TextMessage, `hello`, protocol.CloseBadMessage, protocol.CodeBadMessage, "not JSON"},
		"unknown":   {websocket.TextMessage, `{"type":"helo","id":1}`, protocol.CloseBadMessage, protocol.CodeUnknownType, "helo"},
		"frame":     {websocket.BinaryMessage, string(writes(1, 1, 1, 100)), protocol.CloseBadMessage, protocol.CodeNotAllowed, "a frame came before hello"},
		"bad hello": {websocket.TextMessage, `{"type":"hello","id":1}`, protocol.CloseBadMessage, protocol.CodeBadMessage, "is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			w := dial(t, s)
			if err := w.WriteMessage(tc.kind, []byte(tc.bytes)); err != nil {
				t.Fatal(err)
			}
			w.refused(tc.close, tc.code, tc.words)
		})
	}
	w := dial(t, s)
	h := testHello()
	h.ID, h.Versions = 5, []int{9, 8}
	w.say(h)
	if e := w.hearError(protocol.CodeVersion, "this sidecar speaks protocol version 1, the worker's client offers [9 8]: update the older of the two"); e.Re != 5 {
		t.Fatalf("re %d", e.Re)
	}
	w.closed(protocol.CloseVersion, "this sidecar speaks protocol version 1")
	if len(r.events) != 0 {
		t.Fatal("a connection without hello reached the handler")
	}
}

// Requests that are refused by themselves leave the connection as it was.
func TestRefusedMessages(t *testing.T) {
	s, r := start(t, nil)
	w, _ := worker(t, s, r)
	for text, want := range map[string]protocol.Error{
		`{"type":"hello","id":2,"versions":[1],"client":{"name":"a","version":"b"},"max_frame":1,"credit":{"connection":1,"stream":1}}`: {Re: 2, Code: protocol.CodeNotAllowed, Message: "hello was said before"},
		`{"type":"revoke","id":3,"task":"s/0","epoch":1,"deadline_ms":1,"code":"drain"}`:                                                {Re: 3, Code: protocol.CodeNotAllowed, Message: "only the sidecar sends revoke"},
		`{"type":"zz_find","id":4}`:                              {Re: 4, Code: protocol.CodeUnknownType, Message: "zz_find"},
		`{"type":"waiting","code":"ok"}`:                         {Code: protocol.CodeNotAllowed, Message: "only the sidecar sends waiting"},
		`{"type":"zz_find","optional":true}` + "\n":              {},
		`{"type":"progress","unknown field":[{"is":"ignored"}]}`: {},
	} {
		w.text(text)
		if want.Code == "" {
			continue
		}
		if e := w.hearError(want.Code, want.Message); e.Re != want.Re {
			t.Fatalf("%s: %+v", text, e)
		}
	}
	w.say(protocol.Released{Re: 1, Task: "s/0", Epoch: 1})
	for {
		if m := r.next(t, "message").m; m.Type() == protocol.TypeReleased {
			return
		} else if m.Type() != protocol.TypeProgress {
			t.Fatalf("the handler got %v", m)
		}
	}
}

// What breaks the protocol ends the connection, and the worker reads why.
func TestFatalMessages(t *testing.T) {
	s, r := start(t, func(c *Config) {
		c.MaxControl, c.MaxFrame, c.MaxCommitBytes = 2000, 5000, 6000
		c.Window = protocol.Window{Connection: 20_000, Stream: 10_000}
	})
	broken := func(at int, v byte) []byte {
		b := writes(3, 1, 1, 200)
		b[at] = v
		return b
	}
	large := writes(3, 1, 1, 200)
	binary.LittleEndian.PutUint32(large[36:], 1<<31) // promises 2 GiB
	for name, tc := range map[string]struct {
		text        string
		frames      [][]byte
		close       int
		code, words string
	}{
		"garbage text":      {text: "\x00\xff{", close: 4400, code: "bad_message", words: "not UTF-8"},
		"no json":           {text: "hello?", close: 4400, code: "bad_message", words: "not JSON"},
		"bad answer":        {text: `{"type":"ready","re":"x"}`, close: 4400, code: "bad_message", words: "ready"},
		"large text":        {text: `{"type":"progress","x":"` + strings.Repeat("x", 3000) + `"}`, close: 4413, code: "too_large", words: "a control message of more than 2000 bytes, which is max_control"},
		"empty frame":       {frames: [][]byte{{}}, close: 4400, code: "bad_message", words: "a frame of 0 bytes, its header alone has 48"},
		"short frame":       {frames: [][]byte{make([]byte, 47)}, close: 4400, code: "bad_message", words: "a frame of 47 bytes"},
		"frame version":     {frames: [][]byte{broken(0, 2)}, close: 4400, code: "bad_message", words: "version 2"},
		"frame kind":        {frames: [][]byte{broken(1, 9)}, close: 4400, code: "bad_message", words: "kind 9"},
		"frame flags":       {frames: [][]byte{broken(3, 0x80)}, close: 4400, code: "bad_message", words: "flags"},
		"frame columns":     {frames: [][]byte{broken(48, 7)}, close: 4400, code: "bad_message", words: "lengths"},
		"frame lies":        {frames: [][]byte{large}, close: 4400, code: "bad_message", words: "adds up to"},
		"frame cut short":   {frames: [][]byte{writes(3, 1, 1, 200)[:100]}, close: 4400, code: "bad_message", words: "adds up to"},
		"records frame":     {frames: [][]byte{records(3, 1, 1, 200)}, close: 4400, code: "bad_message", words: "a records frame: the worker sends writes frames only"},
		"large frame":       {frames: [][]byte{writes(3, 1, 1, 6000)}, close: 4413, code: "too_large", words: "a frame of more than 5000 bytes, which is max_frame"},
		"other commit":      {frames: [][]byte{writes(3, 1, 1, 200), writes(3, 1, 2, 200)}, close: 4400, code: "bad_message", words: "a frame of commit 2 came between the frames of commit 1"},
		"other epoch":       {frames: [][]byte{writes(3, 1, 1, 200), writes(4, 2, 1, 200)}, close: 4400, code: "bad_message", words: "a frame of epoch 2 came between the frames of commit 1"},
		"other commit ends": {frames: [][]byte{writes(3, 1, 1, 200)}, text: `{"type":"commit","id":2,"task":"s/0","epoch":1,"source_next":{"t":1}}`, close: 4400, code: "bad_message", words: "commit 2 came between the frames of commit 1"},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := worker(t, s, r)
			c.OpenStream(3, true)
			c.OpenStream(4, true)
			for _, b := range tc.frames {
				w.frame(b)
			}
			if tc.text != "" {
				w.text(tc.text)
			}
			w.refused(tc.close, tc.code, tc.words)
			r.next(t, "disconnected")
		})
	}
}

// Frames that can be no part of a commit are credited and dropped, and the commit carries the reason.
func TestRefusedCommits(t *testing.T) {
	const max = 3000
	s, r := start(t, func(c *Config) { c.MaxCommitBytes = max; c.MaxFrame = max })
	w, c := worker(t, s, r)
	c.OpenStream(1, true)
	c.OpenStream(2, false)
	c.OpenStream(3, true)
	c.CloseStream(1)
	id := int64(0)
	for _, tc := range []struct {
		name   string
		frames func(id int64) [][]byte
		code   string
		words  string // of the error that comes at once; empty: none comes
	}{
		{"whole", func(id int64) [][]byte { return [][]byte{writes(3, 1, id, 500), writes(3, 1, id, 500)} }, "", ""},
		{"none", func(int64) [][]byte { return nil }, "", ""},
		{"never assigned", func(id int64) [][]byte {
			return [][]byte{writes(3, 1, id, 500), writes(9, 1, id, 500), writes(9, 1, id, 500)}
		},
			protocol.CodeUnknownStream, "stream 9 of commit %d was never assigned on this connection"},
		{"read-only", func(id int64) [][]byte { return [][]byte{writes(2, 1, id, 500)} },
			protocol.CodeUndeclaredOutput, "stream 2 of commit %d is read-only"},
		{"too large", func(id int64) [][]byte {
			return [][]byte{writes(3, 1, id, 2000), writes(3, 1, id, 2000), writes(3, 1, id, 2000), writes(3, 1, id, 10)}
		}, protocol.CodeCommitTooLarge, "the writes of commit %d exceed max_commit_bytes, which is 3000"},
		{"stale", func(id int64) [][]byte { return [][]byte{writes(1, 1, id, 500), writes(3, 1, id, 500)} }, protocol.CodeStaleEpoch, ""},
		{"whole again", func(id int64) [][]byte { return [][]byte{writes(3, 1, id, 500)} }, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			id++
			w.t = t
			frames := tc.frames(id)
			for _, b := range frames {
				w.frame(b)
			}
			w.say(commit(id, 1))
			got := r.next(t, "message").writes
			defer c.CommitDone(got)
			if tc.words != "" {
				w.hearError(tc.code, strings.ReplaceAll(tc.words, "%d", fmt.Sprint(id)))
			}
			if tc.code == "" && (got.Err != nil || len(got.Frames) != len(frames)) {
				t.Fatalf("writes %+v", got)
			}
			if tc.code != "" && (got.Err == nil || got.Err.Code != tc.code || got.Frames != nil || got.Bytes != 0) {
				t.Fatalf("writes %+v", got)
			}
		})
	}
	if st := s.Stats(); st.BufferedWrites != 0 {
		t.Fatalf("%d bytes stay buffered", st.BufferedWrites)
	}
}

// A commit that cannot be read ends the connection: were the next one taken, its rows would be lost
// without anybody knowing. So does one whose id was there before: which of the two is answered?
func TestCommitMessageRefused(t *testing.T) {
	s, r := start(t, nil)
	for name, tc := range map[string]struct {
		before []int64
		text   string
		words  string
		re     int64
	}{
		"malformed":  {nil, `{"type":"commit","id":7,"task":"s/0","epoch":1,"source_next":{"t":-1}}`, "source_next", 7},
		"repeated":   {[]int64{7}, `{"type":"commit","id":7,"task":"s/0","epoch":1,"source_next":{"t":1}}`, "commit 7 came after commit 7", 0},
		"going back": {[]int64{3, 7}, `{"type":"commit","id":5,"task":"s/0","epoch":1,"source_next":{"t":1}}`, "commit 5 came after commit 7", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := worker(t, s, r)
			c.OpenStream(3, true)
			for _, id := range tc.before {
				w.say(commit(id, 1))
				r.next(t, "message")
			}
			w.frame(writes(3, 1, 9, 500))
			w.text(tc.text)
			if e := w.hearError(protocol.CodeBadMessage, tc.words); e.Re != tc.re {
				t.Fatalf("re %d", e.Re)
			}
			w.closed(protocol.CloseBadMessage, "")
			r.next(t, "disconnected")
		})
	}
	if st := s.Stats(); st.BufferedWrites != 0 {
		t.Fatalf("%d bytes stay buffered", st.BufferedWrites)
	}
}

func TestNewestWins(t *testing.T) {
	s, r := start(t, nil)
	older, first := worker(t, s, r)
	bad := dial(t, s)
	bad.text("not a hello")
	bad.refused(protocol.CloseBadMessage, protocol.CodeBadMessage, "")
	first.Send(protocol.Waiting{Code: protocol.CodeOk})
	older.hear() // an invalid hello supersedes nobody

	newer := dial(t, s)
	newer.say(testHello())
	if e := r.next(t, "disconnected"); e.conn != first || e.err != ErrSuperseded {
		t.Fatalf("disconnected %v %v", e.conn == first, e.err)
	}
	second := r.next(t, "connected").conn
	older.text(`{"type":"progress"}`) // reaches nobody
	older.refused(protocol.CloseSuperseded, protocol.CodeSuperseded, "a newer worker has connected to this sidecar: run one worker for each sidecar")
	newer.text(`{"type":"progress"}`)
	if e := r.next(t, "message"); e.conn != second {
		t.Fatal("a superseded connection reached the handler")
	}
	if second.ID() == first.ID() {
		t.Fatal("two connections have one name")
	}
}

// A worker that cannot become the worker takes nobody's place.
func TestAWorkerThatIsSentAwaySupersedesNobody(t *testing.T) {
	s, r := start(t, func(c *Config) {
		c.Vet = func(h protocol.Hello) *Refusal {
			switch h.Group {
			case "wrong":
				return &Refusal{Close: protocol.CloseRefused, Code: protocol.CodeBadDeclaration, Message: "not this group"}
			case "late":
				return &Refusal{Close: protocol.CloseDrained, Message: "draining"}
			}
			return nil
		}
	})
	good, c := worker(t, s, r)
	hello := testHello()
	hello.ID, hello.Group = 5, "wrong"
	bad := dial(t, s)
	bad.say(hello)
	if e := bad.hearError(protocol.CodeBadDeclaration, "not this group"); e.Re != 5 {
		t.Fatalf("re %d", e.Re)
	}
	bad.closed(protocol.CloseRefused, "not this group")
	hello.Group = "late"
	late := dial(t, s)
	late.say(hello)
	late.closed(protocol.CloseDrained, "draining")
	good.say(protocol.Progress{})
	if e := r.next(t, "message"); e.conn != c {
		t.Fatal("the worker has changed")
	}
}

// A superseded worker that reads nothing does not hold up the newer one.
func TestNewestWinsOverABlockedWorker(t *testing.T) {
	s, r := start(t, func(c *Config) { c.CloseTimeout = 50 * time.Millisecond })
	h := testHello()
	h.Credit = protocol.Window{Connection: 1 << 30, Stream: 1 << 30}
	_, first := workerWith(t, s, r, h) // reads nothing
	first.OpenStream(1, false)
	g := gate.New(1, first.Credit())
	pump := make(chan error, 1)
	go func() {
		for {
			if err := g.Send(t.Context(), 1, records(1, 1, 0, frame.DefaultTarget)); err != nil {
				pump <- err
				return
			}
		}
	}()
	dial(t, s).say(testHello())
	r.next(t, "disconnected")
	r.next(t, "connected")
	if err := <-pump; err != gate.ErrClosed {
		t.Fatal(err)
	}
}

func TestPongAnswersPing(t *testing.T) {
	s, r := start(t, nil)
	w, c := worker(t, s, r)
	got := make(chan string, 1)
	w.SetPongHandler(func(b string) error { got <- b; c.Send(protocol.Waiting{Code: protocol.CodeOk}); return nil })
	if err := w.WriteControl(websocket.PingMessage, []byte("are you there"), time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	w.hear()
	if b := <-got; b != "are you there" {
		t.Fatalf("pong %q", b)
	}
}
