package produce

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol"
)

// missingFor is how long every broker must say that a topic does not exist until it is believed: a
// broker that has just started does not know its topics yet.
const missingFor = 10 * time.Second

// lane is the queue of one partition. At most one goroutine works on it, and at most one batch of it
// is under way.
type lane struct {
	p  *Producer
	tp kafka.TopicPartition

	epoch atomic.Int32 // of the last commit to it, as a changelog; -1: not known

	mu    sync.Mutex
	queue []*batch
	busy  bool

	// Of the goroutine at work.
	id       identity
	stale    bool      // id must be replaced before anything is stamped
	sequence int32     // of the next batch that is stamped
	next     int64     // the end of the log, as far as this lane knows
	missing  time.Time // since when the topic is not there
	troubled bool      // the last attempts failed, and it is logged
}

func newLane(p *Producer, tp kafka.TopicPartition) *lane {
	l := &lane{p: p, tp: tp, stale: true}
	l.epoch.Store(-1)
	return l
}

// push queues a batch and says whether the caller must start run.
func (l *lane) push(b *batch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, b)
	start := !l.busy
	l.busy = true
	return start
}

// run delivers until the queue is empty.
func (l *lane) run(ctx context.Context) {
	for b := l.head(); b != nil; b = l.pop() {
		l.deliver(ctx, b)
	}
}

func (l *lane) head() *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue[0]
}

// pop takes the head off and returns the next one; nil ends the work.
func (l *lane) pop() *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue[0] = nil
	if l.queue = l.queue[1:]; len(l.queue) == 0 {
		l.queue, l.busy = nil, false
		return nil
	}
	return l.queue[0]
}

// deliver brings one batch to its end. It leaves one in doubt only when ctx ends.
func (l *lane) deliver(ctx context.Context, b *batch) {
	for attempt := 0; ; attempt++ {
		if ctx.Err() != nil {
			b.commit.stop(b)
			return
		}
		if !b.commit.wants(b) {
			return
		}
		o, tried := l.attempt(ctx, b)
		if !tried {
			return
		}
		if l.settle(ctx, b, o) {
			l.recovered()
			return
		}
		if attempt > 0 { // one is nothing: a leader that moved, a coordinator that still loads
			l.trouble(o)
		}
		if !kafka.Pause(ctx, attempt) {
			b.commit.stop(b)
			return
		}
	}
}

// attempt sends the batch once. It has not been tried when its commit was given up meanwhile.
func (l *lane) attempt(ctx context.Context, b *batch) (o outcome, tried bool) {
	bounded, cancel := context.WithTimeout(ctx, l.p.cfg.RequestTimeout)
	defer cancel()
	if l.stale {
		if err := l.renew(bounded); err != nil {
			return beforeSending(err), true
		}
	}
	node, _, err := l.p.cluster.Leader(bounded, l.tp)
	if err != nil {
		return beforeSending(err), true
	}
	if !b.commit.begin(b) {
		return outcome{}, false
	}
	if !b.stamped || b.under != l.id {
		l.stamp(b)
	}
	return l.p.sender(node).send(ctx, b), true
}

// renew takes a producer id that this lane has never used.
func (l *lane) renew(ctx context.Context) error {
	id, err := l.p.identity(ctx, l.id.generation)
	if err != nil {
		return err
	}
	l.id, l.stale, l.sequence = id, false, 0
	return nil
}

// stamp gives the batch its place in the lane's sequence. An earlier request may still be reading
// the old bytes, so that a second stamp is put on a copy.
func (l *lane) stamp(b *batch) {
	if b.stamped {
		b.records = bytes.Clone(b.records)
	}
	stamp(b.records, l.id, l.sequence)
	b.stamped, b.under = true, l.id
}

// settle draws the conclusion from an attempt and says whether the batch has ended.
func (l *lane) settle(ctx context.Context, b *batch, o outcome) bool {
	switch o.verdict {
	case took:
		return l.took(ctx, b, o)
	case again:
		b.commit.retry(b, false)
	case inDoubt:
		b.commit.retry(b, true)
		l.p.cluster.ForgetLeader(l.tp)
	case ask:
		b.commit.retry(b, mayHaveAppended(o.code))
		l.p.cluster.ForgetLeader(l.tp)
		return namesTopic(o.code) && l.gone(ctx, b)
	case newID:
		return l.fenced(b, o)
	case tooLarge, refusal:
		l.p.limits.forget(l.tp.Topic)
		l.refuse(b, codeFor(o), o.err)
		return true
	}
	return false
}

// took ends an acknowledged batch. The end of the log never goes back while this lane's records are
// there: if it did, acknowledged records are gone, and the commit says so.
func (l *lane) took(ctx context.Context, b *batch, o outcome) bool {
	if o.base < 0 && b.changelog {
		end, err := l.end(ctx)
		if err != nil { // it is in Kafka; only where is not known yet
			b.commit.retry(b, true)
			return false
		}
		o.base = end - int64(b.count)
	}
	l.sequence = nextSequence(l.sequence, b.count)
	l.missing = time.Time{}
	if b.changelog {
		if o.base < l.next {
			err := fmt.Errorf("records of changelog %s/%d before offset %d, acknowledged by Kafka, are gone: the next ones landed at %d",
				l.tp.Topic, l.tp.Partition, l.next, o.base)
			l.p.log.Error("acknowledged records are gone", "topic", l.tp.Topic, "partition", l.tp.Partition, "error", err)
			b.commit.spoil(protocol.CodeTruncated, err)
		}
		l.next = o.base + int64(b.count)
		b.explained = l.p.tails.landed(l.tp, b.want(), o.base, b.count)
	}
	b.commit.land(b, o.base)
	return true
}

// end is the high watermark, for a duplicate whose offset the broker has forgotten.
func (l *lane) end(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, l.p.cfg.RequestTimeout)
	defer cancel()
	ends, err := l.p.cluster.ListOffsets(ctx, kafka.Latest, false, l.tp)
	if err != nil {
		return 0, err
	}
	return ends[l.tp].Offset, ends[l.tp].Err
}

// fenced handles a broker that does not go on with the producer id. With an earlier attempt in doubt,
// a new id could double the batch; it ends as unknown then.
func (l *lane) fenced(b *batch, o outcome) bool {
	l.p.log.Warn("the broker does not go on with the producer id; taking a new one",
		"topic", l.tp.Topic, "partition", l.tp.Partition, "error", o.err)
	if b.commit.doubts(b) {
		l.refuse(b, protocol.CodeInternal, o.err)
		return true
	}
	b.commit.retry(b, false)
	l.stale = true
	return false
}

// gone looks whether the topic of a batch is still the one that it was packed for, and ends the batch if
// it is not.
func (l *lane) gone(ctx context.Context, b *batch) bool {
	code, err := l.vanished(ctx, b)
	if err != nil {
		l.refuse(b, code, err)
	}
	return err != nil
}

// vanished looks whether the topic of a batch is still the one that it was packed for. An output goes on
// in a topic that was created anew; a changelog does not.
func (l *lane) vanished(ctx context.Context, b *batch) (code string, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.p.cfg.RequestTimeout)
	defer cancel()
	topics, err := l.p.cluster.Refresh(ctx, l.tp.Topic)
	if err != nil {
		return "", nil
	}
	topic, ok := topics[l.tp.Topic]
	if missing(topic, ok) || topic.Err == nil && int(l.tp.Partition) >= len(topic.Partitions) {
		if l.missing.IsZero() {
			l.missing = time.Now()
		}
		if time.Since(l.missing) < missingFor {
			return "", nil
		}
		what, cure := "topic", "create it, or write to another"
		if b.changelog {
			what, cure = "changelog", "restore it"
		}
		return protocol.CodeUnknownTopic, fmt.Errorf("partition %d of %s %q does not exist any more; %s", l.tp.Partition, what, l.tp.Topic, cure)
	}
	l.missing = time.Time{}
	if topic.Err != nil || topic.ID == b.topicID {
		return "", nil
	}
	if b.changelog {
		l.next = 0
		return protocol.CodeRecreated, fmt.Errorf("changelog %q was created anew while it was being written", l.tp.Topic)
	}
	b.topicID = topic.ID
	return "", nil
}

// refuse ends a batch for good. When an attempt was in doubt, its place in the sequence may be taken
// or not: the lane goes on under a new producer id.
func (l *lane) refuse(b *batch, code string, err error) {
	if b.commit.doubts(b) {
		l.stale = true
	}
	b.commit.refuse(b, code, err)
}

// trouble and recovered log the change of state, once each.
func (l *lane) trouble(o outcome) {
	if l.troubled {
		return
	}
	l.troubled = true
	l.p.log.Warn("a write did not succeed, repeating it", "topic", l.tp.Topic, "partition", l.tp.Partition, "error", o.err)
}

func (l *lane) recovered() {
	if l.troubled {
		l.troubled = false
		l.p.log.Info("writes succeed again", "topic", l.tp.Topic, "partition", l.tp.Partition)
	}
}
