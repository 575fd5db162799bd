package groupclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
)

// model is a coordinator in memory for tests on a fake clock: the group states of Kafka, offsets,
// and topics. It is a client by itself, and can be told to answer anything.
type model struct {
	mu         sync.Mutex
	state      string // Empty, Preparing, Completing, Stable
	generation int32
	leader     string
	ids        int
	members    map[string]*modelMember
	offsets    map[kafka.TopicPartition]committed
	topics     map[string]kafka.Topic
	first      map[string]int64
	last       map[string]int64
	node       int32
	down       error                                // every request fails with it, when set
	silent     bool                                 // no request is answered
	noTopics   error                                // metadata fails with it, when set
	noOffset   string                               // ListOffsets that has an error in place of an offset, with its topic
	answer     func(req kmsg.Request) kmsg.Response // before the model; nil: not handled
	accepted   func(tp kafka.TopicPartition, member string, offset int64, metadata string)
	hang       func(node int32, req kmsg.Request) bool
	seen       []string // requests, in order of arrival
	joins      [][]byte // metadata of each JoinGroup
	rebalances int
}

type modelMember struct {
	id       string
	metadata []byte
	session  time.Duration
	limit    time.Duration
	expiry   *time.Timer
	joining  chan *kmsg.JoinGroupResponse
	syncing  chan *kmsg.SyncGroupResponse
	plan     []byte
}

func newModel() *model {
	return &model{
		state: "Empty", members: map[string]*modelMember{}, offsets: map[kafka.TopicPartition]committed{},
		topics: map[string]kafka.Topic{}, first: map[string]int64{}, last: map[string]int64{}, node: 1,
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
	case *kmsg.JoinGroupRequest:
		return m.join(ctx, req)
	case *kmsg.SyncGroupRequest:
		return m.syncGroup(ctx, req)
	case *kmsg.HeartbeatRequest:
		resp := kmsg.NewPtrHeartbeatResponse()
		resp.ErrorCode = m.heartbeat(req)
		return resp, nil
	case *kmsg.LeaveGroupRequest:
		m.remove(req.Members[0].MemberID)
		return kmsg.NewPtrLeaveGroupResponse(), nil
	case *kmsg.OffsetFetchRequest:
		return m.offsetFetch(req), nil
	case *kmsg.OffsetCommitRequest:
		return m.offsetCommit(req), nil
	case *kmsg.InitProducerIDRequest:
		return kmsg.NewPtrInitProducerIDResponse(), nil
	}
	return nil, errors.New("the model does not know " + what)
}

func (m *model) join(ctx context.Context, req *kmsg.JoinGroupRequest) (kmsg.Response, error) {
	m.mu.Lock()
	resp := kmsg.NewPtrJoinGroupResponse()
	if req.MemberID == "" {
		m.ids++
		resp.ErrorCode, resp.MemberID = 79, fmt.Sprintf("member-%d", m.ids)
		m.members[resp.MemberID] = &modelMember{id: resp.MemberID}
		m.mu.Unlock()
		return resp, nil
	}
	member := m.members[req.MemberID]
	if member == nil {
		m.mu.Unlock()
		resp.ErrorCode = 25
		return resp, nil
	}
	metadata := req.Protocols[0].Metadata
	m.joins = append(m.joins, metadata)
	same := bytes.Equal(member.metadata, metadata)
	member.metadata = metadata
	member.session = time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	member.limit = time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond
	m.touch(member)
	if m.state == "Stable" && same && member.id != m.leader {
		defer m.mu.Unlock()
		return m.joined(member), nil
	}
	if m.state != "Preparing" {
		m.prepare()
	}
	waiting := make(chan *kmsg.JoinGroupResponse, 1)
	member.joining = waiting
	m.complete(false)
	m.mu.Unlock()
	select {
	case resp := <-waiting:
		return resp, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// prepare begins a rebalance. Needs m.mu, as all below that are not handlers.
func (m *model) prepare() {
	m.state = "Preparing"
	m.rebalances++
	var limit time.Duration
	for _, member := range m.members {
		limit = max(limit, member.limit)
		if member.syncing != nil {
			resp := kmsg.NewPtrSyncGroupResponse()
			resp.ErrorCode = 27
			member.syncing <- resp
			member.syncing = nil
		}
	}
	generation := m.generation
	time.AfterFunc(limit, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.state == "Preparing" && m.generation == generation {
			m.complete(true)
		}
	})
}

// complete ends the joining when all are there, or drops those who are not.
func (m *model) complete(drop bool) {
	for id, member := range m.members {
		switch {
		case member.joining != nil || member.metadata == nil: // joined, or only given an id
		case drop:
			delete(m.members, id)
		default:
			return
		}
	}
	m.generation++
	m.state = "Completing"
	if member := m.members[m.leader]; member == nil || member.joining == nil {
		m.leader = ""
		for id, member := range m.members {
			if member.joining != nil && (m.leader == "" || id < m.leader) {
				m.leader = id
			}
		}
	}
	for _, member := range m.members {
		if member.joining != nil {
			member.joining <- m.joined(member)
			member.joining = nil
			m.touch(member)
		}
	}
	if m.leader == "" {
		m.state = "Empty"
	}
}

func (m *model) joined(member *modelMember) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Generation, resp.LeaderID, resp.MemberID = m.generation, m.leader, member.id
	if member.id == m.leader {
		for _, other := range m.members {
			if other.metadata != nil {
				rm := kmsg.NewJoinGroupResponseMember()
				rm.MemberID, rm.ProtocolMetadata = other.id, other.metadata
				resp.Members = append(resp.Members, rm)
			}
		}
	}
	return resp
}

func (m *model) syncGroup(ctx context.Context, req *kmsg.SyncGroupRequest) (kmsg.Response, error) {
	m.mu.Lock()
	resp := kmsg.NewPtrSyncGroupResponse()
	member := m.members[req.MemberID]
	switch {
	case member == nil:
		resp.ErrorCode = 25
	case m.state == "Preparing":
		resp.ErrorCode = 27
	case req.Generation != m.generation:
		resp.ErrorCode = 22
	}
	if resp.ErrorCode != 0 {
		m.mu.Unlock()
		return resp, nil
	}
	waiting := make(chan *kmsg.SyncGroupResponse, 1)
	member.syncing = waiting
	if req.MemberID == m.leader && m.state == "Completing" {
		for _, a := range req.GroupAssignment {
			m.members[a.MemberID].plan = a.MemberAssignment
		}
		m.state = "Stable"
	}
	if m.state == "Stable" {
		for _, other := range m.members {
			if other.syncing != nil {
				resp := kmsg.NewPtrSyncGroupResponse()
				resp.MemberAssignment = other.plan
				other.syncing <- resp
				other.syncing = nil
				m.touch(other)
			}
		}
	}
	m.mu.Unlock()
	select {
	case resp := <-waiting:
		return resp, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (m *model) heartbeat(req *kmsg.HeartbeatRequest) int16 {
	m.mu.Lock()
	defer m.mu.Unlock()
	member := m.members[req.MemberID]
	if member == nil {
		return 25
	}
	if req.Generation != m.generation {
		return 22
	}
	m.touch(member)
	if m.state == "Preparing" {
		return 27
	}
	return 0
}

func (m *model) touch(member *modelMember) {
	if member.expiry != nil {
		member.expiry.Stop()
	}
	member.expiry = time.AfterFunc(member.session, func() {
		m.mu.Lock()
		waits := member.joining != nil || member.syncing != nil
		m.mu.Unlock()
		if !waits {
			m.remove(member.id)
		}
	})
}

func (m *model) remove(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	member := m.members[id]
	if member == nil {
		return
	}
	if member.expiry != nil {
		member.expiry.Stop()
	}
	delete(m.members, id)
	if m.state == "Preparing" {
		m.complete(false)
	} else if m.prepare(); len(m.members) == 0 {
		m.state = "Empty"
	}
}
