package produce

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol"
)

// position is one of a TxnOffsetCommit, and whose it is.
type position struct {
	offset   int64
	metadata string
	unit     *unit
}

// committer is the member and generation that positions are committed under.
type committer struct {
	member     string
	generation int32
	instance   *string
}

func (p *Positions) committer() committer { return committer{p.Member, p.Generation, p.Instance} }

func (c committer) is(d committer) bool {
	same := c.instance == d.instance || c.instance != nil && d.instance != nil && *c.instance == *d.instance
	return same && c.member == d.member && c.generation == d.generation
}

// commitPositions asks the units for their positions and sends them.
//
// INVARIANT: TxnOffsetCommit is sent when every produce of the transaction is acknowledged, and EndTxn
// is the next request: the group's coordinator says with it that the member was one of the generation
// after all its records were there. This is what fences a zombie.
func (x *transaction) commitPositions(ctx context.Context) {
	under, positions := x.positions()
	if len(positions) == 0 || !x.ok() {
		return
	}
	t := x.t
	what := "committing the positions of group " + t.cfg.Group
	var resp *kmsg.TxnOffsetCommitResponse
	a := t.toGroup(what, func() kmsg.Request { return x.offsetCommit(under, positions) },
		func(r kmsg.Response) int16 {
			resp = r.(*kmsg.TxnOffsetCommitResponse)
			return positionsCode(resp, positions)
		})
	_, code, err := a.until(ctx)
	if a.doubt {
		x.soil(fmt.Errorf("%s was not answered", what))
	}
	if err != nil {
		x.fewer(err)
		return
	}
	x.positionsAnswered(code, what, resp, positions)
}

// fewer fails because the positions were not taken. The coordinator writes them as one batch of its topic:
// those of many tasks with long claims may be more than that takes, which it says with 28 or, in newer
// brokers, as an error that passes. So half of the units share the next transaction, and one more after
// each that was committed.
func (x *transaction) fewer(why error) {
	if n := len(x.units); n > 1 {
		x.t.most = n / 2
	}
	x.fail(why)
}

// positions are those of all units, by partition; a later unit's are newer. Units that disagree about
// the generation: the older ones have to wait for the sync.
func (x *transaction) positions() (under committer, positions map[kafka.TopicPartition]position) {
	all := map[*unit]Positions{}
	newest := int32(-1)
	for _, u := range x.units {
		if u.positions == nil {
			continue
		}
		p, err := u.positions()
		if err != nil {
			x.accuse(u, fmt.Errorf("nothing was written: the positions of the commit: %w", err))
			continue
		}
		all[u] = p
		if p.Generation >= newest {
			newest, under = p.Generation, p.committer()
		}
	}
	positions = map[kafka.TopicPartition]position{}
	for _, u := range x.units {
		p, ok := all[u]
		if !ok {
			continue
		}
		if !p.committer().is(under) {
			x.accuse(u, fmt.Errorf("%w: the commit was of generation %d, another one of %d", ErrGeneration, p.Generation, newest))
			continue
		}
		for topic, offset := range p.Offsets {
			positions[kafka.TopicPartition{Topic: topic, Partition: p.Partition}] = position{offset, p.Metadata, u}
		}
	}
	return under, positions
}

func (x *transaction) offsetCommit(under committer, positions map[kafka.TopicPartition]position) kmsg.Request {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group = x.t.cfg.ID, x.t.cfg.Group
	req.ProducerID, req.ProducerEpoch = x.t.id.id, x.t.id.epoch
	req.MemberID, req.Generation, req.InstanceID = under.member, under.generation, under.instance
	at := map[string]int{}
	for tp, p := range positions {
		i, ok := at[tp.Topic]
		if !ok {
			i = len(req.Topics)
			at[tp.Topic] = i
			topic := kmsg.NewTxnOffsetCommitRequestTopic()
			topic.Topic = tp.Topic
			req.Topics = append(req.Topics, topic)
		}
		q := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		q.Partition, q.Offset, q.LeaderEpoch = tp.Partition, p.offset, -1
		q.Metadata = kmsg.StringPtr(p.metadata)
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, q)
	}
	return req
}

// positionsCode is the code of the whole: the first that is not of one partition alone. A partition that
// the answer leaves out was not answered.
func positionsCode(resp *kmsg.TxnOffsetCommitResponse, positions map[kafka.TopicPartition]position) int16 {
	left := len(positions)
	alone := int16(codeNone)
	for _, t := range resp.Topics {
		for _, q := range t.Partitions {
			if _, ok := positions[kafka.TopicPartition{Topic: t.Topic, Partition: q.Partition}]; ok {
				left--
			}
			switch q.ErrorCode {
			case codeNone:
			case codeUnknownTopic, codeMetadataTooLarge, codeTopicDenied:
				alone = q.ErrorCode
			default:
				return q.ErrorCode
			}
		}
	}
	if left > 0 && alone == codeNone {
		return codeServerError
	}
	return alone
}

func (x *transaction) positionsAnswered(code int16, what string, resp *kmsg.TxnOffsetCommitResponse, positions map[kafka.TopicPartition]position) {
	err := &kafka.Error{Code: code, What: what}
	if code == codeCommitTooLarge && len(x.units) > 1 {
		x.fewer(err)
		return
	}
	switch code {
	case codeNone:
	case codeIllegalGeneration, codeRebalancing:
		x.accuseAll(fmt.Errorf("%w: %w", ErrGeneration, err))
	case codeUnknownMember, codeFencedInstance:
		x.accuseAll(fmt.Errorf("%w: %w", ErrMembership, err))
	case codeOldEpoch, codeProducerFenced, codeInvalidMapping, codeInvalidTxnState, codeAbortable:
		// Whether that means fenced, the coordinator says when the transaction is aborted.
		x.soil(err)
		x.fail(err)
	case codeUnknownTopic, codeMetadataTooLarge, codeTopicDenied:
		for _, t := range resp.Topics {
			for _, q := range t.Partitions {
				p, ok := positions[kafka.TopicPartition{Topic: t.Topic, Partition: q.Partition}]
				if ok && q.ErrorCode != codeNone {
					x.accuse(p.unit, x.t.positionRefused(q.ErrorCode, t.Topic, q.Partition, p))
				}
			}
		}
	case codeTransactionalDenied:
		x.accuseAll(x.t.refusedBy(code, what, x.t.cfg.ID, "Write"))
	default:
		x.accuseAll(x.t.refusedBy(code, what, x.t.cfg.Group, "Read"))
	}
}

// positionRefused is a definite no to the position of one partition, in words.
func (t *Transactions) positionRefused(code int16, topic string, partition int32, p position) *RejectedError {
	what := fmt.Sprintf("committing the position of %s/%d", topic, partition)
	r := t.refusedBy(code, what, topic, "Read")
	switch code {
	case codeUnknownTopic:
		r.Code = protocol.CodeUnknownTopic
		r.Message = fmt.Sprintf("nothing was written: source %s/%d does not exist any more, its position cannot be committed", topic, partition)
	case codeMetadataTooLarge:
		r.Message = fmt.Sprintf("nothing was written: the %d bytes beside the position of %s/%d are more than the brokers allow; raise offset.metadata.max.bytes of the brokers",
			len(p.metadata), topic, partition)
	}
	return r
}
