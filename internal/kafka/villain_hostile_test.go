package kafka

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// villain is a broker that speaks the protocol well, but for what a test makes it say.
type villain struct {
	net.Listener
	requests atomic.Int32
	say      func(a *asking) // a nil answer is the honest one
	serving  sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

// asking is one request, and where its answer goes.
type asking struct {
	key, version int16
	id           int32
	own          bool // of the Transport
	conn         net.Conn
	nth          int32
	told         bool
}

// tell answers with a body; the head is right.
func (a *asking) tell(body []byte) { a.raw(uint32(4+len(body)), uint32(a.id), body) }

// raw answers with a length and an id of its own.
func (a *asking) raw(size, id uint32, body []byte) {
	a.told = true
	_, _ = a.conn.Write(append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, size), id), body...))
}

// drip answers one byte at a time, for ever.
func (a *asking) drip(every time.Duration) {
	a.told = true
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 1<<20), uint32(a.id))
	for i := 0; ; i++ {
		b := byte(0)
		if i < len(head) {
			b = head[i]
		}
		if _, err := a.conn.Write([]byte{b}); err != nil {
			return
		}
		time.Sleep(every)
	}
}

// answer answers with a message.
func (a *asking) answer(resp kmsg.Response) {
	resp.SetVersion(a.version)
	var body []byte
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		body = []byte{0}
	}
	a.tell(resp.AppendTo(body))
}

func newVillain(t testing.TB, say func(a *asking)) *villain {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v := &villain{Listener: l, say: say}
	v.serving.Go(v.accept)
	t.Cleanup(func() {
		l.Close()
		v.mu.Lock()
		for _, c := range v.conns {
			c.Close()
		}
		v.mu.Unlock()
		v.serving.Wait()
	})
	return v
}

func (v *villain) accept() {
	for {
		c, err := v.Accept()
		if err != nil {
			return
		}
		v.mu.Lock()
		v.conns = append(v.conns, c)
		v.mu.Unlock()
		v.serving.Go(func() { v.serve(c) })
	}
}

func (v *villain) serve(c net.Conn) {
	defer c.Close()
	for {
		var head [12]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		be := binary.BigEndian
		if _, err := io.CopyN(io.Discard, c, int64(be.Uint32(head[:]))-8); err != nil {
			return
		}
		a := &asking{key: int16(be.Uint16(head[4:])), version: int16(be.Uint16(head[6:])), id: int32(be.Uint32(head[8:])), conn: c, nth: v.requests.Add(1)}
		a.own = a.id&ours == 0
		if v.say != nil {
			v.say(a)
		}
		if !a.told {
			v.honest(a)
		}
	}
}

// honest gives the answer of a cluster of one broker that has one topic.
func (v *villain) honest(a *asking) {
	port := int32(v.Addr().(*net.TCPAddr).Port)
	switch kmsg.Key(a.key) {
	case kmsg.ApiVersions:
		resp := kmsg.NewPtrApiVersionsResponse()
		for key := range int16(60) {
			if req := kmsg.RequestForKey(key); req != nil {
				k := kmsg.NewApiVersionsResponseApiKey()
				k.ApiKey, k.MaxVersion = key, req.MaxVersion()
				resp.ApiKeys = append(resp.ApiKeys, k)
			}
		}
		a.answer(resp)
	case kmsg.Metadata:
		a.answer(v.metadata())
	case kmsg.FindCoordinator:
		resp := kmsg.NewPtrFindCoordinatorResponse()
		resp.NodeID, resp.Host, resp.Port = 1, "127.0.0.1", port
		a.answer(resp)
	default:
		a.answer(kmsg.ResponseForKey(a.key))
	}
}

func (v *villain) metadata() *kmsg.MetadataResponse {
	resp := kmsg.NewPtrMetadataResponse()
	b := kmsg.NewMetadataResponseBroker()
	b.NodeID, b.Host, b.Port = 1, "127.0.0.1", int32(v.Addr().(*net.TCPAddr).Port)
	resp.Brokers, resp.ControllerID = append(resp.Brokers, b), 1
	topic := kmsg.NewMetadataResponseTopic()
	topic.Topic = kmsg.StringPtr("t")
	p := kmsg.NewMetadataResponseTopicPartition()
	p.Leader = 1
	topic.Partitions = append(topic.Partitions, p)
	resp.Topics = append(resp.Topics, topic)
	return resp
}

func (v *villain) client(t testing.TB, patience time.Duration) *Client {
	t.Helper()
	c, err := New(Config{Bootstrap: []string{v.Addr().String()}, RequestTimeout: patience, DialTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close) // before the villain's
	return c
}
