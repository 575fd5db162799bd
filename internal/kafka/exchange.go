package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Exchange is a request whose codec the caller owns, for what must not be decoded into objects
// (fetch, produce). It carries the body only; headers, ids and lengths are done here.
//
// The methods are called one after the other, AppendTo and ReadBody again when the request is
// repeated after a lost connection. ReadBody runs on the connection's goroutine and should do
// little more than read: size is the body's length, what it leaves unread is skipped, and its
// error closes the connection, so that an error code of Kafka is not an error here.
type Exchange interface {
	Key() int16
	MinVersion() int16
	MaxVersion() int16
	IsFlexible(version int16) bool
	AppendTo(dst []byte, version int16) []byte
	ReadBody(r io.Reader, size int, version int16) error
}

// maxResponse bounds what a broker (or what we take for one) may make us read. Kafka's own limit
// of a fetch is 55 MiB, and a single record may pass it.
const maxResponse = 512 << 20

var (
	errAbandoned = errors.New("the call has ended")
	longAgo      = time.Unix(1, 0)
)

// call is one try of one request: a message of the Transport that writes and reads itself.
type call struct {
	ctx     context.Context
	x       Exchange
	version int16
	id      int32
	out     []byte

	mu        sync.Mutex
	started   bool
	abandoned bool
	done      chan struct{} // closed when RawExchange has ended, if it ever started
}

var (
	_ protocol.Message      = (*call)(nil)
	_ protocol.RawExchanger = (*call)(nil)
)

func newCall(ctx context.Context, x Exchange, version int16, id int32, clientID string) *call {
	kept, _ := buffers.Get().(*[]byte)
	if kept == nil {
		kept = new([]byte)
	}
	out := appendHeader((*kept)[:0], x.Key(), version, id, clientID, x.IsFlexible(version))
	out = x.AppendTo(out, version)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return &call{ctx: ctx, x: x, version: version, id: id, out: out, done: make(chan struct{})}
}

// buffers keeps those of answered requests; one of a request that failed is dropped.
var buffers sync.Pool

func (c *call) keepBuffer() {
	const most = 4 << 20
	if out := c.out; cap(out) <= most {
		buffers.Put(&out)
	}
}

// appendHeader writes the length (still 0) and request header 1, or 2 with its empty tags.
func appendHeader(dst []byte, key, version int16, id int32, clientID string, flexible bool) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(key))
	dst = binary.BigEndian.AppendUint16(dst, uint16(version))
	dst = binary.BigEndian.AppendUint32(dst, uint32(id))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(clientID)))
	dst = append(dst, clientID...)
	if flexible {
		dst = append(dst, 0)
	}
	return dst
}

// ApiKey and Required make a call a message that the Transport hands the raw connection.
func (c *call) ApiKey() protocol.ApiKey                          { return protocol.ApiKey(c.x.Key()) }
func (c *call) Required(versions map[protocol.ApiKey]int16) bool { return true }

// RawExchange runs on the connection's goroutine. An error makes the Transport close the
// connection, which is what we want of every error here.
func (c *call) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if !c.start() {
		return nil, errAbandoned
	}
	defer close(c.done)

	// The Transport would let a cancelled request wait for its answer, holding the connection and
	// our buffers. We cut it short instead.
	cutting := make(chan struct{})
	stop := context.AfterFunc(c.ctx, func() {
		defer close(cutting)
		if conn, ok := rw.(net.Conn); ok {
			_ = conn.SetDeadline(longAgo)
		}
	})
	err := c.run(rw)
	if !stop() {
		<-cutting
		return nil, c.ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (c *call) start() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started = !c.abandoned
	return c.started
}

// settle is called after RoundTrip returned. From then on nothing of the call is in use: either
// the exchange never begins, or it has ended, promptly because its context has.
func (c *call) settle() {
	c.mu.Lock()
	c.abandoned = true
	started := c.started
	c.mu.Unlock()
	if started {
		<-c.done
	}
}

// begun tells, after settle, whether anything was written.
func (c *call) begun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.started
}

func (c *call) run(rw io.ReadWriter) error {
	NoteTry(c.ctx, c.x.Key())
	if _, err := rw.Write(c.out); err != nil {
		return err
	}
	var head [8]byte
	if _, err := io.ReadFull(rw, head[:]); err != nil {
		return err
	}
	size := int32(binary.BigEndian.Uint32(head[:4]))
	if size < 4 || size > maxResponse {
		return fmt.Errorf("answer of %d bytes: this is not a Kafka broker's", size)
	}
	if id := int32(binary.BigEndian.Uint32(head[4:])); id != c.id {
		return fmt.Errorf("answer to request %d where %d was asked", id, c.id)
	}
	body := &io.LimitedReader{R: rw, N: int64(size) - 4}
	if c.x.IsFlexible(c.version) && c.x.Key() != int16(kmsg.ApiVersions) {
		if err := skipTags(body); err != nil {
			return err
		}
	}
	if err := c.x.ReadBody(body, int(body.N), c.version); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, body)
	return err
}

// skipTags passes over the tagged fields of response header 1.
func skipTags(r *io.LimitedReader) error {
	one := byteReader{r}
	count, err := binary.ReadUvarint(one)
	for ; err == nil && count > 0; count-- {
		if _, err = binary.ReadUvarint(one); err != nil {
			break
		}
		var size uint64
		if size, err = binary.ReadUvarint(one); err != nil {
			break
		}
		if size > uint64(r.N) {
			return io.ErrUnexpectedEOF
		}
		_, err = io.CopyN(io.Discard, r, int64(size))
	}
	if err != nil {
		return fmt.Errorf("tags of an answer's header: %w", err)
	}
	return nil
}

type byteReader struct{ io.Reader }

func (r byteReader) ReadByte() (byte, error) {
	var b [1]byte
	_, err := io.ReadFull(r.Reader, b[:])
	return b[0], err
}

// message makes an Exchange of a kmsg request. The request is touched by the caller's goroutine
// only; the connection's goroutine fills body.
type message struct {
	req     kmsg.Request
	lowest  int16
	highest int16
	body    []byte
	version int16
}

func newMessage(req kmsg.Request) *message {
	lowest, highest := limits(req)
	if v, ok := req.(versioned); ok {
		req = v.Request
	}
	return &message{req: req, lowest: lowest, highest: highest}
}

func (m *message) Key() int16        { return m.req.Key() }
func (m *message) MinVersion() int16 { return m.lowest }
func (m *message) MaxVersion() int16 { return m.highest }

func (m *message) IsFlexible(version int16) bool {
	m.req.SetVersion(version)
	return m.req.IsFlexible()
}

func (m *message) AppendTo(dst []byte, version int16) []byte {
	m.req.SetVersion(version)
	return m.req.AppendTo(dst)
}

// Decoded, an answer takes up to 21 times its bytes, of the worst that a broker can make up. Those that
// hold what members and brokers say of themselves may be larger than those that only acknowledge.
const (
	maxTold  = 32 << 20
	maxAcked = 4 << 20
)

func maxBody(key int16) int {
	switch kmsg.Key(key) {
	case kmsg.Metadata, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.DescribeGroups, kmsg.OffsetFetch:
		return maxTold
	}
	return maxAcked
}

func (m *message) ReadBody(r io.Reader, size int, version int16) error {
	if most := maxBody(m.Key()); size > most {
		return fmt.Errorf("answer of %d bytes, which is more than the %d that are read of it", size, most)
	}
	m.version = version
	m.body = nil
	body := bytes.NewBuffer(make([]byte, 0, min(size, 1<<20))) // grows with what really arrives
	if _, err := io.CopyN(body, r, int64(size)); err != nil {
		return err
	}
	m.body = body.Bytes()
	return nil
}

func (m *message) response() (kmsg.Response, error) {
	resp := m.req.ResponseKind()
	resp.SetVersion(m.version)
	if err := resp.ReadFrom(m.body); err != nil {
		return nil, fmt.Errorf("decoding the answer to %s v%d: %w", kmsg.NameForKey(m.Key()), m.version, err)
	}
	return resp, nil
}
