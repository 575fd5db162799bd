package cli

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafkatest"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// mangler lies in front of a Kafka and changes its answers to one kind of request.
type mangler struct {
	mu     sync.Mutex
	key    int16
	change func(answer []byte) []byte // nil: none
	asked  int                        // requests of that kind
	first  chan struct{}              // closed when there was one
}

func (m *mangler) set(key kmsg.Key, change func([]byte) []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.key, m.change, m.asked, m.first = int16(key), change, 0, make(chan struct{})
}

func (m *mangler) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked
}

func (m *mangler) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	return &mangledListener{l, m}, err
}

type mangledListener struct {
	net.Listener
	m *mangler
}

func (l *mangledListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &mangled{Conn: c, m: l.m, keys: map[uint32]int16{}}, err
}

// mangled is the broker's side of a connection.
type mangled struct {
	net.Conn
	m       *mangler
	mu      sync.Mutex
	keys    map[uint32]int16 // of requests, by id
	in, out []byte           // what is not whole yet
}

// whole takes the messages that are whole off b.
func whole(b []byte) (messages [][]byte, rest []byte) {
	for len(b) >= 4 && len(b)-4 >= int(binary.BigEndian.Uint32(b)) {
		n := 4 + int(binary.BigEndian.Uint32(b))
		messages, b = append(messages, b[:n]), b[n:]
	}
	return messages, bytes.Clone(b)
}

func (c *mangled) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	var requests [][]byte
	requests, c.in = whole(append(c.in, p[:n]...))
	for _, r := range requests {
		key := int16(binary.BigEndian.Uint16(r[4:]))
		c.keys[binary.BigEndian.Uint32(r[8:])] = key
		c.m.mu.Lock()
		if key == c.m.key {
			if c.m.asked++; c.m.asked == 1 {
				close(c.m.first)
			}
		}
		c.m.mu.Unlock()
	}
	return n, err
}

func (c *mangled) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var answers [][]byte
	answers, c.out = whole(append(c.out, p...))
	for _, a := range answers {
		c.m.mu.Lock()
		if c.m.change != nil && c.keys[binary.BigEndian.Uint32(a[4:])] == c.m.key {
			a = c.m.change(bytes.Clone(a))
		}
		c.m.mu.Unlock()
		delete(c.keys, binary.BigEndian.Uint32(a[4:]))
		if _, err := c.Conn.Write(a); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Whatever a broker answers to any one kind of request, the sidecar does not end, does not ask in a loop,
// takes little memory, and works on when the broker is itself again.
func TestHostileBroker(t *testing.T) {
	m := &mangler{key: -1}
	fake := kafkatest.Fake(t, kfake.NumBrokers(1), kfake.ListenFn(m.listen))
	fake.Topic(t, "in", 2, nil)
	fake.Topic(t, "out", 1, nil)
	fake.Topic(t, "bulk", 1, nil)
	kafkatest.Produce(t, fake.Addrs(), "in", []kafkatest.Record{{Partition: 0, Key: []byte("k"), Value: []byte("v")}, {Partition: 1, Key: []byte("k"), Value: []byte("v")}})
	r := rand.New(rand.NewPCG(3, 4))
	resized := func(a []byte) []byte { binary.BigEndian.PutUint32(a, uint32(len(a)-4)); return a }
	changes := map[string]func(a []byte) []byte{
		"noise": func(a []byte) []byte {
			a = a[:8]
			for range r.IntN(200) {
				a = append(a, byte(r.Uint32()))
			}
			return resized(a)
		},
		"nothing": func(a []byte) []byte { return resized(a[:8]) },
		"large numbers": func(a []byte) []byte {
			for i := 8; i < len(a); i++ {
				a[i] = 0x7f
			}
			return a
		},
		"gigabytes": func(a []byte) []byte { binary.BigEndian.PutUint32(a, 1<<31-1); return a[:8] },
		"bits that fell over": func(a []byte) []byte {
			for range 3 {
				if len(a) > 8 {
					a[8+r.IntN(len(a)-8)] ^= 1 << r.IntN(8)
				}
			}
			return a
		},
	}
	once := func(t *testing.T, url string) {
		p := work(t, url)
		task := p.task("s/0")
		for len(task.records) == 0 {
			p.hear()
			task = p.task("s/0")
		}
		id := p.id()
		p.binary(writes(task.changelog(), task.Epoch, id, []byte("rounds"), "1"))
		p.commit(task, id, task.next)
		hearsOf(p, func(m protocol.Committed) bool { return m.Re == id })
		p.ws.NetConn().Close()
	}
	// A flipped bit of an assignment may be another assignment, which nobody can tell; of records it is told.
	for i, c := range []struct {
		key    kmsg.Key
		change string
	}{
		{kmsg.ApiVersions, "noise"}, {kmsg.Metadata, "nothing"}, {kmsg.FindCoordinator, "large numbers"}, {kmsg.JoinGroup, "gigabytes"},
		{kmsg.SyncGroup, "noise"}, {kmsg.SyncGroup, "large numbers"}, {kmsg.Heartbeat, "noise"}, {kmsg.OffsetFetch, "nothing"}, {kmsg.OffsetCommit, "large numbers"},
		{kmsg.ListOffsets, "gigabytes"}, {kmsg.Fetch, "bits that fell over"}, {kmsg.Produce, "noise"}, {kmsg.InitProducerID, "nothing"},
		{kmsg.EndTxn, "gigabytes"}, {kmsg.OffsetForLeaderEpoch, "large numbers"}, {kmsg.DescribeConfigs, "noise"},
	} {
		key, change := c.key, changes[c.change]
		ok := t.Run(kmsg.NameForKey(int16(key))+" "+c.change, func(t *testing.T) {
			m.set(key, change)
			t.Cleanup(func() { m.set(-1, nil) })
			s := serve(t, fake.Addrs(), "--group-id", fmt.Sprint("surrounded-", i), "--worker-grace", "5m", "--auto-offset-reset", "earliest")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p := dial(t, s.bridge.URL())
			p.say(peerHello())
			heard := make(chan struct{})
			go func() { // answers, so that it comes to fetching, and to commits
				defer close(heard)
				working(p)
			}()
			select {
			case <-m.first:
			case <-time.After(patience):
				t.Fatal("it has not asked")
			}
			const long = time.Second
			time.Sleep(long) // what is counted is what is asked in a time
			asked := m.count()
			m.set(-1, nil)
			runtime.ReadMemStats(&after)
			t.Logf("asked %d times, %d MiB were allocated", asked, (after.TotalAlloc-before.TotalAlloc)>>20)
			if asked > 300 {
				t.Errorf("asked %d times in %v", asked, long)
			}
			if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 512 {
				t.Errorf("%d MiB were allocated", got)
			}
			p.ws.NetConn().Close()
			<-heard
			once(t, s.bridge.URL())
		})
		if !ok {
			return
		}
	}
}

// working is a worker that answers what it can, and commits each frame that it gets, until it is cut off.
func working(p *peer) {
	for {
		kind, b, err := p.ws.ReadMessage()
		if err != nil {
			return
		}
		var say []protocol.Message
		if kind == websocket.BinaryMessage {
			f, err := frame.Parse(b)
			if s := p.streams[f.Stream]; err == nil && s != nil && f.Kind == frame.Records && len(s.task.Tables) > 0 {
				id := p.id()
				_ = p.ws.WriteMessage(websocket.BinaryMessage, writes(s.task.changelog(), s.task.Epoch, id, []byte("rounds"), "0"))
				say = append(say, protocol.Commit{ID: id, Task: s.task.Task, Epoch: s.task.Epoch, SourceNext: map[string]int64{"in": f.Base}})
			}
		} else if m, err := protocol.Decode(b); err == nil {
			switch m := m.(type) {
			case protocol.Assign:
				t := &peerTask{Assign: m}
				points := map[string]*string{}
				for _, s := range m.Sources {
					p.streams[s.Stream] = &peerStream{task: t}
				}
				for _, s := range m.Tables {
					points[s.Name] = nil
				}
				say = append(say, protocol.Opened{Re: m.ID, Task: m.Task, Epoch: m.Epoch, Checkpoints: points})
			case protocol.Restored:
				say = append(say, protocol.Ready{Re: m.ID, Task: m.Task, Epoch: m.Epoch})
			}
		}
		for _, m := range say {
			if b, err := protocol.Encode(m); err == nil {
				_ = p.ws.WriteMessage(websocket.TextMessage, b)
			}
		}
	}
}
