package fetch

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

const (
	fetchKey = 1
	// byName is the newest version that names topics without tagged fields, byID the first with ids.
	byName = 11
	byID   = 13

	// maxAborted is how many aborted transactions a response may name, for all partitions.
	maxAborted = 1 << 20
)

// asked is one partition of a request, and what was answered for it.
type asked struct {
	seat      *seat
	topic     string
	id        [16]byte
	partition int32
	epoch     int32 // current leader epoch, -1: not known
	offset    int64
	limit     int32 // bytes
	grant     grant // room taken before the request

	answered bool
	code     int16
	high     int64
	stable   int64
	start    int64
	aborted  []aborted
	buf      *buffer // nil: no records
	refused  int     // size of records that were not read for want of room
}

// exchange is one Fetch request without a session. It is used for one request and then dropped.
type exchange struct {
	wait     time.Duration
	maxBytes int
	parts    []asked
	topics   []span // parts by topic
	room     *room

	code   int16 // of the whole response
	names  int   // aborted transactions that it may name yet
	topic  int   // where the next answer is expected
	part   int
	reader wireReader
}

// span is the parts of one topic: parts[from:to].
type span struct{ from, to int }

// newExchange makes a request of parts, which are in the order of their urgency. The parts of a
// topic are brought together; the first part stays first.
func newExchange(parts []asked, room *room) *exchange {
	x := &exchange{room: room, parts: make([]asked, 0, len(parts))}
	type name struct {
		topic string
		id    [16]byte
	}
	index := map[name]int{}
	var groups [][]asked
	for _, p := range parts {
		k := name{p.topic, p.id}
		i, ok := index[k]
		if !ok {
			i = len(groups)
			index[k] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], p)
	}
	for _, g := range groups {
		from := len(x.parts)
		x.parts = append(x.parts, g...)
		x.topics = append(x.topics, span{from, len(x.parts)})
	}
	return x
}

func (x *exchange) Key() int16        { return fetchKey }
func (x *exchange) MinVersion() int16 { return byName }

// MaxVersion is by ids only when all of them are known.
func (x *exchange) MaxVersion() int16 {
	for _, p := range x.parts {
		if p.id == ([16]byte{}) {
			return byName
		}
	}
	return byID
}

func (x *exchange) IsFlexible(version int16) bool { return version >= 12 }

// AppendTo writes the request.
func (x *exchange) AppendTo(b []byte, version int16) []byte {
	be := binary.BigEndian
	b = be.AppendUint32(b, ^uint32(0)) // a consumer, not a replica
	b = be.AppendUint32(b, uint32(x.wait.Milliseconds()))
	b = be.AppendUint32(b, 1) // min bytes
	b = be.AppendUint32(b, uint32(x.maxBytes))
	b = append(b, 1)                   // read_committed
	b = be.AppendUint32(b, 0)          // no session
	b = be.AppendUint32(b, ^uint32(0)) // and no new one
	b = appendCount(b, len(x.topics), version)
	for _, t := range x.topics {
		b = x.appendTopic(b, t, version)
	}
	if version >= 12 {
		return append(b, 1, 1, 0) // nothing forgotten, no rack, no tags
	}
	return append(b, 0, 0, 0, 0, 0, 0)
}

func (x *exchange) appendTopic(b []byte, t span, version int16) []byte {
	be := binary.BigEndian
	first := &x.parts[t.from]
	switch {
	case version >= byID:
		b = append(b, first.id[:]...)
	case version == 12:
		b = binary.AppendUvarint(b, uint64(len(first.topic))+1)
		b = append(b, first.topic...)
	default:
		b = be.AppendUint16(b, uint16(len(first.topic)))
		b = append(b, first.topic...)
	}
	b = appendCount(b, t.to-t.from, version)
	for i := t.from; i < t.to; i++ {
		p := &x.parts[i]
		b = be.AppendUint32(b, uint32(p.partition))
		b = be.AppendUint32(b, uint32(p.epoch))
		b = be.AppendUint64(b, uint64(p.offset))
		if version >= 12 {
			b = be.AppendUint32(b, ^uint32(0)) // last fetched epoch: asked for apart
		}
		b = be.AppendUint64(b, ^uint64(0)) // log start: of replicas only
		b = be.AppendUint32(b, uint32(p.limit))
		if version >= 12 {
			b = append(b, 0)
		}
	}
	if version >= 12 {
		b = append(b, 0)
	}
	return b
}

func appendCount(b []byte, n int, version int16) []byte {
	if version >= 12 {
		return binary.AppendUvarint(b, uint64(n)+1)
	}
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

// drop forgets what was read, for good: the buffers go to the garbage collector.
func (x *exchange) drop() {
	for i := range x.parts {
		p := &x.parts[i]
		if p.buf != nil {
			p.buf.drop()
		}
		p.answered, p.code, p.aborted, p.buf, p.refused = false, 0, nil, nil, 0
	}
	x.code, x.topic, x.part, x.names = 0, 0, 0, maxAborted
}

// release gives back the room that was taken for the request.
func (x *exchange) release() {
	for i := range x.parts {
		x.parts[i].grant.end()
	}
}

// ReadBody parses the response as it streams in. It begins anew when the request was repeated.
func (x *exchange) ReadBody(r io.Reader, size int, version int16) error {
	x.drop()
	w := &x.reader
	*w = wireReader{r: r, left: size, flexible: version >= 12}
	w.skip(4) // throttle time: the broker has waited already
	x.code = int16(w.uint16())
	w.skip(4) // session
	topics := w.count(len(x.topics))
	for range topics {
		t, err := x.readTopic(version)
		if err != nil {
			return err
		}
		parts := w.count(t.to - t.from)
		for range parts {
			if err := x.readPart(t, version); err != nil {
				return err
			}
		}
		w.tags()
		if w.err != nil {
			break
		}
	}
	w.tags()
	if w.err != nil {
		return fmt.Errorf("fetch response v%d: %w", version, w.err)
	}
	return nil
}

// readTopic reads a topic's name or id, and finds which of ours it is.
func (x *exchange) readTopic(version int16) (span, error) {
	w := &x.reader
	var is func(*asked) bool
	if version >= byID {
		id := w.id()
		is = func(p *asked) bool { return p.id == id }
	} else {
		name := w.name()
		is = func(p *asked) bool { return p.topic == name }
	}
	for range x.topics {
		t := x.topics[x.topic%len(x.topics)]
		x.topic++
		if is(&x.parts[t.from]) {
			x.part = t.from
			return t, w.err
		}
	}
	if w.err == nil {
		w.err = errNotAsked
	}
	return span{}, fmt.Errorf("fetch response v%d: topic: %w", version, w.err)
}

// readPart reads one partition's answer.
func (x *exchange) readPart(t span, version int16) error {
	w := &x.reader
	p := x.find(t, int32(w.uint32()))
	if p == nil || p.answered {
		if w.err == nil {
			w.err = errNotAsked
		}
		return fmt.Errorf("fetch response v%d: partition: %w", version, w.err)
	}
	p.answered = true
	p.code = int16(w.uint16())
	p.high, p.stable, p.start = int64(w.uint64()), int64(w.uint64()), int64(w.uint64())
	n := w.count(min(x.names, w.left/16))
	x.names -= n
	for range n {
		p.aborted = append(p.aborted, aborted{int64(w.uint64()), int64(w.uint64())})
		w.tags()
		if w.err != nil {
			break
		}
	}
	w.skip(4) // preferred read replica: only with a rack
	if size := w.size(); size > 0 && w.err == nil {
		x.readRecords(p, size)
	}
	w.tags()
	if w.err != nil {
		return fmt.Errorf("fetch response v%d: %s/%d: %w", version, p.topic, p.partition, w.err)
	}
	return nil
}

// readRecords reads the record bytes straight into a buffer of the partition, when there is room.
func (x *exchange) readRecords(p *asked, size int) {
	w := &x.reader
	p.buf = x.room.buffer(&p.grant, size)
	if p.buf == nil {
		p.refused = size
		w.skip(size)
		return
	}
	w.full(p.buf.b)
}

// find looks for a partition of a topic, first where it is expected.
func (x *exchange) find(t span, partition int32) *asked {
	for range t.to - t.from {
		if x.part >= t.to {
			x.part = t.from
		}
		p := &x.parts[x.part]
		x.part++
		if p.partition == partition {
			return p
		}
	}
	return nil
}
