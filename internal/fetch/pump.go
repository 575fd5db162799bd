package fetch

import (
	"context"
	"errors"
	"time"

	"github.com/pillion/pillion/internal/kafka"
)

// maxCorrupt is how often bytes that are bad are fetched again before the partition is stopped.
const maxCorrupt = 3

var (
	errRemoved = errors.New("removed")
	errReached = errors.New("reached")
)

// pump reads one partition. All but cancel belongs to the goroutine of main.
type pump struct {
	Partition
	f      *Fetcher
	tp     kafka.TopicPartition
	ctx    context.Context
	cancel context.CancelCauseFunc
	pos    Position

	// The frame that is being built. Its base is the position after the frame before.
	base   int64
	size   int // at most so many bytes so far
	target int // it is cut before it has more than this
	lease  lease
	pool   *decoders // of lease
	cols   *columns  // of lease
	src    []byte    // what cols point into
	buf    *buffer   // the response that is being decoded
	packed bool      // src is decompressed
	stolen bool      // lease is another one than before, and has nothing of src
	aborts abortFilter

	// What the partition has come to since it was read last.
	doubted leadership // who said out of range
	corrupt int        // how often the bytes were bad
	unknown time.Time  // since when the topic has been unknown
	otherID [16]byte   // that metadata gave once
}

// leadership is a leader and its epoch.
type leadership struct{ node, epoch int32 }

var nobody = leadership{-1, -1}

func newPump(f *Fetcher, p Partition) *pump {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &pump{
		Partition: p, f: f, ctx: ctx, cancel: cancel,
		tp:   kafka.TopicPartition{Topic: p.Topic, Partition: p.Partition},
		pos:  Position{Next: p.Offset, LeaderEpoch: p.LastEpoch, HighWatermark: -1, StableOffset: -1, LogStart: -1},
		base: p.Offset, doubted: nobody,
	}
}

// main reads until the end, and tells the sink.
func (p *pump) main(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { p.cancel(ErrStopped) })
	err := p.run(p.ctx)
	cause := context.Cause(p.ctx)
	stop()
	p.cancel(nil)
	p.f.parts.Add(-1)
	var sink *sinkError
	switch {
	case errors.Is(err, errReached), errors.Is(cause, errRemoved):
		err = nil
	case cause != nil:
		err = cause
	case errors.As(err, &sink):
		err = sink.err
	}
	p.Sink.Stopped(err)
}

// run takes a seat, reads until an error ends it, and does what the error's rule says.
func (p *pump) run(ctx context.Context) error {
	if p.reached() {
		return errReached
	}
	var failure error
	for attempt := 0; ; attempt++ {
		lead, s, err := p.locate(ctx, failure)
		if err == nil {
			if failure != nil && attempt > silentAttempts {
				p.f.log.Info("partition is read again", "topic", p.Topic, "partition", p.tp.Partition, "offset", p.pos.Next)
			}
			var answered bool
			answered, err = p.read(ctx, s)
			s.leave()
			if answered {
				attempt = 0
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == errEvicted {
			failure, attempt = nil, -1
			continue
		}
		if end := p.judge(ctx, lead, p.at(err)); end != nil {
			return end
		}
		if failure = err; attempt == silentAttempts {
			p.f.log.Warn("reading a partition is interrupted", "topic", p.Topic, "partition", p.tp.Partition, "offset", p.pos.Next, "error", err)
		}
		if !kafka.Pause(ctx, attempt) {
			return ctx.Err()
		}
	}
}

// silentAttempts is how many attempts fail in silence: a leader that moves costs one or two.
const silentAttempts = 2

// read decodes what comes in at a seat until an error, which may be errReached. It says whether
// anything came in before.
func (p *pump) read(ctx context.Context, s *seat) (answered bool, err error) {
	for {
		c, err := s.next(ctx)
		if err == nil {
			err = c.err
		}
		if err != nil {
			return answered, err
		}
		err = p.chunk(ctx, c)
		s.done(c)
		if err != nil {
			return answered, err
		}
		answered = true
		p.doubted, p.unknown, p.otherID = nobody, time.Time{}, [16]byte{}
		if c.buf != nil {
			p.corrupt = 0
		}
		p.Sink.Progress(p.pos)
		if p.reached() {
			return answered, errReached
		}
	}
}

func (p *pump) reached() bool { return p.Until >= 0 && p.pos.Next >= p.Until }
