package kafka

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxOwn bounds an answer to the Transport's own requests: what a broker offers, and a list of the
// cluster's brokers without topics. A broker's part of them is some ten or hundred bytes.
const maxOwn = 1 << 20

// ours marks the correlation ids of our own exchanges, so that those of the Transport are told apart.
const ours = 1 << 30

// guard stands between the Transport and a connection. The Transport asks for versions and brokers by
// itself, and allocates arrays by the count that the answer claims: 2^31 brokers are 100 GiB. An
// answer to it is therefore read here first, up to a limit, and handed on only when it holds what it
// claims. Our own exchanges pass; they look for themselves.
//
// INVARIANT: the Transport decodes no answer whose counts were not checked against its bytes.
//
// Like the Transport's connection it is used for one request at a time, from one goroutine.
type guard struct {
	net.Conn
	key, version int16 // of the Transport's request that waits for its answer
	waits        bool
	ready        []byte // of a checked answer, yet to be read
	err          error  // of the answer; the connection is of no use any more
}

// Write notes whose request it is; the Transport and we write each in one piece.
func (g *guard) Write(p []byte) (int, error) {
	if len(p) >= 12 && binary.BigEndian.Uint32(p[8:])&ours == 0 {
		g.key, g.version = int16(binary.BigEndian.Uint16(p[4:])), int16(binary.BigEndian.Uint16(p[6:]))
		g.waits = true
	}
	return g.Conn.Write(p)
}

func (g *guard) Read(p []byte) (int, error) {
	if g.waits {
		g.waits, g.err = false, g.fill()
	}
	if g.err != nil {
		return 0, g.err
	}
	if len(g.ready) > 0 {
		n := copy(p, g.ready)
		g.ready = g.ready[n:]
		return n, nil
	}
	g.ready = nil
	return g.Conn.Read(p)
}

// fill reads a whole answer and looks at it.
func (g *guard) fill() error {
	var head [4]byte
	if n, err := io.ReadFull(g.Conn, head[:]); err != nil {
		return cutOff(n, err)
	}
	size := int32(binary.BigEndian.Uint32(head[:]))
	if isAlert(head[:]) {
		return errAlert
	}
	if size < 4 || size > maxOwn {
		return fmt.Errorf("answer of %d bytes to %s: this is not a Kafka broker's", size, kmsg.NameForKey(g.key))
	}
	all := bytes.NewBuffer(append(make([]byte, 0, 4<<10), head[:]...))
	if n, err := io.CopyN(all, g.Conn, int64(size)); err != nil {
		return cutOff(int(n), err)
	}
	if err := checkOwn(g.key, g.version, all.Bytes()[8:]); err != nil {
		return err
	}
	g.ready = all.Bytes()
	return nil
}

func cutOff(n int, err error) error {
	if n > 0 && err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// checkOwn decodes the body of an answer with a codec that believes no count.
func checkOwn(key, version int16, body []byte) error {
	resp := kmsg.ResponseForKey(key)
	if resp == nil {
		return fmt.Errorf("answer to an unknown request (%d)", key)
	}
	resp.SetVersion(version)
	if resp.IsFlexible() && key != int16(kmsg.ApiVersions) {
		r := bytes.NewReader(body)
		if err := skipTags(&io.LimitedReader{R: r, N: int64(len(body))}); err != nil {
			return err
		}
		body = body[len(body)-r.Len():]
	}
	if err := resp.ReadFrom(body); err != nil {
		return fmt.Errorf("decoding the answer to %s v%d: %w", kmsg.NameForKey(key), version, err)
	}
	return nil
}
