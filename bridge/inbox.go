package bridge

import (
	"fmt"
	"sync"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// maxRefused is how many commits may be refused while their commit message is still to come.
const maxRefused = 256

// inbox gathers what the worker writes: it accounts credit, knows the streams, and keeps the frames
// of the one commit that is being sent until its commit message comes.
//
// Credit is granted for what is stored or dropped, as long as all buffered bytes (commits under way
// and the one that is being sent) stay within maxBuffered + maxCommit. Past that, grants are
// withheld until CommitDone. This cannot wait for itself: the commit being sent is at most
// maxCommit, so that there is always a commit under way that will end.
type inbox struct {
	maxCommit, maxBuffered int64
	window                 protocol.Window

	mu      sync.Mutex
	conn    incoming
	granted int64 // bytes of conn that were stored or dropped, and not withheld
	streams map[uint32]*incoming
	due     map[uint32]*incoming // streams whose grant is to be announced
	highest uint32               // stream ever opened

	open       *assembly
	refused    map[int64]*protocol.Error // commits whose frames were dropped, until their commit message
	committing map[*protocol.Writes]int64
	buffered   int64
}

// incoming is the account of one stream or of the connection.
type incoming struct {
	received, announced int64
	writable            bool
}

// assembly is the commit whose frames are coming in.
type assembly struct {
	id     int64
	epoch  uint32
	stream uint32 // of the last frame kept
	frames [][]byte
	bytes  int64
	err    *protocol.Error // set: its frames are dropped
}

// verdict is what to tell the worker about a message; a close code ends the connection.
type verdict struct {
	err   *protocol.Error
	close int
	drop  string // why a frame was dropped, for the metrics
}

func closing(closeCode int, code, format string, args ...any) verdict {
	return verdict{err: &protocol.Error{Code: code, Message: fmt.Sprintf(format, args...)}, close: closeCode}
}

func newInbox(c *Config) *inbox {
	return &inbox{
		maxCommit:   c.MaxCommitBytes,
		maxBuffered: c.MaxBufferedWrites,
		window:      c.Window,
		conn:        incoming{announced: c.Window.Connection},
		streams:     map[uint32]*incoming{},
		due:         map[uint32]*incoming{},
		refused:     map[int64]*protocol.Error{},
		committing:  map[*protocol.Writes]int64{},
	}
}

func (in *inbox) openStream(stream uint32, writable bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.highest = max(in.highest, stream)
	if in.streams[stream] == nil {
		in.streams[stream] = &incoming{announced: in.window.Stream, writable: writable}
	}
}

// closeStream ends a stream. The frames of a commit that is being sent on it are dropped at once.
func (in *inbox) closeStream(stream uint32) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.streams, stream)
	delete(in.due, stream)
	if o := in.open; o != nil && o.err == nil && o.stream == stream && len(o.frames) > 0 {
		in.refuseOpen(staleError(stream, o.epoch))
	}
}

// take accounts a checked writes frame and stores it in its commit. The caller has checked h and b.
func (in *inbox) take(h frame.Header, b []byte) verdict {
	in.mu.Lock()
	defer in.mu.Unlock()
	s := in.streams[h.Stream]
	if v := in.account(h.Stream, s, int64(len(b))); v.close != 0 {
		return v
	}
	v := in.store(h, s, b)
	if s != nil && s.received+in.window.Stream-s.announced >= max(1, in.window.Stream/4) {
		in.due[h.Stream] = s
	}
	in.settle()
	return v
}

// account spends the worker's credit. Any positive credit permits one frame.
func (in *inbox) account(stream uint32, s *incoming, n int64) verdict {
	if in.conn.received >= in.conn.announced {
		return closing(protocol.CloseCreditOverrun, protocol.CodeCreditOverrun,
			"a frame of %d bytes was sent when all %d bytes granted to the connection were spent", n, in.conn.announced)
	}
	if s != nil && s.received >= s.announced {
		return closing(protocol.CloseCreditOverrun, protocol.CodeCreditOverrun,
			"a frame of %d bytes was sent when all %d bytes granted to stream %d were spent", n, s.announced, stream)
	}
	in.conn.received += n
	if s != nil {
		s.received += n
	}
	return verdict{}
}

func (in *inbox) store(h frame.Header, s *incoming, b []byte) verdict {
	if v := in.enter(h); v.close != 0 {
		return v
	}
	o := in.open
	if o.err != nil {
		return verdict{drop: dropOf(o.err)}
	}
	err := in.check(h, s, int64(len(b)))
	if err == nil {
		o.frames = append(o.frames, b)
		o.bytes += int64(len(b))
		o.stream = h.Stream
		in.buffered += int64(len(b))
		return verdict{}
	}
	in.refuseOpen(err)
	if err.Code == protocol.CodeStaleEpoch {
		return verdict{drop: dropOf(err)} // the worker learns it from lost and from the answer
	}
	return verdict{err: err, drop: dropOf(err)}
}

func dropOf(err *protocol.Error) string {
	if err.Code == protocol.CodeStaleEpoch {
		return "stale"
	}
	return "refused"
}

// enter makes the frame's commit the open one. Frames of one commit are contiguous.
func (in *inbox) enter(h frame.Header) verdict {
	if o := in.open; o != nil && o.id != h.Base {
		if v := in.leave(fmt.Sprintf("a frame of commit %d", h.Base)); v.close != 0 {
			return v
		}
	}
	if in.open == nil {
		in.open = &assembly{id: h.Base, epoch: h.Epoch, err: in.refused[h.Base]}
		return verdict{}
	}
	if o := in.open; o.epoch != h.Epoch && o.err == nil {
		return closing(protocol.CloseBadMessage, protocol.CodeBadMessage,
			"a frame of epoch %d came between the frames of commit %d, which is of epoch %d: a commit writes for one task", h.Epoch, o.id, o.epoch)
	}
	return verdict{}
}

// leave forgets the open commit because another one came. Only one that is refused anyway may be
// left unfinished; what was refused is remembered until its commit message comes.
func (in *inbox) leave(what string) verdict {
	o := in.open
	if o.err == nil {
		return closing(protocol.CloseBadMessage, protocol.CodeBadMessage,
			"%s came between the frames of commit %d: send the frames of a commit and its commit message without another commit in between", what, o.id)
	}
	in.open = nil
	in.refused[o.id] = o.err
	if len(in.refused) <= maxRefused {
		return verdict{}
	}
	for id, err := range in.refused {
		// The session answers stale by the epoch alone.
		if err.Code == protocol.CodeStaleEpoch {
			delete(in.refused, id)
		}
	}
	if len(in.refused) > maxRefused {
		return closing(protocol.CloseBadMessage, protocol.CodeBadMessage,
			"%d commits were refused and never ended by a commit message", maxRefused)
	}
	return verdict{}
}

// check says why a frame cannot be part of its commit.
func (in *inbox) check(h frame.Header, s *incoming, n int64) *protocol.Error {
	switch {
	case s == nil && h.Stream <= in.highest:
		return staleError(h.Stream, h.Epoch)
	case s == nil:
		return &protocol.Error{Code: protocol.CodeUnknownStream, Stream: h.Stream, Epoch: h.Epoch,
			Message: fmt.Sprintf("stream %d of commit %d was never assigned on this connection: use the streams of assign", h.Stream, h.Base)}
	case !s.writable:
		return &protocol.Error{Code: protocol.CodeUndeclaredOutput, Stream: h.Stream, Epoch: h.Epoch,
			Message: fmt.Sprintf("stream %d of commit %d is read-only: write to changelogs, and to the outputs that hello declares", h.Stream, h.Base)}
	case in.open.bytes+n > in.maxCommit:
		return &protocol.Error{Code: protocol.CodeCommitTooLarge, Stream: h.Stream, Epoch: h.Epoch,
			Message: fmt.Sprintf("the writes of commit %d exceed max_commit_bytes, which is %d: commit more often, or raise it", h.Base, in.maxCommit)}
	}
	return nil
}

func staleError(stream, epoch uint32) *protocol.Error {
	return &protocol.Error{Code: protocol.CodeStaleEpoch, Stream: stream, Epoch: epoch,
		Message: fmt.Sprintf("epoch %d of stream %d is over", epoch, stream)}
}

// refuseOpen drops what the open commit has gathered.
func (in *inbox) refuseOpen(err *protocol.Error) {
	in.buffered -= in.open.bytes
	in.open.frames, in.open.bytes, in.open.err = nil, 0, err
	in.settle()
}

// commit ends the frames of a commit and hands them over. INVARIANT: a commit that lost a frame for
// any reason carries Err, or the connection ends.
func (in *inbox) commit(m protocol.Commit) (*protocol.Writes, verdict) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.open != nil && in.open.id != m.ID {
		if v := in.leave(fmt.Sprintf("commit %d", m.ID)); v.close != 0 {
			return nil, v
		}
	}
	w := &protocol.Writes{ID: m.ID, Err: in.refused[m.ID]}
	delete(in.refused, m.ID)
	o := in.open
	if o == nil {
		return w, verdict{}
	}
	if o.err == nil && o.epoch != m.Epoch {
		in.refuseOpen(&protocol.Error{Code: protocol.CodeBadMessage, Epoch: m.Epoch,
			Message: fmt.Sprintf("commit %d is of epoch %d, its frames are of epoch %d", m.ID, m.Epoch, o.epoch)})
	}
	in.open = nil
	w.Frames, w.Bytes, w.Err = o.frames, o.bytes, o.err
	if o.bytes > 0 {
		in.committing[w] = o.bytes
	}
	return w, verdict{}
}

// done gives the buffer of a commit back; a second call does nothing.
func (in *inbox) done(w *protocol.Writes) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.buffered -= in.committing[w]
	delete(in.committing, w)
	in.settle()
}

// settle grants the connection what is not to be withheld.
func (in *inbox) settle() {
	if in.buffered <= in.maxBuffered+in.maxCommit {
		in.granted = in.conn.received
	}
}

func (in *inbox) connectionDue() bool {
	return in.granted+in.window.Connection-in.conn.announced >= max(1, in.window.Connection/4)
}

// grantDue says whether a credit message is worth sending: a quarter of a window. What is left of
// the window until then is positive, so that nobody waits for the rest.
func (in *inbox) grantDue() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.due) > 0 || in.connectionDue()
}

// grant is the credit message; it announces what is due.
func (in *inbox) grant() (protocol.Credit, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	var m protocol.Credit
	if in.connectionDue() {
		in.conn.announced = in.granted + in.window.Connection
		m.Connection = in.conn.announced
	}
	for id, s := range in.due {
		if m.Streams == nil {
			m.Streams = make(map[uint32]int64, len(in.due))
		}
		s.announced = s.received + in.window.Stream
		m.Streams[id] = s.announced
	}
	clear(in.due)
	return m, m.Connection != 0 || m.Streams != nil
}

func (in *inbox) bufferedBytes() int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.buffered
}
