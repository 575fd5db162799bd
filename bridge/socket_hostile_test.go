package bridge

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/pillion/pillion/protocol"
)

// hijacked is what net/http hands to the upgrade, over a pipe.
type hijacked struct {
	http.ResponseWriter
	conn net.Conn
}

func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}

// accepting takes everything.
type accepting struct{}

func (accepting) Connected(c *Conn, _ protocol.Hello) { c.OpenStream(1, true) }
func (accepting) Message(c *Conn, _ protocol.Message, w *protocol.Writes) {
	if w != nil {
		c.CommitDone(w)
	}
}
func (accepting) Disconnected(*Conn, error) {}

// wsFrame is a frame of a client; its mask is zero.
func wsFrame(head byte, payload []byte) []byte {
	b := []byte{head}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	return append(append(b, 0, 0, 0, 0), payload...)
}

func helloFrame() []byte {
	b, _ := protocol.Encode(testHello())
	return wsFrame(0x81, b)
}

// FuzzSocket: whatever bytes come over an upgraded connection, it ends, nothing panics, and no length
// that they claim is allocated.
func FuzzSocket(f *testing.F) {
	hello := helloFrame()
	f.Add(hello)
	f.Add(append(hello, wsFrame(0x82, writes(1, 1, 1, 100))...))
	f.Add(append(hello, append(wsFrame(0x02, writes(1, 1, 1, 100)[:50]), wsFrame(0x80, writes(1, 1, 1, 100)[50:])...)...)) // in parts
	f.Add(append(hello, wsFrame(0x89, make([]byte, 125))...))
	f.Add(append(hello, wsFrame(0x88, []byte{3, 232})...))
	f.Add(append(hello, 0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)) // 2^63-1 bytes
	f.Add(append(hello, 0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)) // and less than none
	f.Add(append(hello, wsFrame(0xc1, []byte("{}"))...))                                         // a reserved bit
	f.Add(append(hello, 0x81, 2, '{', '}'))                                                      // no mask
	s, err := New(Config{Listen: "127.0.0.1:0", MaxControl: 4000, MaxFrame: 4000, MaxCommitBytes: 5000, MaxBufferedWrites: 6000, CloseTimeout: 50 * time.Millisecond}, accepting{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Close)
	f.Fuzz(func(t *testing.T, in []byte) {
		ours, theirs := net.Pipe()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = s.hosts[0]
		for k, v := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-Websocket-Version": "13",
			"Sec-Websocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-Websocket-Protocol": protocol.Subprotocol} {
			r.Header.Set(k, v)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.ServeHTTP(&hijacked{httptest.NewRecorder(), ours}, r)
		}()
		heard := make(chan struct{})
		go func() {
			defer close(heard)
			_, _ = io.Copy(io.Discard, theirs)
		}()
		_ = theirs.SetWriteDeadline(time.Now().Add(time.Minute))
		_, _ = theirs.Write(in)
		theirs.Close()
		<-done
		<-heard
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > uint64(4<<20+20*len(in)) {
			t.Errorf("%d bytes were allocated for %d", got, len(in))
		}
	})
}
