package bridge

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// Config holds the settings of the worker's listener. Validate fills what is zero.
type Config struct {
	Listen         string   // host:port of loopback, or unix:/path
	Token          string   // what the worker must show; empty: nothing, the listener is local anyway
	AllowedOrigins []string // Origin headers that are let in; none by default

	HelloTimeout time.Duration // from the upgrade to a valid hello; default 10s
	WriteTimeout time.Duration // for one message; more than max_processing; 0: never
	CloseTimeout time.Duration // to flush, say goodbye and wait for the peer's; default 5s
	PingInterval time.Duration // default 15s; negative: no pings

	MaxControl        int64 // largest control message; default 1 MiB
	MaxFrame          int64 // largest frame that the worker may send; default MaxCommitBytes
	MaxCommitBytes    int64 // writes frames of one commit; default 16 MiB
	MaxBufferedWrites int64 // writes of commits under way, beside one more whole commit; default 32 MiB
	MaxQueuedData     int64 // frames that wait for the socket; default 4 MiB
	MaxQueuedControl  int64 // control messages that wait for the socket; default 16 MiB

	Window protocol.Window // initial credit of the worker; default 1 MiB each

	// Recycle takes back the memory of a data frame that was written or dropped; may be nil.
	Recycle func(frame []byte)

	// Vet is asked about a worker that has said a well-formed hello, before it takes the place of another;
	// nil: every one may. It must not block.
	Vet func(protocol.Hello) *Refusal

	// Drain hands everything over and says how that went, when it has ended or ctx has; nil: nobody
	// can ask for it here. It is called for each who asks: a second one joins the first.
	Drain func(ctx context.Context) (Drained, error)

	Logger  hclog.Logger
	Metrics Metrics

	headerTimeout time.Duration // for the head of a request; shorter in tests
}

const (
	mib = 1 << 20

	maxWaiting     = 8   // upgraded connections that have not said hello yet
	maxHTTP        = 256 // accepted connections that are not upgraded yet
	maxHeaderBytes = 8 << 10

	// queuedOverhead is what a queued message is counted for beside its bytes.
	queuedOverhead = 128
)

// Refusal sends a worker away: an error in answer to its hello, unless Code is empty, and the close.
type Refusal struct {
	Close         int
	Code, Message string
}

// Validate fills defaults and refuses what cannot work.
func (c *Config) Validate() error {
	if err := checkListen(c.Listen); err != nil {
		return err
	}
	if c.Recycle == nil {
		c.Recycle = func([]byte) {}
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		use   time.Duration
	}{
		{"hello timeout", &c.HelloTimeout, 10 * time.Second},
		{"close timeout", &c.CloseTimeout, 5 * time.Second},
		{"write timeout", &c.WriteTimeout, 0},
		{"header timeout", &c.headerTimeout, 5 * time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.use
		}
		if *d.value < 0 {
			return fmt.Errorf("%s must not be negative, is %v", d.name, *d.value)
		}
	}
	if c.PingInterval == 0 {
		c.PingInterval = 15 * time.Second
	}
	return c.validateSizes()
}

func (c *Config) validateSizes() error {
	for _, s := range []struct {
		name  string
		value *int64
		use   int64
	}{
		{"largest control message", &c.MaxControl, mib},
		{"max_commit_bytes", &c.MaxCommitBytes, 16 * mib},
		{"max buffered writes", &c.MaxBufferedWrites, 32 * mib},
		{"queued data", &c.MaxQueuedData, 4 * mib},
		{"queued control messages", &c.MaxQueuedControl, 16 * mib},
		{"connection window", &c.Window.Connection, mib},
		{"stream window", &c.Window.Stream, mib},
	} {
		if *s.value == 0 {
			*s.value = s.use
		}
		if *s.value < 0 {
			return fmt.Errorf("%s must be more than 0, is %d", s.name, *s.value)
		}
	}
	if c.MaxFrame == 0 {
		c.MaxFrame = c.MaxCommitBytes
	}
	if c.MaxFrame < frame.HeaderSize {
		return fmt.Errorf("largest frame must be at least %d bytes, is %d", frame.HeaderSize, c.MaxFrame)
	}
	return nil
}

// Limits are the sizes for welcome. MaxOutstandingCommits is the session's.
func (c *Config) Limits() protocol.Limits {
	return protocol.Limits{MaxFrame: c.MaxFrame, MaxControl: c.MaxControl, MaxCommitBytes: c.MaxCommitBytes}
}

// MemoryBound is how many bytes the buffers of one worker connection hold at most. A frame to the
// worker that is larger than the usual one comes on top, once.
func (c *Config) MemoryBound() int64 {
	inbound := c.MaxBufferedWrites + c.MaxCommitBytes + c.Window.Connection + c.MaxFrame
	return inbound + max(c.MaxFrame, c.MaxControl) + c.MaxQueuedData + frame.DefaultTarget + c.MaxQueuedControl
}

// Metrics are hooks that count; any may be nil. They are called on the data path: they must be
// cheap and must not block.
type Metrics struct {
	Refused   func(status int)             // a request that was not upgraded
	Connected func()                       // a valid hello
	Closed    func(code int)               // the end of an upgraded connection; 0: without a close code of ours
	Received  func(kind string, bytes int) // "control" or "writes"
	Sent      func(kind string, bytes int) // "control" or "data"
	Dropped   func(kind string, bytes int) // "unsent" (gate closed), "stale" or "refused" (from the worker)
}

func (m *Metrics) refused(status int) {
	if m.Refused != nil {
		m.Refused(status)
	}
}

func (m *Metrics) connected() {
	if m.Connected != nil {
		m.Connected()
	}
}

func (m *Metrics) closed(code int) {
	if m.Closed != nil {
		m.Closed(code)
	}
}

func (m *Metrics) received(kind string, n int) {
	if m.Received != nil {
		m.Received(kind, n)
	}
}

func (m *Metrics) sent(kind string, n int) {
	if m.Sent != nil {
		m.Sent(kind, n)
	}
}

func (m *Metrics) dropped(kind string, n int) {
	if m.Dropped != nil {
		m.Dropped(kind, n)
	}
}
