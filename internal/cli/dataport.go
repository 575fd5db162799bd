package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pillion/pillion/bridge"
	"github.com/pillion/pillion/feed"
	"github.com/pillion/pillion/groupclient"
	"github.com/pillion/pillion/internal/gate"
	"github.com/pillion/pillion/internal/ops"
	"github.com/pillion/pillion/produce"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/restore"
	"github.com/pillion/pillion/session"
)

// restorePort is the session's Restorer.
type restorePort struct{ manager *restore.Manager }

func (p restorePort) Start(e session.StartRestore, g *gate.Gate) session.Replay {
	kind := restore.Changelog
	switch e.Table.Kind {
	case protocol.TableSource:
		kind = restore.Source
	case protocol.TableGlobal:
		kind = restore.Global
	}
	return p.manager.Start(restore.Request{
		Task: e.Task.String(), Epoch: e.Epoch, Table: e.Table.Name, Stream: e.Table.Stream,
		Topic: e.Table.Topic, Partition: e.Partition, Kind: kind, Checkpoint: e.Checkpoint,
		End: e.End, Follow: e.Follow, MaxFrame: e.MaxFrame, Gate: g,
	})
}

// restoreEvents turns what a replay tells into events.
type restoreEvents struct{ post func(session.Event) }

func (h restoreEvents) Reached(r restore.Request, _ string, records int64) {
	h.post(session.Reached{Stream: r.Stream, End: r.End, Records: records})
}

func (h restoreEvents) Reset(r restore.Request, code, message string, start int64) {
	h.post(session.ResetNeeded{Stream: r.Stream, Code: code, Message: message, Start: start})
}

func (h restoreEvents) Progress(r restore.Request, p restore.Progress) {
	eta := int64(-1)
	if p.ETA >= 0 {
		eta = p.ETA.Milliseconds()
	}
	h.post(session.ReplayProgress{
		Stream: r.Stream, Records: p.Records, Bytes: p.Bytes, Rate: int64(p.Rate), Remaining: p.Remaining, EtaMS: eta,
		WaitsFor: p.Waits,
	})
}

func (h restoreEvents) Failed(r restore.Request, err error) {
	code, message := streamFault(err)
	h.post(session.StreamFailed{Stream: r.Stream, Code: code, Message: message})
}

// feedPort is the session's Feeder.
type feedPort struct{ manager *feed.Feeder }

func (p feedPort) Start(e session.StartFeed, g *gate.Gate) func() {
	return p.manager.Start(feed.Request{
		Task: e.Task.String(), Epoch: e.Epoch, Topic: e.Source.Topic, Partition: e.Partition,
		TopicID: e.TopicID, Stream: e.Source.Stream, Position: e.Source.Position, MaxFrame: e.MaxFrame, Gate: g,
	})
}

// feedEvents turns what a feed tells into events. A lost position opens the task anew: its take-over
// applies on_lost_position.
type feedEvents struct{ post func(session.Event) }

func (h feedEvents) LostPosition(r feed.Request, message string) {
	h.post(session.StreamFailed{Stream: r.Stream, Code: protocol.CodeLostPosition, Message: message, Reopen: true})
}

func (h feedEvents) Failed(r feed.Request, err error) {
	code, message := streamFault(err)
	h.post(session.StreamFailed{Stream: r.Stream, Code: code, Message: message})
}

// producePort is the session's Producer.
type producePort struct {
	producer     *produce.Producer
	transactions *transactions
	now          func() time.Time
	metrics      *ops.Metrics
}

// Produce writes a commit outside of any transaction.
func (p producePort) Produce(ctx context.Context, writes []session.StreamWrites) (map[string]session.Landed, error) {
	began := p.now()
	result, err := p.producer.Write(ctx, producerWrites(writes))
	p.metrics.Step("produce", began, err)
	if err != nil {
		return nil, writeError(err)
	}
	return p.landed(writes, result), nil
}

// Transact writes a commit and its positions in a transaction.
func (p producePort) Transact(ctx context.Context, task session.TaskID, writes []session.StreamWrites, next map[string]int64) (map[string]session.Landed, error) {
	result, err := p.transactions.transact(ctx, task, producerWrites(writes), next)
	if err != nil {
		return nil, transactError(err)
	}
	return p.landed(writes, result), nil
}

func producerWrites(writes []session.StreamWrites) []produce.Write {
	list := make([]produce.Write, len(writes))
	for i, w := range writes {
		list[i] = produce.Write{Topic: w.Topic, Partition: w.Partition, Changelog: w.Table != "", Head: w.Head, Frames: w.Frames}
	}
	return list
}

// writeError is what became of a commit that is not whole: where nothing says that it is not there, it is not
// known.
func writeError(err error) error {
	var rejected *produce.RejectedError
	if errors.As(err, &rejected) {
		return &session.RefusedError{Code: rejected.Code, Message: rejected.Message}
	}
	unknown := &session.UnknownError{Err: err}
	var doubt *produce.UnknownError
	if errors.As(err, &doubt) {
		unknown.Code, unknown.Ended = doubt.Code, doubt.Ended
	}
	return unknown
}

// transactError: an unknown end goes before whatever is the reason of it. A step of the group that refused the
// positions has ended the transaction, too.
func transactError(err error) error {
	var unknown *produce.UnknownError
	switch {
	case errors.As(err, &unknown):
		return writeError(err)
	case errors.Is(err, produce.ErrGeneration):
		return fmt.Errorf("%w: %w", session.ErrRebalancing, err)
	case errors.Is(err, produce.ErrFenced), errors.Is(err, produce.ErrMembership), errors.Is(err, session.ErrFenced):
		return fmt.Errorf("%w: %w", session.ErrFenced, err)
	case errors.Is(err, groupclient.ErrRebalancing), errors.Is(err, groupclient.ErrLost):
		return groupError(err)
	}
	return writeError(err)
}

// landed is where the writes to tables are, with the checkpoints there.
func (p producePort) landed(writes []session.StreamWrites, result produce.Result) map[string]session.Landed {
	landed := map[string]session.Landed{}
	for _, w := range writes {
		if at, ok := result.Changelogs[w.Topic]; ok && w.Table != "" {
			checkpoint := restore.Checkpoint{TopicID: at.TopicID, Next: at.Next, LeaderEpoch: at.LeaderEpoch, Time: p.now()}
			landed[w.Table] = session.Landed{Checkpoint: checkpoint.String(), Next: at.Next, Foreign: at.Foreign}
		}
	}
	return landed
}

// bridgeEvents turns what the worker says into events. Calls come one at a time.
type bridgeEvents struct {
	runner *session.Runner
	ids    map[*bridge.Conn]session.ConnID
	last   session.ConnID
}

func (h *bridgeEvents) Connected(c *bridge.Conn, hello protocol.Hello) {
	h.last++
	h.ids[c] = h.last
	h.runner.Attach(h.last, c, hello)
}

func (h *bridgeEvents) Message(c *bridge.Conn, m protocol.Message, w *protocol.Writes) {
	if _, ok := m.(protocol.Credit); ok {
		h.runner.Offer(session.Active{Conn: h.ids[c]})
		return
	}
	h.runner.Offer(session.Received{Conn: h.ids[c], Message: m, Writes: w})
}

func (h *bridgeEvents) Disconnected(c *bridge.Conn, err error) {
	h.runner.Post(session.Disconnected{Conn: h.ids[c], Err: err})
	delete(h.ids, c)
}
