//go:build kafka

package groupmodel

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wire makes a request of Kafka.
func (k *onKafka) wire(r Request) kmsg.Request {
	switch r := r.(type) {
	case JoinGroup:
		req := kmsg.NewPtrJoinGroupRequest()
		req.Group, req.MemberID, req.InstanceID, req.ProtocolType = k.group, r.Member, optional(r.Instance), "consumer"
		req.SessionTimeoutMillis = int32(r.Session.Milliseconds())
		req.RebalanceTimeoutMillis = int32(r.Rebalance.Milliseconds())
		protocol := kmsg.NewJoinGroupRequestProtocol()
		protocol.Name, protocol.Metadata = "pillion", []byte(r.Metadata)
		req.Protocols = append(req.Protocols, protocol)
		return req
	case SyncGroup:
		req := kmsg.NewPtrSyncGroupRequest()
		req.Group, req.MemberID, req.InstanceID, req.Generation = k.group, r.Member, optional(r.Instance), r.Generation
		req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("pillion")
		for id, plan := range r.Plan {
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			a.MemberID, a.MemberAssignment = id, []byte(plan)
			req.GroupAssignment = append(req.GroupAssignment, a)
		}
		return req
	case Heartbeat:
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.InstanceID, req.Generation = k.group, r.Member, optional(r.Instance), r.Generation
		return req
	case LeaveGroup:
		req := kmsg.NewPtrLeaveGroupRequest()
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID, m.InstanceID = r.Member, optional(r.Instance)
		req.Group, req.Members = k.group, append(req.Members, m)
		return req
	case DeleteGroup:
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{k.group}
		return req
	default:
		return k.offsetsWire(r)
	}
}

func (k *onKafka) offsetsWire(r Request) kmsg.Request {
	switch r := r.(type) {
	case OffsetCommit:
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.MemberID, req.InstanceID, req.Generation = k.group, r.Member, optional(r.Instance), r.Generation
		for p, o := range r.Offsets {
			rp := kmsg.NewOffsetCommitRequestTopicPartition()
			rp.Partition, rp.Offset, rp.Metadata = p.Index, o.At, &o.Metadata
			rt := kmsg.NewOffsetCommitRequestTopic()
			rt.Topic, rt.Partitions = p.Topic, append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
		}
		return req
	case TxnOffsetCommit:
		req := kmsg.NewPtrTxnOffsetCommitRequest()
		req.TransactionalID = k.group + "-" + r.Transaction
		req.Group, req.MemberID, req.InstanceID, req.Generation = k.group, r.Member, optional(r.Instance), r.Generation
		req.ProducerID, req.ProducerEpoch = k.txns[r.Transaction].id, k.txns[r.Transaction].epoch
		for p, o := range r.Offsets {
			rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
			rp.Partition, rp.Offset, rp.Metadata = p.Index, o.At, &o.Metadata
			rt := kmsg.NewTxnOffsetCommitRequestTopic()
			rt.Topic, rt.Partitions = p.Topic, append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
		}
		return req
	case EndTxn:
		req := kmsg.NewPtrEndTxnRequest()
		req.TransactionalID, req.Commit = k.group+"-"+r.Transaction, r.Commit
		req.ProducerID, req.ProducerEpoch = k.txns[r.Transaction].id, k.txns[r.Transaction].epoch
		return req
	case OffsetFetch:
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group, req.RequireStable = k.group, r.Stable
		for _, p := range r.Partitions {
			rt := kmsg.NewOffsetFetchRequestTopic()
			rt.Topic, rt.Partitions = p.Topic, []int32{p.Index}
			req.Topics = append(req.Topics, rt)
		}
		return req
	}
	panic(fmt.Sprintf("%T", r))
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// answerOf reads what a broker has answered.
func answerOf(resp kmsg.Response) Answer {
	switch resp := resp.(type) {
	case *kmsg.JoinGroupResponse:
		a := Answer{Code: resp.ErrorCode, Member: resp.MemberID, Leader: resp.LeaderID, Generation: resp.Generation, Skip: resp.SkipAssignment}
		for _, m := range resp.Members {
			a.Members = append(a.Members, Joined{m.MemberID, deref(m.InstanceID), string(m.ProtocolMetadata)})
		}
		return a
	case *kmsg.SyncGroupResponse:
		return Answer{Code: resp.ErrorCode, Plan: string(resp.MemberAssignment)}
	case *kmsg.HeartbeatResponse:
		return Answer{Code: resp.ErrorCode}
	case *kmsg.LeaveGroupResponse:
		if len(resp.Members) > 0 && resp.ErrorCode == 0 {
			return Answer{Code: resp.Members[0].ErrorCode}
		}
		return Answer{Code: resp.ErrorCode}
	case *kmsg.DeleteGroupsResponse:
		return Answer{Code: resp.Groups[0].ErrorCode}
	case *kmsg.OffsetCommitResponse:
		return Answer{Code: resp.Topics[0].Partitions[0].ErrorCode}
	case *kmsg.TxnOffsetCommitResponse:
		return Answer{Code: resp.Topics[0].Partitions[0].ErrorCode}
	case *kmsg.EndTxnResponse:
		return Answer{Code: resp.ErrorCode}
	case *kmsg.OffsetFetchResponse:
		p := resp.Topics[0].Partitions[0]
		a := Answer{Code: max(resp.ErrorCode, p.ErrorCode)}
		a.Offsets = map[Partition]Offset{scriptPartition: {p.Offset, deref(p.Metadata)}}
		return a
	}
	panic(fmt.Sprintf("%T", resp))
}
