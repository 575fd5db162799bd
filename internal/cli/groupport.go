package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/pillion/pillion/groupclient"
	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/internal/ops"
	"github.com/pillion/pillion/produce"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/session"
)

// reachWithin is how long brokers may be silent before the worker is told.
const reachWithin = 2 * time.Second

// groupPort is the session's Group: groupclient in the session's words. The group's name is known
// only at the first hello, so that the member is made at the join; run starts it. After the group was
// left, a worker of another one may come.
type groupPort struct {
	settings Settings
	client   *kafka.Client
	log      hclog.Logger
	post     func(session.Event)
	metrics  *ops.Metrics
	locator  *locator                                                   // hears of the group's changes
	run      func(func(context.Context) error)                          // starts a goroutine that the sidecar waits for
	copies   func() []groupclient.Copy                                  // what the worker keeps without being its active; nil: nothing
	begin    func(ctx context.Context, group, incarnation string) error // makes the producer of an incarnation

	mu       sync.Mutex
	name     string
	member   *groupclient.Group
	stop     context.CancelFunc    // ends the member
	declared *groupclient.Prepared // as it was checked last; nil: it has to be checked anew
}

var _ session.Group = (*groupPort)(nil)

// Prepare checks the worker's declarations against Kafka.
func (p *groupPort) Prepare(ctx context.Context, group string, h protocol.Hello) (session.Prepared, error) {
	p.reach(ctx)
	if p.settings.ProcessingGuarantee == groupclient.ExactlyOnce {
		if err := produce.VerifiesTransactions(ctx, p.client); err != nil {
			return session.Prepared{}, groupError(err)
		}
	}
	got, err := groupclient.Prepare(ctx, p.client, groupclient.PrepareOptions{
		Group: group, AllowedTopics: p.settings.AllowedTopics, CreateMissing: int32(p.settings.CreateTopics),
	}, declaration(h))
	if err != nil {
		return session.Prepared{}, groupError(err)
	}
	for _, topic := range slices.Sorted(maps.Keys(got.Created)) {
		p.log.Info("topic created", "topic", topic, "partitions", got.Created[topic])
	}
	for _, w := range got.Warnings {
		p.log.Warn(w)
	}
	if _, err := p.newMember(group); err != nil {
		return session.Prepared{}, &session.RefusedError{Code: protocol.CodeBadDeclaration, Message: err.Error()}
	}
	p.mu.Lock()
	p.declared = &got
	p.mu.Unlock()
	return prepared(got), nil
}

// reach tells the worker soon when no broker answers; Prepare may take longer to find that out.
func (p *groupPort) reach(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	if err := p.client.Reach(ctx); errors.Is(err, kafka.ErrUnreachable) {
		p.post(session.GroupWaiting{Code: protocol.CodeKafkaUnreachable, Message: err.Error()})
	}
}

// become makes the member of the group, unless it is that already.
func (p *groupPort) become(group string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.member != nil && p.name == group {
		return nil
	}
	member, err := p.newMember(group)
	if err != nil {
		return err
	}
	if p.stop != nil {
		p.stop() // the session has left that group
	}
	over, stop := context.WithCancel(context.Background())
	p.name, p.member, p.stop = group, member, stop
	p.run(func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(over, cancel)()
		return member.Run(ctx)
	})
	return nil
}

func (p *groupPort) newMember(group string) (*groupclient.Group, error) {
	s := p.settings
	var replicas *int // as the worker's hello says
	if s.standbysGiven {
		replicas = &s.NumStandbyReplicas
	}
	var begin func(context.Context, string) error
	if s.ProcessingGuarantee == groupclient.ExactlyOnce {
		begin = func(ctx context.Context, incarnation string) error { return p.begin(ctx, group, incarnation) }
	}
	return groupclient.New(groupclient.Config{
		Client: p.client, Group: group, InstanceID: s.GroupInstanceID, Rack: s.Rack,
		SessionTimeout: s.SessionTimeout, HeartbeatInterval: s.HeartbeatInterval, TransactionTimeout: s.TransactionTimeout,
		AutoOffsetReset: s.AutoOffsetReset, OnLostPosition: s.OnLostPosition,
		Guarantee: s.ProcessingGuarantee, Replicas: replicas, Copies: p.copies, Begin: begin,
		MaxWarmups: s.MaxWarmupReplicas, AcceptableLag: int64(s.AcceptableRecoveryLag),
		AcceptStateLoss: s.AcceptStateLoss, Logger: p.log.Named("group"),
	}, seen{groupEvents{p.post}, p.locator})
}

func (p *groupPort) group() *groupclient.Group {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.member
}

// Join subscribes with what Prepare has checked.
func (p *groupPort) Join(pr session.Prepared) {
	if err := p.become(pr.Group); err != nil {
		p.post(session.GroupFatal{Code: protocol.CodeBadDeclaration, Message: err.Error()})
		return
	}
	p.group().Join(pr.Handle.(groupclient.Prepared))
}

// Release lets go of tasks.
func (p *groupPort) Release(tasks []session.TaskID) {
	list := make([]groupclient.Task, len(tasks))
	for i, t := range tasks {
		list[i] = groupTask(t)
	}
	p.group().Release(list...)
}

// Drain makes the group's plans leave this member out; what it still has it keeps until it lets go.
func (p *groupPort) Drain() {
	if g := p.group(); g != nil {
		g.Drain()
	}
}

// Confirm asks whether a task is still ours.
func (p *groupPort) Confirm(ctx context.Context, t session.TaskID) error {
	return groupError(p.group().Confirm(ctx, groupTask(t)))
}

// TakeOver claims a task.
func (p *groupPort) TakeOver(ctx context.Context, t session.TaskID) (session.TakeOver, error) {
	began := time.Now()
	took, err := p.group().TakeOver(ctx, groupTask(t))
	p.metrics.Step("take_over", began, err)
	return session.TakeOver{Positions: took.Positions, TopicIDs: took.TopicIDs, Ends: took.Ends}, groupError(err)
}

// Commit commits positions with the claim.
func (p *groupPort) Commit(ctx context.Context, t session.TaskID, next map[string]int64) error {
	began := time.Now()
	err := p.group().Commit(ctx, groupTask(t), next)
	p.metrics.Step("commit_positions", began, err)
	return groupError(err)
}

// CommitReleased commits the released claim.
func (p *groupPort) CommitReleased(ctx context.Context, t session.TaskID, next map[string]int64) error {
	began := time.Now()
	err := p.group().CommitReleased(ctx, groupTask(t), next)
	p.metrics.Step("write_release", began, err)
	return groupError(err)
}

// Leave leaves the group; without one there is nothing to leave.
func (p *groupPort) Leave(ctx context.Context) error {
	g := p.group()
	if g == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.settings.SessionTimeout)
	defer cancel()
	return g.Leave(ctx)
}

func groupTask(t session.TaskID) groupclient.Task {
	return groupclient.Task{Set: t.Set, Partition: t.Partition}
}

func groupError(err error) error {
	var refused *groupclient.RefusedError
	var rejected *produce.RejectedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &rejected):
		return &session.RefusedError{Code: rejected.Code, Message: rejected.Message}
	case errors.As(err, &refused):
		return &session.RefusedError{Code: refused.Code, Message: refused.Message}
	case errors.Is(err, groupclient.ErrRebalancing):
		return fmt.Errorf("%w: %w", session.ErrRebalancing, err)
	case errors.Is(err, groupclient.ErrLost):
		return fmt.Errorf("%w: %w", session.ErrFenced, err)
	}
	return err
}

func declaration(h protocol.Hello) groupclient.Declaration {
	d := groupclient.Declaration{
		Sources: h.Sources, Outputs: h.Outputs, Address: h.Address, Replicas: h.Replicas, NoStandby: h.Level != protocol.LevelStandby,
	}
	for _, t := range h.Tables {
		d.Tables = append(d.Tables, groupclient.DeclaredTable{
			Name: t.Name, Changelog: t.Changelog, SourceTopic: t.SourceTopic, Sources: t.Sources,
		})
	}
	for _, s := range h.Sets {
		set := groupclient.DeclaredSet{Name: s.Name, Sources: s.Sources}
		for _, t := range s.Tables {
			set.Tables = append(set.Tables, groupclient.DeclaredTable{
				Name: t.Name, Changelog: t.Changelog, SourceTopic: t.SourceTopic,
			})
		}
		d.Sets = append(d.Sets, set)
	}
	for _, g := range h.Globals {
		d.Globals = append(d.Globals, groupclient.DeclaredGlobal{Name: g.Name, Topic: g.Topic})
	}
	return d
}

func prepared(p groupclient.Prepared) session.Prepared {
	out := session.Prepared{
		Group: p.Group, Outputs: p.Outputs, Handle: p, NoStandby: p.NoStandby, Address: p.Address, Replicas: p.Replicas,
	}
	for _, s := range p.Sets {
		set := session.PreparedSet{Name: s.Name, Sources: s.Sources, Partitions: s.Partitions}
		for _, t := range s.Tables {
			kind := protocol.TableChangelog
			if t.Source {
				kind = protocol.TableSource
			}
			set.Tables = append(set.Tables, session.PreparedTable{Name: t.Name, Topic: t.Topic, Kind: kind})
		}
		out.Sets = append(out.Sets, set)
	}
	for _, g := range p.Globals {
		out.Globals = append(out.Globals, session.PreparedGlobal{Name: g.Name, Topic: g.Topic, Partitions: g.Partitions})
	}
	return out
}

// groupEvents turns what the member hears into events.
type groupEvents struct{ post func(session.Event) }

func (e groupEvents) Assigned(a groupclient.Assignment) {
	ev := session.Assigned{Generation: a.Generation, MemberID: a.MemberID}
	for _, t := range a.Active {
		ev.Active = append(ev.Active, session.TaskID{Set: t.Set, Partition: t.Partition})
	}
	for _, t := range a.Standby {
		ev.Standby = append(ev.Standby, session.TaskID{Set: t.Set, Partition: t.Partition})
	}
	e.post(ev)
}

func (e groupEvents) Rebalancing() {}

func (e groupEvents) Lost(code string, err error) {
	e.post(session.GroupLost{Code: code, Message: err.Error()})
}

func (e groupEvents) Fatal(err error) {
	e.post(session.GroupFatal{Code: protocol.CodeKafkaRefused, Message: err.Error()})
}

func (e groupEvents) Waiting(code, message string) {
	e.post(session.GroupWaiting{Code: code, Message: message})
}
