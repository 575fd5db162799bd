package produce

import (
	"context"
	"fmt"
	"time"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/protocol/frame"
)

// visit takes a record that was checked. bound is what it takes in a batch at most.
type visit func(t *target, partition int32, r frame.Record, bound int) error

// scan parses and checks every record of the commit and shows each with its partition. Nothing has
// been sent when it fails. The errors are *RejectedError, and those of visit.
func (p *Producer) scan(ctx context.Context, writes []Write, visit visit) error {
	return p.scanTo(ctx, writes, map[string]int32{}, visit)
}

// scanTo is scan for records without a key that go where sticky says; what it does not say is added.
func (p *Producer) scanTo(ctx context.Context, writes []Write, sticky map[string]int32, visit visit) error {
	targets := map[string]*target{}
	now := time.Now().UnixMilli()
	for _, w := range writes {
		t := targets[w.Topic]
		if t == nil {
			var err error
			if t, err = p.target(ctx, w.Topic); err != nil {
				return err
			}
			targets[w.Topic] = t
			if _, known := sticky[w.Topic]; !known {
				sticky[w.Topic] = t.live[p.spread.Add(1)%uint32(len(t.live))]
			}
		}
		if w.Partition >= t.partitions {
			return &RejectedError{
				Code:    protocol.CodeUnknownTopic,
				Message: fmt.Sprintf("partition %d of topic %q does not exist, it has %d", w.Partition, w.Topic, t.partitions),
			}
		}
		s := scanner{write: w, target: t, sticky: sticky[w.Topic], now: now, visit: visit}
		if err := s.frames(); err != nil {
			return err
		}
	}
	return nil
}

// scanner goes through the frames of one Write.
type scanner struct {
	write  Write
	target *target
	sticky int32
	now    int64
	visit  visit
}

func (s *scanner) frames() error {
	for i, b := range s.write.Frames {
		f, err := frame.Parse(b)
		if err != nil {
			return s.bad("frame %d to topic %q: %v", i, s.write.Topic, err)
		}
		if f.Kind != frame.Writes {
			return s.bad("frame %d to topic %q is a %s frame; a commit has writes frames only", i, s.write.Topic, f.Kind)
		}
		f.Records(func(r frame.Record) bool {
			err = s.record(r)
			return err == nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *scanner) bad(format string, args ...any) error {
	return &RejectedError{Code: protocol.CodeBadMessage, Message: fmt.Sprintf(format, args...)}
}

func (s *scanner) record(r frame.Record) error {
	if r.Key == nil && s.write.Changelog {
		return &RejectedError{
			Code:    protocol.CodeNullKey,
			Message: fmt.Sprintf("a record without a key for changelog %q: a table's rows have keys", s.write.Topic),
		}
	}
	switch {
	case r.Timestamp == frame.NoTimestamp:
		r.Timestamp = s.now
	case r.Timestamp < 0:
		return s.bad("a record for topic %q has timestamp %d", s.write.Topic, r.Timestamp)
	}
	bound := recordSize(r)
	if batchHeader+bound > s.target.limit {
		body := recordBody(0, 0, r)
		if size := batchHeader + varintSize(int64(body)) + body; size > s.target.limit {
			return &RejectedError{
				Code: protocol.CodeRecordTooLarge,
				Message: fmt.Sprintf("a record for topic %q takes %d bytes, the topic allows %d; make it smaller or raise %s of the topic",
					s.write.Topic, size, s.target.limit, limitKey),
			}
		}
	}
	return s.visit(s.target, s.partition(r.Key), r, bound)
}

func (s *scanner) partition(key []byte) int32 {
	switch {
	case s.write.Partition >= 0:
		return s.write.Partition
	case key == nil:
		return s.sticky
	}
	return KeyPartition(key, s.target.partitions)
}

// plan checks a commit and packs it into batches, each of one partition, in order.
func (p *Producer) plan(ctx context.Context, writes []Write) (*commit, error) {
	k := newPacking(p)
	defer k.release()
	k.commit.sticky = map[string]int32{}
	if err := k.pack(ctx, writes, k.commit.sticky); err != nil {
		return nil, err
	}
	return k.commit, k.flushAll()
}

func newPacking(p *Producer) *packing {
	return &packing{
		p: p, commit: newCommit(), open: map[kafka.TopicPartition]*packer{}, last: map[kafka.TopicPartition]*batch{},
		changelogs: map[string]bool{}, heads: map[string]int64{},
	}
}

// pack adds the records of writes.
func (k *packing) pack(ctx context.Context, writes []Write, sticky map[string]int32) error {
	for _, w := range writes {
		k.changelogs[w.Topic] = w.Changelog
		if _, known := k.heads[w.Topic]; !known {
			k.heads[w.Topic] = w.Head
		}
	}
	return k.p.scanTo(ctx, writes, sticky, k.add)
}

// packing holds the batch under construction of each partition.
type packing struct {
	p          *Producer
	commit     *commit
	open       map[kafka.TopicPartition]*packer
	order      []kafka.TopicPartition
	changelogs map[string]bool
	heads      map[string]int64
	last       map[kafka.TopicPartition]*batch
	hot        *packer // of hotAt: most records go where the one before went
	hotAt      kafka.TopicPartition
}

func (k *packing) add(t *target, partition int32, r frame.Record, bound int) error {
	tp := kafka.TopicPartition{Topic: t.name, Partition: partition}
	pk := k.hot
	if pk == nil || tp != k.hotAt {
		if pk = k.open[tp]; pk == nil {
			pk = k.p.packers.Get().(*packer)
			pk.reset()
			pk.topicID = t.id
			k.open[tp] = pk
			k.order = append(k.order, tp)
		}
		k.hot, k.hotAt = pk, tp
	}
	if pk.count > 0 && pk.size()+bound > min(k.p.cfg.MaxBatchBytes, t.limit) {
		if err := k.flush(tp, pk); err != nil {
			return err
		}
	}
	pk.add(r, r.Timestamp)
	return nil
}

func (k *packing) flush(tp kafka.TopicPartition, pk *packer) error {
	records, err := pk.finish(k.p.codec)
	if err != nil {
		return &RejectedError{Code: protocol.CodeInternal, Message: err.Error(), Err: err}
	}
	b := &batch{
		tp: tp, topicID: pk.topicID, changelog: k.changelogs[tp.Topic], records: records, count: pk.count,
		before: k.last[tp], head: k.heads[tp.Topic],
	}
	k.last[tp] = b
	k.commit.add(b)
	pk.reset()
	return nil
}

func (k *packing) flushAll() error {
	for _, tp := range k.order {
		if pk := k.open[tp]; pk.count > 0 {
			if err := k.flush(tp, pk); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k *packing) release() {
	for _, pk := range k.open {
		if cap(pk.buf) <= 2*k.p.cfg.MaxBatchBytes {
			k.p.packers.Put(pk)
		}
	}
}
