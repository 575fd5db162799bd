package restore

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/pillion/pillion/internal/fetch"
	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol/frame"
)

// wholeSlack is how much earlier than its response a followed table is said to be whole: longer than
// a response can have been on its way.
const wholeSlack = time.Minute

// maxRechecks is how often a log that refuses a position which was just found good is looked at anew.
const maxRechecks = 3

// replay is one request at work: the sink of its partition.
type replay struct {
	m      *Manager
	r      Request
	ctx    context.Context // until stop, or the end of Run
	cancel context.CancelFunc

	sending chan struct{} // held by whoever sends the next frame
	wake    chan struct{} // buffered: the end may be reached
	over    chan error    // buffered: what Stopped was called with

	meter   meter  // of the request's goroutine
	remove  func() // ends the fetching; nil: nothing is fetched
	builder *frame.Builder

	mu       sync.Mutex
	topicID  [16]byte
	pos      fetch.Position // of the fetcher, once its frames are in the gate's queue
	framed   int64          // the next offset of the last frame in the gate's queue
	end      int64
	again    bool // the end of a source has been captured a second time
	reached  bool
	finish   bool      // FinishAt was called: it ends at its end
	last     int64     // the end that FinishAt has named
	began    time.Time // no later than when the end was captured
	asOf     time.Time // see Checkpoint.Time
	short    time.Time // since when the log ends before the captured end
	held     time.Time // since when an open transaction keeps what follows from being read
	heldAt   int64     // where that is
	lastSent time.Time // of the last frame
	logged   time.Time // when the log heard last of the progress
	sent     bool      // whether there was a frame
	records  int64
	bytes    int64
}

func newReplay(m *Manager, r Request) *replay {
	s := &replay{m: m, r: r, sending: make(chan struct{}, 1), wake: make(chan struct{}, 1), over: make(chan error, 1)}
	s.pos.HighWatermark = -1
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// run is the request's goroutine.
func (s *replay) run(parent context.Context) {
	defer s.cancel()
	defer context.AfterFunc(parent, s.cancel)()
	for recheck := 0; ; recheck++ {
		s.began = time.Now()
		p, err := s.check(s.ctx)
		if s.ctx.Err() != nil {
			return
		}
		if err == nil {
			err = s.replay(p)
		}
		if s.ctx.Err() != nil || ended(err) {
			return
		}
		if !s.sent && recheck < maxRechecks && changed(err) {
			continue // nothing was sent: the log changed between the check and the first fetch
		}
		s.conclude(err)
		return
	}
}

// replay fetches until the request has ended.
func (s *replay) replay(p plan) error {
	s.begin(p)
	if err := s.arrive(); err != nil {
		return err
	}
	if s.isDone() {
		return nil
	}
	until := int64(-1)
	if !s.r.follows() {
		until = p.end
	}
	s.remove = s.m.cfg.Fetcher.Add(fetch.Partition{
		Topic: s.r.Topic, TopicID: p.topicID, Partition: s.r.Partition,
		Offset: p.start, LastEpoch: p.leaderEpoch, Until: until,
		Kind: frame.Restore, Stream: s.r.Stream, Epoch: s.r.Epoch, MaxFrame: s.r.MaxFrame,
		Checkpoint: s.checkpointAt, Sink: s,
	})
	defer s.fetched()
	tick := time.NewTicker(s.m.cfg.ProgressEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case err := <-s.over:
			s.remove = nil
			if err == nil {
				return s.arrive()
			}
			return err
		case <-s.wake:
			err = s.arrive()
		case <-tick.C:
			err = s.tick()
		case <-s.ctx.Done():
			err = s.ctx.Err()
		}
		if err != nil || s.isDone() {
			return err
		}
	}
}

// fetched ends the fetching, if it goes on.
func (s *replay) fetched() {
	if s.remove == nil {
		return
	}
	s.remove()
	<-s.over
	s.remove = nil
}

func (s *replay) begin(p plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.topicID, s.end, s.asOf, s.again = p.topicID, p.end, p.asOf, false
	if s.finish {
		s.end = s.last
	}
	s.pos = fetch.Position{Next: p.start, LeaderEpoch: p.leaderEpoch, HighWatermark: p.high, StableOffset: -1, LogStart: -1}
	s.framed, s.lastSent = p.start, time.Now()
	s.logged = s.lastSent
	s.m.log.Log(worthSaying(s.end > p.start), "restoring", s.fields("offset", p.start, "end", s.end)...)
}

// arrive concludes that the end is reached, if it is. The end of a source is captured again first.
func (s *replay) arrive() error {
	for s.atEnd() {
		if s.r.Kind != Changelog && !s.again {
			captured := time.Now()
			end, err := s.stableEnd()
			if err != nil {
				return err
			}
			s.mu.Lock()
			s.again, s.began, s.end = true, captured, max(s.end, end)
			s.mu.Unlock()
			continue
		}
		last := s.ends()
		if last {
			s.fetched() // INVARIANT: a replay that ends sends nothing after Reached.
		}
		s.reach(last)
	}
	return nil
}

// reach tells that the end is reached, unless FinishAt has named another one meanwhile.
// INVARIANT: a Reached names the end that the position was compared with.
func (s *replay) reach(last bool) {
	s.mu.Lock()
	if last != (s.finish || !s.r.follows()) || s.pos.Next < s.end {
		s.mu.Unlock()
		return
	}
	s.reached = true
	if s.began.After(s.asOf) {
		s.asOf = s.began
	}
	r, records := s.r, s.records
	if s.finish {
		r.End = s.last
	}
	at := s.checkpoint(s.pos.Next, s.pos.LeaderEpoch).String()
	s.m.log.Log(worthSaying(s.sent), "restored", s.fields("offset", s.pos.Next, "records", records)...)
	s.mu.Unlock()
	s.m.cfg.Handler.Reached(r, at, records)
}

func (s *replay) atEnd() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.reached && s.pos.Next >= s.end
}

func (s *replay) isReached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reached
}

// ends says whether the request is over at its end.
func (s *replay) ends() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.finish || !s.r.follows()
}

func (s *replay) isDone() bool { return s.isReached() && s.ends() }

// stableEnd asks for the last stable offset until it is told.
func (s *replay) stableEnd() (int64, error) {
	began := time.Now()
	for attempt := 0; ; attempt++ {
		end, err := s.offset(s.ctx, kafka.Latest, true)
		if err == nil || s.ctx.Err() != nil || !s.passes(err, time.Since(began)) {
			return end, err
		}
		if !kafka.Pause(s.ctx, attempt) {
			return 0, s.ctx.Err()
		}
	}
}

// worthSaying keeps the many tables with nothing to restore out of the usual log.
func worthSaying(yes bool) hclog.Level {
	if yes {
		return hclog.Info
	}
	return hclog.Debug
}

// fields are the log fields of the request, and more.
func (s *replay) fields(more ...any) []any {
	return append([]any{"task", s.r.Task, "table", s.r.Table, "topic", s.r.Topic, "partition", s.r.Partition}, more...)
}
