package kafka

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Places to ask ListOffsets for, beside a timestamp in milliseconds.
const (
	Latest   int64 = -1
	Earliest int64 = -2
)

// Offset is a place in a partition. For a timestamp after the last record it is -1. Err is a code
// that does not pass by itself, or the last one when the context ended.
type Offset struct {
	Offset      int64
	LeaderEpoch int32 // of the record there; -1: not known
	Err         error
}

// ListOffsets finds offsets: one request for each leader, repeated for the partitions whose leader
// changes until the context ends. Latest is the last stable offset if committed, else the high
// watermark. The error is set when not all partitions were answered; their Err says why.
func (c *Client) ListOffsets(ctx context.Context, at int64, committed bool, tps ...TopicPartition) (map[TopicPartition]Offset, error) {
	ctx, end := c.begin(ctx)
	defer end()
	search := &offsetSearch{client: c, at: at, found: make(map[TopicPartition]Offset, len(tps)), open: make(map[TopicPartition]error, len(tps))}
	if committed {
		search.isolation = 1
	}
	for _, tp := range tps {
		search.open[tp] = nil
	}
	for ; len(search.open) > 0; search.attempt++ {
		err := search.round(ctx)
		if err == nil && len(search.open) == 0 {
			break
		}
		if err != nil || !Pause(ctx, search.attempt) {
			return search.give(ctx, err)
		}
	}
	return search.found, nil
}

type offsetSearch struct {
	client    *Client
	at        int64
	isolation int8
	attempt   int

	mu    sync.Mutex
	found map[TopicPartition]Offset
	open  map[TopicPartition]error // not found yet, and the last reason
}

// leading is a partition and the leader epoch to ask under.
type leading struct {
	TopicPartition
	epoch int32
}

// round asks all leaders at once.
func (s *offsetSearch) round(ctx context.Context) error {
	leaders, err := s.leaders(ctx)
	if err != nil {
		return err
	}
	var asking sync.WaitGroup
	for node, tps := range leaders {
		asking.Go(func() { s.ask(ctx, node, tps) })
	}
	asking.Wait()
	return nil
}

// leaders groups the open partitions, and settles those that do not exist.
func (s *offsetSearch) leaders(ctx context.Context) (map[int32][]leading, error) {
	names := make([]string, 0, len(s.open))
	seen := make(map[string]bool, len(s.open))
	for tp := range s.open {
		if !seen[tp.Topic] {
			seen[tp.Topic] = true
			names = append(names, tp.Topic)
		}
	}
	topics, err := s.client.knownTopics(ctx, names)
	if err != nil {
		return nil, err
	}
	leaders := make(map[int32][]leading)
	for tp := range s.open {
		topic := topics[tp.Topic]
		p, err := topic.at(tp.Partition)
		if err == nil {
			leaders[p.Leader] = append(leaders[p.Leader], leading{tp, p.LeaderEpoch})
			continue
		}
		if code, _ := CodeOf(err); code == codeUnknownTopic {
			s.settle(tp, Offset{Offset: -1, LeaderEpoch: -1, Err: err})
			continue
		}
		s.missed(tp, err)
	}
	return leaders, nil
}

func (s *offsetSearch) ask(ctx context.Context, node int32, tps []leading) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, s.isolation
	index := make(map[string]int)
	for _, tp := range tps {
		i, ok := index[tp.Topic]
		if !ok {
			i = len(req.Topics)
			index[tp.Topic] = i
			topic := kmsg.NewListOffsetsRequestTopic()
			topic.Topic = tp.Topic
			req.Topics = append(req.Topics, topic)
		}
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.Timestamp = tp.Partition, tp.epoch, s.at
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	try, cancel := context.WithTimeout(ctx, s.client.quick(s.attempt))
	defer cancel()
	answer, err := s.client.do(try, node, req)
	if err != nil {
		for _, tp := range tps {
			if Retriable(err) {
				s.missed(tp.TopicPartition, err)
			} else {
				s.settle(tp.TopicPartition, Offset{Offset: -1, LeaderEpoch: -1, Err: err})
			}
		}
		return
	}
	for _, topic := range answer.(*kmsg.ListOffsetsResponse).Topics {
		for _, p := range topic.Partitions {
			s.answered(TopicPartition{topic.Topic, p.Partition}, p)
		}
	}
}

func (s *offsetSearch) answered(tp TopicPartition, p kmsg.ListOffsetsResponseTopicPartition) {
	if p.ErrorCode == 0 {
		s.settle(tp, Offset{Offset: p.Offset, LeaderEpoch: p.LeaderEpoch})
		return
	}
	err := s.client.codeError(p.ErrorCode, "listing offsets of "+tp.String(), tp.Topic, "Describe")
	if Retriable(err) {
		s.missed(tp, err)
		return
	}
	s.settle(tp, Offset{Offset: -1, LeaderEpoch: -1, Err: err})
}

func (s *offsetSearch) settle(tp TopicPartition, offset Offset) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, tp)
	s.found[tp] = offset
}

// missed leaves a partition for the next round, with a new look at its leader.
func (s *offsetSearch) missed(tp TopicPartition, err error) {
	s.client.ForgetLeader(tp)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[tp] = err
}

// give returns what was found when the context ended first.
func (s *offsetSearch) give(ctx context.Context, err error) (map[TopicPartition]Offset, error) {
	if err == nil {
		err = context.Cause(ctx)
	}
	example := err
	for tp, last := range s.open {
		if last != nil {
			example = fmt.Errorf("%w: %w", last, err)
		} else {
			last = err
		}
		s.found[tp] = Offset{Offset: -1, LeaderEpoch: -1, Err: last}
	}
	return s.found, fmt.Errorf("listing offsets: %d of %d partitions not answered: %w", len(s.open), len(s.found), example)
}

// EpochEnd asks the leader where a leader epoch ended: the largest epoch up to the given one that
// the leader knows, and the offset after its last record. Both are -1 if it knows none. An end
// below a reader's position means that what it read was truncated.
func (c *Client) EpochEnd(ctx context.Context, tp TopicPartition, leaderEpoch int32) (endEpoch int32, endOffset int64, err error) {
	ctx, end := c.begin(ctx)
	defer end()
	var said error
	for attempt := 0; ; attempt++ {
		node, current, err := c.leader(ctx, tp)
		if err != nil {
			return -1, -1, endOf(ctx, said, err)
		}
		endEpoch, endOffset, err = c.epochEnd(ctx, node, current, tp, leaderEpoch, attempt)
		if err == nil || !Retriable(err) {
			return endEpoch, endOffset, err
		}
		c.ForgetLeader(tp)
		if said = err; !Pause(ctx, attempt) {
			return -1, -1, endOf(ctx, said, err)
		}
	}
}

func (c *Client) epochEnd(ctx context.Context, node, current int32, tp TopicPartition, leaderEpoch int32, attempt int) (int32, int64, error) {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	topic := kmsg.NewOffsetForLeaderEpochRequestTopic()
	topic.Topic = tp.Topic
	p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = tp.Partition, current, leaderEpoch
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)

	try, cancel := context.WithTimeout(ctx, c.quick(attempt))
	defer cancel()
	answer, err := c.do(try, node, req)
	if err != nil {
		return -1, -1, err
	}
	for _, topic := range answer.(*kmsg.OffsetForLeaderEpochResponse).Topics {
		for _, p := range topic.Partitions {
			if topic.Topic != tp.Topic || p.Partition != tp.Partition {
				continue
			}
			if p.ErrorCode != 0 {
				return -1, -1, c.codeError(p.ErrorCode, fmt.Sprintf("finding the end of leader epoch %d of %s", leaderEpoch, tp), tp.Topic, "Describe")
			}
			return p.LeaderEpoch, p.EndOffset, nil
		}
	}
	return -1, -1, fmt.Errorf("the answer about leader epochs of %s does not hold it", tp)
}
