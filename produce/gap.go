package produce

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol"
)

// gapBytes is how much of a gap is read at a time. A foreign batch is found at its header.
const gapBytes = 1 << 20

// Isolation levels of a fetch.
const (
	uncommitted = 0
	committed   = 1
)

// foreignWrite is records of somebody else where only ours should be.
type foreignWrite struct {
	offset, producer int64
	transactional    bool
}

func (f *foreignWrite) Error() string {
	if f.producer < 0 {
		return fmt.Sprintf("records at offset %d, of a producer without an id", f.offset)
	}
	return fmt.Sprintf("records at offset %d, of producer %d", f.offset, f.producer)
}

// foreign looks for what somebody else has written between two offsets and a reader of committed records
// sees, or may come to see: nil when there is only what we have written, markers, and aborted batches.
func (p *Producer) foreign(ctx context.Context, tp kafka.TopicPartition, from, to int64) (found *foreignWrite, err error) {
	found, err = p.scanGap(ctx, tp, from, to, uncommitted)
	if err == nil && found != nil && found.transactional {
		// The list of what was aborted comes only up to the last stable offset.
		found, err = p.scanGap(ctx, tp, from, to, committed)
	}
	if err != nil {
		return nil, fmt.Errorf("looking for writes of somebody else in %s: %w", tp, err)
	}
	return found, nil
}

func (p *Producer) scanGap(ctx context.Context, tp kafka.TopicPartition, from, to int64, isolation int8) (found *foreignWrite, err error) {
	for attempt := 0; from < to; attempt++ {
		q, err := p.readGap(ctx, tp, from, isolation)
		if err == nil {
			found, next := p.sift(q, from, to, isolation)
			if found != nil {
				return found, nil
			}
			end := q.HighWatermark
			if isolation == committed {
				end = q.LastStableOffset
			}
			switch {
			case next > from:
				from, attempt = next, -1
				continue
			case end >= to: // there is nothing more of it: the rest was compacted away
				return nil, nil
			case isolation == committed:
				return &foreignWrite{offset: end, producer: -1, transactional: true}, nil // not decided yet
			}
			err = fmt.Errorf("nothing can be read at offset %d", from)
		}
		p.cluster.ForgetLeader(tp)
		if final(err) || !kafka.Pause(ctx, attempt) {
			return nil, err
		}
	}
	return nil, nil
}

// readGap fetches raw batches from an offset on.
func (p *Producer) readGap(ctx context.Context, tp kafka.TopicPartition, from int64, isolation int8) (*kmsg.FetchResponseTopicPartition, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.RequestTimeout)
	defer cancel()
	node, _, err := p.cluster.Leader(ctx, tp)
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MinBytes, req.MaxBytes, req.SessionEpoch, req.IsolationLevel = -1, 0, gapBytes, -1, isolation
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = tp.Topic
	q := kmsg.NewFetchRequestTopicPartition()
	q.Partition, q.FetchOffset, q.PartitionMaxBytes, q.CurrentLeaderEpoch = tp.Partition, from, gapBytes, -1
	topic.Partitions = append(topic.Partitions, q)
	req.Topics = append(req.Topics, topic)
	got, err := p.cluster.Do(ctx, node, kafka.Between(req, 11, 12)) // 13 names topics by id
	if err != nil {
		return nil, err
	}
	resp, ok := got.(*kmsg.FetchResponse)
	if !ok {
		return nil, fmt.Errorf("answered with %T", got)
	}
	for _, t := range resp.Topics {
		for i := range t.Partitions {
			if q := &t.Partitions[i]; t.Topic == tp.Topic && q.Partition == tp.Partition {
				if q.ErrorCode != 0 {
					return nil, &kafka.Error{Code: q.ErrorCode, What: "reading " + tp.String()}
				}
				return q, nil
			}
		}
	}
	return nil, fmt.Errorf("reading %s: the answer leaves it out", tp)
}

// sift goes through the headers of batches between two offsets: what somebody else has written, and how
// far it came.
func (p *Producer) sift(q *kmsg.FetchResponseTopicPartition, from, to int64, isolation int8) (found *foreignWrite, next int64) {
	be := binary.BigEndian
	ended := map[int64]int64{} // the last marker of a producer
	for raw := q.RecordBatches; len(raw) >= batchHeader && from < to; {
		base, length := int64(be.Uint64(raw)), int(int32(be.Uint32(raw[atLength:])))
		attributes := be.Uint16(raw[atAttributes:])
		last := base + int64(int32(be.Uint32(raw[atLastDelta:])))
		id := int64(be.Uint64(raw[atProducerID:]))
		if length < batchHeader-atLeaderEpoch || last < base || raw[atMagic] != 2 {
			return &foreignWrite{offset: base, producer: -1}, from // nothing that we understand
		}
		transactional := attributes&attributeTransactional != 0
		switch {
		case last < from || base >= to: // the fetch begins with the batch that holds the offset
		case attributes&attributeControl != 0:
			ended[id] = base
		case p.own.has(id):
		case isolation == committed && transactional && aborted(q.AbortedTransactions, id, base, ended):
		default:
			return &foreignWrite{base, id, transactional}, from
		}
		from = max(from, last+1)
		raw = raw[min(len(raw), atLeaderEpoch+length):]
	}
	return nil, from
}

// aborted says whether a batch is of an aborted transaction: one that began at or before it, and that no
// marker in between has ended.
func aborted(list []kmsg.FetchResponseTopicPartitionAbortedTransaction, id, base int64, ended map[int64]int64) bool {
	marker, any := ended[id]
	for _, a := range list {
		if a.ProducerID == id && a.FirstOffset <= base && (!any || a.FirstOffset > marker) {
			return true
		}
	}
	return false
}

// shrunk explains a changelog that is shorter than it was.
func (p *Producer) shrunk(ctx context.Context, g gap) (code string, err error) {
	topics, err := p.cluster.Refresh(ctx, g.tp.Topic)
	if topic := topics[g.tp.Topic]; err == nil && topic.Err == nil && topic.ID != g.topicID {
		return protocol.CodeRecreated, fmt.Errorf("changelog %q was created anew while it was being written", g.tp.Topic)
	}
	return protocol.CodeTruncated, fmt.Errorf("records of changelog %s/%d before offset %d, acknowledged by Kafka, are gone: the next ones landed at %d",
		g.tp.Topic, g.tp.Partition, g.from, g.to)
}

// checkTails finds the changelogs of a commit that is whole in which somebody else has written before it.
func (p *Producer) checkTails(ctx context.Context, c *commit) map[string]bool {
	foreign := map[string]bool{}
	for _, b := range c.batches {
		if !b.changelog || b.explained {
			continue
		}
		var why error
		if want := b.want(); b.base < want {
			why = fmt.Errorf("offset %d, where it had to land, is not there any more", want)
		} else if found, err := p.foreign(ctx, b.tp, want, b.base); err != nil {
			why = err // whoever reads it anew finds out
		} else if found != nil {
			why = found
		}
		if why != nil {
			foreign[b.tp.Topic] = true
			p.log.Warn("somebody else has written to a changelog", "topic", b.tp.Topic, "partition", b.tp.Partition, "found", why)
		}
	}
	return foreign
}
