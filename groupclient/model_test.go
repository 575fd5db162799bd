package groupclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/groupmodel"
	"github.com/pillion/pillion/internal/kafka"
)

// model is a Kafka in memory for tests on a fake clock: the group is that of groupmodel, with timers; offsets
// and topics are here. It is a client by itself, and can be told to answer anything.
type model struct {
	mu       sync.Mutex
	group    *groupmodel.Coordinator
	timer    *time.Timer
	token    groupmodel.Token
	waiting  map[groupmodel.Token]chan groupmodel.Answer
	offsets  map[kafka.TopicPartition]committed
	topics   map[string]kafka.Topic
	first    map[string]int64
	last     map[string]int64
	node     int32
	down     error                                // every request fails with it, when set
	silent   bool                                 // no request is answered
	noTopics error                                // metadata fails with it, when set
	noOffset string                               // ListOffsets that has an error in place of an offset, with its topic
	answer   func(req kmsg.Request) kmsg.Response // before the model; nil: not handled
	accepted func(tp kafka.TopicPartition, member string, offset int64, metadata string)
	hang     func(node int32, req kmsg.Request) bool
	seen     []string // requests, in order of arrival
	joins    [][]byte // metadata of each JoinGroup with a member id

	txns   map[string]*txn // by transactional id
	inits  []string        // transactional ids of InitProducerId, in order of arrival
	denied bool            // nobody may initialise
	hold   bool            // markers are held back

	initHook func(id string)                            // hears of each InitProducerId; may be nil
	marked   func(tp kafka.TopicPartition, c committed) // hears of offsets of transactions that are committed; may be nil
}

func newModel() *model {
	return &model{
		group: groupmodel.New(groupmodel.Config{}), waiting: map[groupmodel.Token]chan groupmodel.Answer{},
		offsets: map[kafka.TopicPartition]committed{}, topics: map[string]kafka.Topic{},
		first: map[string]int64{}, last: map[string]int64{}, node: 1, txns: map[string]*txn{},
	}
}

func (m *model) topic(name string, partitions int, id byte) {
	t := kafka.Topic{Name: name, ID: [16]byte{id}, Partitions: make([]kafka.Partition, partitions)}
	m.topics[name] = t
}

var errDown = fmt.Errorf("no broker here: %w", kafka.ErrUnreachable)

// enter notes a request and says whether it fails.
func (m *model) enter(ctx context.Context, what string) error {
	m.mu.Lock()
	m.seen = append(m.seen, what)
	down, silent := m.down, m.silent
	m.mu.Unlock()
	if silent {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", errDown, ctx.Err())
	}
	if down != nil {
		return down
	}
	return ctx.Err()
}

func (m *model) requests() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.seen)
}

func (m *model) count(what string) int {
	n := 0
	for _, seen := range m.requests() {
		if seen == what {
			n++
		}
	}
	return n
}

func (m *model) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func (m *model) Coordinator(ctx context.Context, _ kafka.CoordinatorKind, _ string) (int32, error) {
	m.mu.Lock()
	node, down, silent := m.node, m.down, m.silent
	m.mu.Unlock()
	if silent {
		<-ctx.Done()
		return -1, fmt.Errorf("%w: %w", errDown, ctx.Err())
	}
	return node, down
}

func (m *model) ForgetCoordinator(kafka.CoordinatorKind, string) {}

func (m *model) Denied(code int16, name, operation string) *kafka.AccessError {
	if code == 53 || code == 30 || code == 29 {
		return &kafka.AccessError{Code: code, Principal: "User:model", Resource: "thing", Name: name, Operation: operation}
	}
	return nil
}

func (m *model) ToGroup(ctx context.Context, _ string, req kmsg.Request) (kmsg.Response, error) {
	return m.Do(ctx, 0, req)
}

func (m *model) ToTransaction(ctx context.Context, id string, req kmsg.Request) (kmsg.Response, error) {
	return m.Do(ctx, 0, req)
}

func (m *model) Do(ctx context.Context, node int32, req kmsg.Request) (kmsg.Response, error) {
	what := kmsg.NameForKey(req.Key())
	if fetch, ok := req.(*kmsg.OffsetFetchRequest); ok && fetch.RequireStable {
		what += " stable"
	}
	if err := m.enter(ctx, what); err != nil {
		return nil, err
	}
	m.mu.Lock()
	handle, hang := m.answer, m.hang
	m.mu.Unlock()
	if hang != nil && hang(node, req) {
		<-ctx.Done()
		return nil, fmt.Errorf("%w: %w", errDown, ctx.Err())
	}
	if handle != nil {
		if resp := handle(req); resp != nil {
			return resp, nil
		}
	}
	switch req := req.(type) {
	case *kmsg.OffsetFetchRequest:
		return m.offsetFetch(req), nil
	case *kmsg.OffsetCommitRequest:
		return m.offsetCommit(req), nil
	case *kmsg.InitProducerIDRequest:
		m.mu.Lock()
		defer m.mu.Unlock()
		return initResponse(m.initialise(*req.TransactionalID)), nil
	}
	return m.ofGroup(ctx, req)
}

// ofGroup asks the coordinator.
func (m *model) ofGroup(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	switch req := req.(type) {
	case *kmsg.JoinGroupRequest:
		join := groupmodel.JoinGroup{
			Member: req.MemberID, Instance: text(req.InstanceID), Metadata: string(req.Protocols[0].Metadata), KnowsSkip: true,
			Session:   time.Duration(req.SessionTimeoutMillis) * time.Millisecond,
			Rebalance: time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond,
		}
		if req.MemberID != "" {
			m.set(func() { m.joins = append(m.joins, req.Protocols[0].Metadata) })
		}
		a, err := m.ask(ctx, join)
		return joinResponse(a), err
	case *kmsg.SyncGroupRequest:
		sync := groupmodel.SyncGroup{Member: req.MemberID, Instance: text(req.InstanceID), Generation: req.Generation, Plan: map[string]string{}}
		for _, a := range req.GroupAssignment {
			sync.Plan[a.MemberID] = string(a.MemberAssignment)
		}
		a, err := m.ask(ctx, sync)
		resp := kmsg.NewPtrSyncGroupResponse()
		resp.ErrorCode, resp.MemberAssignment = a.Code, []byte(a.Plan)
		return resp, err
	case *kmsg.HeartbeatRequest:
		a, err := m.ask(ctx, groupmodel.Heartbeat{Member: req.MemberID, Instance: text(req.InstanceID), Generation: req.Generation})
		resp := kmsg.NewPtrHeartbeatResponse()
		resp.ErrorCode = a.Code
		return resp, err
	case *kmsg.LeaveGroupRequest:
		a, err := m.ask(ctx, groupmodel.LeaveGroup{Member: req.Members[0].MemberID, Instance: text(req.Members[0].InstanceID)})
		resp := kmsg.NewPtrLeaveGroupResponse()
		member := kmsg.NewLeaveGroupResponseMember()
		member.MemberID, member.ErrorCode = req.Members[0].MemberID, a.Code
		resp.Members = append(resp.Members, member)
		return resp, err
	}
	return nil, errors.New("the model does not know " + kmsg.NameForKey(req.Key()))
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func joinResponse(a groupmodel.Answer) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.ErrorCode, resp.MemberID, resp.LeaderID = a.Code, a.Member, a.Leader
	resp.Generation, resp.SkipAssignment = a.Generation, a.Skip
	for _, member := range a.Members {
		rm := kmsg.NewJoinGroupResponseMember()
		rm.MemberID, rm.ProtocolMetadata = member.ID, []byte(member.Metadata)
		if member.Instance != "" {
			rm.InstanceID = &member.Instance
		}
		resp.Members = append(resp.Members, rm)
	}
	return resp
}

// ask waits for the coordinator's answer.
func (m *model) ask(ctx context.Context, req groupmodel.Request) (groupmodel.Answer, error) {
	answered := make(chan groupmodel.Answer, 1)
	m.mu.Lock()
	m.token++
	m.waiting[m.token] = answered
	m.hear(m.group.Ask(time.Now(), m.token, req))
	m.mu.Unlock()
	select {
	case a := <-answered:
		return a, nil
	case <-ctx.Done():
		return groupmodel.Answer{}, ctx.Err()
	}
}

// hear hands out answers, and looks at the clock again when the coordinator wants to. Needs m.mu.
func (m *model) hear(answers []groupmodel.Answer) {
	for _, a := range answers {
		if waiting := m.waiting[a.To]; waiting != nil {
			waiting <- a
			delete(m.waiting, a.To)
		}
	}
	if m.timer != nil {
		m.timer.Stop()
	}
	if at := m.group.Deadline(); !at.IsZero() {
		m.timer = time.AfterFunc(time.Until(at), func() { m.set(func() { m.hear(m.group.Tick(time.Now())) }) })
	}
}

// remove is the end of a member's session, or what an administrator does.
func (m *model) remove(id string) {
	_, _ = m.ask(context.Background(), groupmodel.LeaveGroup{Member: id})
}

// joinAs makes a generation of which the member with this id does not know.
func (m *model) joinAs(id string) {
	_, _ = m.ask(context.Background(), groupmodel.JoinGroup{Member: id, Metadata: "of somebody else", Session: 10 * time.Second, Rebalance: 10 * time.Second})
}

// generations made so far.
func (m *model) generations() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int(m.group.Generation())
}

func (m *model) members() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.group.Members()
}
