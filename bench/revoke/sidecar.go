package main

import (
	"context"
	"errors"
	"sync"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"

	"github.com/pillion/pillion/bridge"
	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
	"github.com/pillion/pillion/session"
)

// sidecar is bridge and session. It is every port of the session, too: a group that does as we say,
// tables that are whole at once, and feeds that never end.
type sidecar struct {
	server *bridge.Server
	runner *session.Runner
	parts  *errgroup.Group
	cancel context.CancelFunc
	feeds  sync.WaitGroup

	generation int32
	gone       chan []session.TaskID
	joined     chan struct{}
}

func startSidecar(ctx context.Context) (*sidecar, error) {
	s := &sidecar{gone: make(chan []session.TaskID, 1), joined: make(chan struct{}, 1)}
	cfg := bridge.Config{Listen: "127.0.0.1:0", Logger: hclog.NewNullLogger()}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	var err error
	if s.runner, err = session.NewRunner(session.Config{
		Group: "bench", Version: "bench", WorkerGrace: longest, RevokeTimeout: longest, DrainTimeout: longest,
		Limits: cfg.Limits(), Credit: cfg.Window,
	}, hclog.NewNullLogger()); err != nil {
		return nil, err
	}
	if s.server, err = bridge.New(cfg, &events{runner: s.runner, ids: map[*bridge.Conn]session.ConnID{}}); err != nil {
		return nil, err
	}
	ctx, s.cancel = context.WithCancel(ctx)
	s.parts, ctx = errgroup.WithContext(ctx)
	s.parts.Go(func() error { return s.server.Run(ctx) })
	s.parts.Go(func() error {
		return s.runner.Run(ctx, session.Ports{Group: s, Restorer: tables{s}, Feeder: records{s}, Producer: s})
	})
	return s, nil
}

func (s *sidecar) stop() error {
	s.cancel()
	err := s.parts.Wait()
	s.feeds.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (s *sidecar) all() []int {
	list := make([]int, *tasks)
	for i := range list {
		list[i] = i
	}
	return list
}

// give is a sync that assigns exactly these tasks.
func (s *sidecar) give(list ...int) {
	s.generation++
	ev := session.Assigned{Generation: s.generation, MemberID: "bench"}
	for _, i := range list {
		ev.Active = append(ev.Active, session.TaskID{Set: "s", Partition: int32(i)})
	}
	if s.generation == 1 {
		<-s.joined
	}
	s.runner.Post(ev)
}

// take is a sync that assigns all but one.
func (s *sidecar) take(task int) {
	list := s.all()
	s.give(append(list[:task], list[task+1:]...)...)
}

func (s *sidecar) released() error {
	_, err := wait(s.gone, nil, "the release")
	return err
}

func (s *sidecar) Prepare(_ context.Context, group string, _ protocol.Hello) (session.Prepared, error) {
	return session.Prepared{Group: group, Sets: []session.PreparedSet{{
		Name: "s", Sources: []string{"in"}, Partitions: int32(*tasks),
		Tables: []session.PreparedTable{{Name: "t", Topic: "t", Kind: protocol.TableChangelog}},
	}}}, nil
}

func (s *sidecar) Join(session.Prepared)       { s.joined <- struct{}{} }
func (s *sidecar) Release(t []session.TaskID)  { s.gone <- t }
func (s *sidecar) Drain()                      {}
func (s *sidecar) Leave(context.Context) error { return nil }
func (s *sidecar) TakeOver(context.Context, session.TaskID) (session.TakeOver, error) {
	return session.TakeOver{Positions: map[string]int64{"in": 0}, Ends: map[string]int64{"t": 0}}, nil
}
func (s *sidecar) Confirm(context.Context, session.TaskID) error                  { return nil }
func (s *sidecar) Commit(context.Context, session.TaskID, map[string]int64) error { return nil }
func (s *sidecar) CommitReleased(context.Context, session.TaskID, map[string]int64) error {
	return nil
}
func (s *sidecar) Produce(context.Context, []session.StreamWrites) (map[string]session.Landed, error) {
	return nil, nil
}

func (s *sidecar) Transact(context.Context, session.TaskID, []session.StreamWrites, map[string]int64) (map[string]session.Landed, error) {
	return nil, nil
}

// tables are whole at once.
type tables struct{ *sidecar }

func (s tables) Start(e session.StartRestore, _ *gate.Gate) session.Replay {
	s.runner.Post(session.Reached{Stream: e.Table.Stream})
	return wholeTable{}
}

type wholeTable struct{}

func (wholeTable) Stop()          {}
func (wholeTable) FinishAt(int64) {}
func (wholeTable) Records() int64 { return 0 }
func (wholeTable) Lag() int64     { return 0 }

// records never end.
type records struct{ *sidecar }

func (s records) Start(e session.StartFeed, g *gate.Gate) func() {
	ctx, stop := context.WithCancel(context.Background())
	s.feeds.Go(func() {
		b := frame.NewBuilder(frame.Records)
		value := make([]byte, *size)
		for at := e.Source.Position; ; at++ {
			b.Reset(e.Source.Stream, e.Epoch, at)
			b.Append(at, 0, []byte("k"), value, nil)
			if g.Send(ctx, e.Source.Stream, b.Finish(nil, at+1, nil)) != nil {
				return
			}
		}
	})
	return stop
}

// events hands on what the worker says, as internal/cli does.
type events struct {
	runner *session.Runner
	ids    map[*bridge.Conn]session.ConnID
	last   session.ConnID
}

func (h *events) Connected(c *bridge.Conn, hello protocol.Hello) {
	h.last++
	h.ids[c] = h.last
	h.runner.Attach(h.last, c, hello)
}

func (h *events) Message(c *bridge.Conn, m protocol.Message, w *protocol.Writes) {
	if _, ok := m.(protocol.Credit); ok {
		h.runner.Offer(session.Active{Conn: h.ids[c]})
		return
	}
	h.runner.Offer(session.Received{Conn: h.ids[c], Message: m, Writes: w})
}

func (h *events) Disconnected(c *bridge.Conn, err error) {
	h.runner.Post(session.Disconnected{Conn: h.ids[c], Err: err})
	delete(h.ids, c)
}
