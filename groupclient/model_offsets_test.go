package groupclient

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/groupmodel"
	"github.com/pillion/pillion/internal/kafka"
)

// The offsets and topics of the model.

func (m *model) offsetFetch(req *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse {
	m.mu.Lock()
	defer m.mu.Unlock()
	resp := kmsg.NewPtrOffsetFetchResponse()
	for _, topic := range req.Topics {
		rt := kmsg.NewOffsetFetchResponseTopic()
		rt.Topic = topic.Topic
		for _, p := range topic.Partitions {
			rp := kmsg.NewOffsetFetchResponseTopicPartition()
			rp.Partition, rp.Offset = p, -1
			if c, ok := m.offsets[kafka.TopicPartition{Topic: topic.Topic, Partition: p}]; ok {
				rp.Offset, rp.Metadata = c.offset, &c.metadata
			}
			if req.RequireStable && m.unstable(kafka.TopicPartition{Topic: topic.Topic, Partition: p}) {
				rp.Offset, rp.Metadata, rp.ErrorCode = -1, nil, 88
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (m *model) offsetCommit(req *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	a, _ := m.ask(context.Background(), groupmodel.OffsetCommit{
		Member: req.MemberID, Instance: text(req.InstanceID), Generation: req.Generation,
	})
	code := a.Code
	m.mu.Lock()
	defer m.mu.Unlock()
	resp := kmsg.NewPtrOffsetCommitResponse()
	for _, topic := range req.Topics {
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic = topic.Topic
		for _, p := range topic.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, code
			rt.Partitions = append(rt.Partitions, rp)
			if code == 0 && m.accepted != nil {
				m.accepted(kafka.TopicPartition{Topic: topic.Topic, Partition: p.Partition}, req.MemberID, p.Offset, *p.Metadata)
			}
			if code == 0 {
				m.offsets[kafka.TopicPartition{Topic: topic.Topic, Partition: p.Partition}] = committed{p.Offset, *p.Metadata}
			}
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (m *model) Topics(ctx context.Context, names ...string) (map[string]kafka.Topic, error) {
	return m.Refresh(ctx, names...)
}

func (m *model) Refresh(ctx context.Context, names ...string) (map[string]kafka.Topic, error) {
	if err := m.enter(ctx, "Metadata"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.noTopics != nil {
		return nil, m.noTopics
	}
	found := map[string]kafka.Topic{}
	for _, name := range names {
		topic, ok := m.topics[name]
		if !ok {
			topic = kafka.Topic{Name: name, Err: &kafka.Error{Code: 3, What: "topic " + name}}
		}
		found[name] = topic
	}
	return found, nil
}

func (m *model) ListOffsets(ctx context.Context, at int64, committed bool, tps ...kafka.TopicPartition) (map[kafka.TopicPartition]kafka.Offset, error) {
	what := "ListOffsets latest"
	if at == kafka.Earliest {
		what = "ListOffsets earliest"
	}
	if err := m.enter(ctx, what); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[kafka.TopicPartition]kafka.Offset{}
	for _, tp := range tps {
		offset := m.last[tp.Topic]
		if committed {
			offset = m.lastStable(tp.Topic)
		}
		if at == kafka.Earliest {
			offset = m.first[tp.Topic]
		}
		found[tp] = kafka.Offset{Offset: offset, LeaderEpoch: -1}
		if m.noOffset == what+" "+tp.Topic {
			found[tp] = kafka.Offset{Offset: -1, LeaderEpoch: -1, Err: &kafka.Error{Code: 3, What: "listing offsets of " + tp.String()}}
		}
	}
	return found, nil
}
