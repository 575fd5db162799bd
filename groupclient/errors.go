package groupclient

import (
	"fmt"
	"strings"

	"github.com/pillion/pillion/internal/kafka"
)

// rule is what a member does about a code that a coordinator answered.
type rule uint8

const (
	ruleOK              rule = iota
	ruleRetry                // the same request again after a pause
	ruleFindCoordinator      // forget the coordinator, then the same request again
	ruleRejoin               // a new JoinGroup with the same member id, still claiming what is owned
	ruleTakeID               // the same JoinGroup again with the member id of the answer
	ruleNewID                // lost; join as a new member
	ruleLost                 // lost; join again with the same member id
	ruleBackOff              // say why, wait, rejoin: the group's record is too large
	ruleRebalancing          // commits: repeat after the next sync
	ruleFenced               // lost, and another process has our name: fatal
	ruleFatal                // Kafka refuses for good
)

// request is one of the columns of the table.
type request uint8

const (
	onJoin request = iota
	onSync
	onHeartbeat
	onOffsets // OffsetCommit, and OffsetFetch of a take-over
	requests
)

func (r request) String() string {
	return [...]string{"JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit"}[r]
}

// row is what one code means for each request. Hint says what to do about a refusal.
type row struct {
	rules [requests]rule // join, sync, heartbeat, offsets
	hint  string
}

// rules is the one table from the codes of a coordinator to what we do. A code that is not here is
// repeated when Kafka calls it retriable, and fatal otherwise; see ruleOf.
//
// A SyncGroup is never sent to a second coordinator: that one has loaded the generation before, and
// would call ours illegal. A new JoinGroup, still claiming, is always right.
var rules = map[int16]row{
	0:  {rules: [requests]rule{ruleOK, ruleOK, ruleOK, ruleOK}},
	-1: {rules: [requests]rule{ruleRetry, ruleBackOff, ruleRetry, ruleRetry}},
	// UNKNOWN_TOPIC_OR_PARTITION: the coordinator's metadata is behind.
	3: {rules: [requests]rule{ruleFatal, ruleFatal, ruleFatal, ruleRetry}},
	// REQUEST_TIMED_OUT
	7: {rules: [requests]rule{ruleRetry, ruleRejoin, ruleRetry, ruleRetry}},
	12: {rules: [requests]rule{ruleFatal, ruleFatal, ruleFatal, ruleFatal},
		hint: "raise offset.metadata.max.bytes of the brokers to 4096 or more"},
	// COORDINATOR_LOAD_IN_PROGRESS
	14: {rules: [requests]rule{ruleRetry, ruleRejoin, ruleRetry, ruleRetry}},
	// COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
	15: {rules: [requests]rule{ruleFindCoordinator, ruleRejoin, ruleFindCoordinator, ruleFindCoordinator}},
	16: {rules: [requests]rule{ruleFindCoordinator, ruleRejoin, ruleFindCoordinator, ruleFindCoordinator}},
	// ILLEGAL_GENERATION: of a heartbeat it says that a generation was missed.
	22: {rules: [requests]rule{ruleRejoin, ruleRejoin, ruleLost, ruleRebalancing}},
	23: {rules: [requests]rule{ruleFatal, ruleFatal, ruleFatal, ruleFatal},
		hint: "the group is used by other consumers; take another group_id"},
	24: {rules: [requests]rule{ruleFatal, ruleFatal, ruleFatal, ruleFatal}, hint: "take another group_id"},
	// UNKNOWN_MEMBER_ID: the session timed out, or we were removed.
	25: {rules: [requests]rule{ruleNewID, ruleNewID, ruleNewID, ruleLost}},
	26: {rules: [requests]rule{ruleFatal, ruleFatal, ruleFatal, ruleFatal},
		hint: "bring session_timeout between group.min.session.timeout.ms and group.max.session.timeout.ms of the brokers"},
	// REBALANCE_IN_PROGRESS
	27: {rules: [requests]rule{ruleRejoin, ruleRejoin, ruleRejoin, ruleRebalancing}},
	28: {rules: [requests]rule{ruleFatal, ruleFatal, ruleFatal, ruleFatal},
		hint: "the offsets do not fit a record of __consumer_offsets; raise offsets.topic.segment.bytes or its max.message.bytes"},
	// Rights that are missing: kafka.AccessError has the words.
	29: {rules: [requests]rule{ruleFatal, ruleFatal, ruleFatal, ruleFatal}},
	30: {rules: [requests]rule{ruleFatal, ruleFatal, ruleFatal, ruleFatal}},
	35: {rules: [requests]rule{ruleFatal, ruleFatal, ruleFatal, ruleFatal},
		hint: "use Kafka 2.8 or newer"},
	42: {rules: [requests]rule{ruleFatal, ruleFatal, ruleFatal, ruleFatal}},
	// MEMBER_ID_REQUIRED
	79: {rules: [requests]rule{ruleTakeID, ruleNewID, ruleNewID, ruleLost}},
	81: {rules: [requests]rule{ruleFatal, ruleFatal, ruleFatal, ruleFatal},
		hint: "raise group.max.size of the brokers or start fewer workers"},
	// FENCED_INSTANCE_ID
	82: {rules: [requests]rule{ruleFenced, ruleFenced, ruleFenced, ruleLost},
		hint: "another process has joined with the same group_instance_id; give each worker its own"},
	// UNSTABLE_OFFSET_COMMIT: a transaction of the partition is still open.
	88: {rules: [requests]rule{ruleFatal, ruleFatal, ruleFatal, ruleRetry}},
	111: {rules: [requests]rule{ruleFatal, ruleFatal, ruleFatal, ruleFatal},
		hint: "the group uses Kafka's newer group protocol; take another group_id"},
}

// ruleOf looks a code up.
func ruleOf(code int16, on request) rule {
	if row, ok := rules[code]; ok {
		return row.rules[on]
	}
	if kafka.Retriable(&kafka.Error{Code: code}) {
		if on == onSync {
			return ruleRejoin
		}
		return ruleRetry
	}
	return ruleFatal
}

// CodeError is a code that a coordinator answered.
type CodeError struct {
	Code    int16
	Request string
	Group   string
	Hint    string
	Denied  *kafka.AccessError // the right that is missing; nil: it is not that
}

// codeError is an answer to a request that names only the group, and with OffsetCommit the sources.
func (g *Group) codeError(code int16, on request) *CodeError {
	e := &CodeError{Code: code, Request: on.String(), Group: g.cfg.Group, Hint: rules[code].hint}
	name := g.cfg.Group
	if code == topicDenied {
		name = strings.Join(g.sources(), ", ")
	}
	e.Denied = g.client.Denied(code, name, "Read")
	return e
}

// topicDenied is TOPIC_AUTHORIZATION_FAILED.
const topicDenied = 29

// sources are those of all sets that are declared.
func (g *Group) sources() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []string
	if g.want != nil {
		for _, set := range g.want.Sets {
			all = append(all, set.Sources...)
		}
	}
	return all
}

func (e *CodeError) Unwrap() error {
	if e.Denied == nil {
		return nil
	}
	return e.Denied
}

func (e *CodeError) Error() string {
	if e.Denied != nil {
		return e.Denied.Error()
	}
	text := (&kafka.Error{Code: e.Code, What: fmt.Sprintf("%s of group %q", e.Request, e.Group)}).Error()
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}
