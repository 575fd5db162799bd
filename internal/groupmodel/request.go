package groupmodel

import "time"

// Codes of Kafka that the model answers.
const (
	OK                    int16 = 0
	CoordinatorLoading    int16 = 14
	CoordinatorAway       int16 = 15
	NotCoordinator        int16 = 16
	IllegalGeneration     int16 = 22
	UnknownMember         int16 = 25
	InvalidSessionTimeout int16 = 26
	Rebalancing           int16 = 27
	NonEmptyGroup         int16 = 68
	GroupNotFound         int16 = 69
	MemberIDRequired      int16 = 79
	GroupFull             int16 = 81
	FencedInstance        int16 = 82
	UnstableOffset        int16 = 88
)

// Token names a request; its answer carries it.
type Token int64

// Request is one of the types below.
type Request any

// Requests of the group protocol. Member is empty for one that has no id yet; Instance for a dynamic one.
type (
	// JoinGroup. KnowsSkip: its version is 9 or later, so that a static leader that comes back is told
	// to skip the plan and not that somebody else leads.
	JoinGroup struct {
		Member, Instance   string
		Session, Rebalance time.Duration
		Metadata           string
		KnowsSkip          bool
	}
	// SyncGroup carries the plan when the leader sends it.
	SyncGroup struct {
		Member, Instance string
		Generation       int32
		Plan             map[string]string
	}
	Heartbeat struct {
		Member, Instance string
		Generation       int32
	}
	// LeaveGroup of one member.
	LeaveGroup struct{ Member, Instance string }
	// OffsetCommit as a member, or with generation -1 from outside.
	OffsetCommit struct {
		Member, Instance string
		Generation       int32
		Offsets          map[Partition]Offset
	}
	// TxnOffsetCommit: the offsets count when the transaction is ended as committed.
	TxnOffsetCommit struct {
		Transaction      string
		Member, Instance string
		Generation       int32
		Offsets          map[Partition]Offset
	}
	// EndTxn ends a transaction.
	EndTxn struct {
		Transaction string
		Commit      bool
	}
	// OffsetFetch; Stable: offsets that an open transaction may still change are answered with 88.
	OffsetFetch struct {
		Partitions []Partition
		Stable     bool
	}
	// DeleteGroup removes an empty group with its offsets.
	DeleteGroup struct{}
)

// Partition of a source topic.
type Partition struct {
	Topic string
	Index int32
}

// Offset is a committed position with the string beside it. At -1: nothing is committed.
type Offset struct {
	At       int64
	Metadata string
}

// Answer is a coordinator's answer. Which fields are set depends on the request and on Code.
type Answer struct {
	To   Token
	Code int16
	// JoinGroup.
	Member, Leader string
	Generation     int32
	Members        []Joined // to the leader only
	Skip           bool     // the leader makes no plan: the old one holds
	// SyncGroup.
	Plan string
	// OffsetFetch.
	Offsets map[Partition]Offset
}

// Joined is a member as the leader is told.
type Joined struct{ ID, Instance, Metadata string }
