package fetch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pillion/pillion/internal/kafka"
)

var errOtherID = errors.New("metadata gives another topic id")

// locate finds the partition's leader and takes a seat there, once the log has been found to be the
// one that was read before: its topic id is the same, and it was not cut before the position.
// After a failure it does not rely on what is cached.
func (p *pump) locate(ctx context.Context, failure error) (leadership, *seat, error) {
	id, err := p.identity(ctx, failure != nil)
	if err != nil {
		return nobody, nil, err
	}
	node, epoch, err := p.f.client.Leader(ctx, p.tp)
	if err != nil {
		return nobody, nil, err
	}
	lead := leadership{node, epoch}
	if last := p.pos.LeaderEpoch; last >= 0 {
		endEpoch, end, err := p.f.client.EpochEnd(ctx, p.tp, last)
		if err != nil {
			return lead, nil, err
		}
		if end < p.pos.Next {
			return lead, nil, &TruncatedError{
				Topic: p.Topic, Partition: p.tp.Partition, Position: p.pos.Next, LastEpoch: last, EndEpoch: endEpoch, EndOffset: end,
			}
		}
	}
	return lead, p.f.node(node).sit(p, id, epoch), nil
}

// identity compares the topic's id with the one that was read. Another id must be seen twice, since
// a broker's metadata may be older than what we know.
func (p *pump) identity(ctx context.Context, fresh bool) ([16]byte, error) {
	ask := p.f.client.Topics
	if fresh {
		ask = p.f.client.Refresh
	}
	topics, err := ask(ctx, p.Topic)
	if err != nil {
		return [16]byte{}, err
	}
	t := topics[p.Topic]
	if t.Err != nil {
		return t.ID, t.Err
	}
	if int(p.tp.Partition) >= len(t.Partitions) {
		return t.ID, &kafka.Error{Code: codeUnknownTopic, What: fmt.Sprintf("partition %v", p.tp)}
	}
	none := [16]byte{}
	switch {
	case p.TopicID == none:
		p.TopicID = t.ID
	case t.ID == none || t.ID == p.TopicID:
	case !fresh:
		return p.identity(ctx, true)
	case t.ID == p.otherID:
		return t.ID, &RecreatedError{Topic: p.Topic, Was: p.TopicID, Is: t.ID}
	default:
		p.otherID = t.ID
		return t.ID, fmt.Errorf("topic %s: %w", p.Topic, errOtherID)
	}
	return p.TopicID, nil
}

// judge does what the rule of an error says before the next attempt. It returns the error that the
// partition ends with, or nil when it goes on.
func (p *pump) judge(ctx context.Context, lead leadership, err error) error {
	if errors.Is(err, errReached) {
		return err
	}
	switch classify(err) {
	case fatal:
		return err
	case retry:
		return nil
	case missing:
		if p.unknown.IsZero() {
			p.unknown = time.Now()
		} else if time.Since(p.unknown) >= p.f.cfg.MetadataLag {
			return &UnknownTopicError{Topic: p.Topic, Partition: p.tp.Partition}
		}
	case outOfRange:
		if lead != nobody && p.doubted == lead {
			return p.confirm(ctx)
		}
		p.doubted = lead
	case again:
		if p.corrupt++; p.corrupt > maxCorrupt {
			var bad *CorruptError
			if !errors.As(err, &bad) {
				err = p.at(corrupt("the broker says so: %v", err))
			}
			return err
		}
	}
	p.f.client.ForgetLeader(p.tp)
	return nil
}

// confirm asks for the ends of a log that has been said twice, by the same leader in the same
// epoch, not to hold the position. It returns nil when it does hold it.
func (p *pump) confirm(ctx context.Context) error {
	p.doubted = nobody
	first, err := p.offset(ctx, kafka.Earliest)
	if err != nil {
		return nil // asked again from the beginning
	}
	end, err := p.offset(ctx, kafka.Latest)
	if err != nil || p.pos.Next >= first && p.pos.Next <= end {
		return nil
	}
	return &OutOfRangeError{Topic: p.Topic, Partition: p.tp.Partition, Position: p.pos.Next, LogStart: first, End: end}
}

func (p *pump) offset(ctx context.Context, at int64) (int64, error) {
	found, err := p.f.client.ListOffsets(ctx, at, false, p.tp)
	if err != nil {
		return 0, err
	}
	o := found[p.tp]
	return o.Offset, o.Err
}
