package groupclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
)

// committed is what the group has stored for one source partition.
type committed struct {
	offset   int64 // -1: nothing
	metadata string
}

// fetchOffsets reads the positions of a task. Stable ones are those that no open transaction may
// still change; the coordinator answers 88 until there are such, and it is asked again.
func (g *Group) fetchOffsets(ctx context.Context, id identity, partition int32, sources []string, stable bool) (map[string]committed, error) {
	return g.readOffsets(ctx, g.offsetFetch(partition, sources, stable), partition, sources, func(int16) error {
		if g.current().incarnation != id.incarnation {
			return ErrLost
		}
		return nil
	})
}

func (g *Group) offsetFetch(partition int32, sources []string, stable bool) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = g.cfg.Group
	req.RequireStable = stable
	for _, source := range sources {
		topic := kmsg.NewOffsetFetchRequestTopic()
		topic.Topic, topic.Partitions = source, []int32{partition}
		req.Topics = append(req.Topics, topic)
	}
	return req
}

// readOffsets asks until all positions are told. Before each try goOn hears the code of the one before.
func (g *Group) readOffsets(ctx context.Context, req *kmsg.OffsetFetchRequest, partition int32, sources []string, goOn func(code int16) error) (map[string]committed, error) {
	var found map[string]committed
	var code int16
	err := g.repeat(ctx, func(ctx context.Context) (int16, error) {
		if err := goOn(code); err != nil {
			return 0, err
		}
		answer, err := g.client.ToGroup(ctx, g.cfg.Group, req)
		if err != nil {
			return 0, err
		}
		found, code = offsetsIn(answer.(*kmsg.OffsetFetchResponse), partition)
		return code, nil
	})
	if err != nil {
		return nil, err
	}
	for _, source := range sources {
		if _, ok := found[source]; !ok {
			return nil, fmt.Errorf("the coordinator of group %q did not tell the position of %s-%d", g.cfg.Group, source, partition)
		}
	}
	return found, nil
}

func offsetsIn(resp *kmsg.OffsetFetchResponse, partition int32) (map[string]committed, int16) {
	if resp.ErrorCode != 0 {
		return nil, resp.ErrorCode
	}
	found := map[string]committed{}
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			if p.ErrorCode != 0 {
				return nil, p.ErrorCode
			}
			if p.Partition != partition {
				continue
			}
			c := committed{offset: p.Offset}
			if p.Metadata != nil {
				c.metadata = *p.Metadata
			}
			found[topic.Topic] = c
		}
	}
	return found, 0
}

// commitOffsets writes the positions of a task with a claim, as the member and generation given.
//
// INVARIANT: a try that was not answered is noted, also where a later one was: it may be taken after what follows.
func (g *Group) commitOffsets(ctx context.Context, id identity, t Task, task *ownedTask, next map[string]int64, metadata string, released bool) (int16, error) {
	req := g.offsetCommit(id)
	for _, source := range slices.Sorted(maps.Keys(next)) {
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic = source
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = t.Partition, next[source], -1, &metadata
		topic.Partitions = append(topic.Partitions, p)
		req.Topics = append(req.Topics, topic)
	}
	ctx, tries := kafka.CountTries(ctx, kmsg.OffsetCommit)
	answer, err := g.client.ToGroup(ctx, g.cfg.Group, req)
	if err != nil || tries.Repeated() {
		g.unanswered(id, released, task)
	}
	if err != nil {
		return 0, err
	}
	return worst(req, answer.(*kmsg.OffsetCommitResponse))
}

func (g *Group) offsetCommit(id identity) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = g.cfg.Group
	req.Generation = id.generation
	req.MemberID = id.member
	req.InstanceID = g.instance()
	return req
}

// worst is the code that decides: one that ends the membership before one that refuses, before one
// that asks to repeat. Repeating the whole commit is harmless.
// INVARIANT: a partition that the answer leaves out is not committed; the commit is repeated.
func worst(req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse) (int16, error) {
	weight := func(code int16) int {
		return slices.Index([]rule{ruleOK, ruleRetry, ruleFindCoordinator, ruleRebalancing, ruleFatal, ruleLost}, ruleOf(code, onOffsets))
	}
	answered := map[kafka.TopicPartition]bool{}
	var code int16
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			answered[kafka.TopicPartition{Topic: topic.Topic, Partition: p.Partition}] = true
			if weight(p.ErrorCode) > weight(code) {
				code = p.ErrorCode
			}
		}
	}
	for _, topic := range req.Topics {
		for _, p := range topic.Partitions {
			if tp := (kafka.TopicPartition{Topic: topic.Topic, Partition: p.Partition}); code == 0 && !answered[tp] {
				return 0, fmt.Errorf("%w: the answer does not say whether the position of %s was committed", errAgain, tp)
			}
		}
	}
	return code, nil
}

// repeat makes a request until it is answered for good or ctx ends. Each try may take a while, so
// that a coordinator which does not answer is looked for again.
func (g *Group) repeat(ctx context.Context, try func(context.Context) (int16, error)) error {
	for attempt := 0; ; attempt++ {
		limited, cancel := context.WithTimeout(ctx, offsetsLimit)
		code, err := try(limited)
		cancel()
		if err == nil {
			err = g.verdict(code)
		}
		if err == nil || !errors.Is(err, errAgain) && !kafka.Retriable(err) || ctx.Err() != nil {
			return final(ctx, err)
		}
		if code == 0 || ruleOf(code, onOffsets) == ruleFindCoordinator {
			g.client.ForgetCoordinator(coordinatorOf, g.cfg.Group)
		}
		if !kafka.Pause(ctx, attempt) {
			return final(ctx, err)
		}
	}
}

// step is repeat for a take-over, which ends with the membership that it began under.
func (g *Group) step(ctx context.Context, id identity, try func(context.Context) (int16, error)) error {
	return g.repeat(ctx, func(ctx context.Context) (int16, error) {
		if g.current().incarnation != id.incarnation {
			return 0, ErrLost
		}
		return try(ctx)
	})
}

// offsetsLimit is how long one OffsetCommit or OffsetFetch may take.
const offsetsLimit = 5 * time.Second

var errAgain = errors.New("to be repeated")

func final(ctx context.Context, err error) error {
	var version *kafka.VersionError
	if errors.As(err, &version) {
		return &RefusedError{codeKafkaRefused, version.Error()}
	}
	var denied *kafka.AccessError
	if errors.As(err, &denied) { // of the look-up of the coordinator
		return &RefusedError{codeKafkaRefused, denied.Error()}
	}
	if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		return fmt.Errorf("%w: %w", err, ctx.Err())
	}
	return err
}

// verdict is what a code of OffsetCommit or OffsetFetch means to the caller.
func (g *Group) verdict(code int16) error {
	err := g.codeError(code, onOffsets)
	switch ruleOf(code, onOffsets) {
	case ruleOK:
		return nil
	case ruleRetry, ruleFindCoordinator:
		return fmt.Errorf("%w: %w", errAgain, err)
	case ruleRebalancing:
		g.hurry()
		return fmt.Errorf("%w: %w", ErrRebalancing, err)
	case ruleLost:
		g.hurry()
		return fmt.Errorf("%w: %w", ErrLost, err)
	default:
		return &RefusedError{Code: codeKafkaRefused, Message: err.Error()}
	}
}

// Commit stores the next offsets of a task's sources, with the claim. It fails with ErrRebalancing
// (repeat after the next Assigned), ErrLost (the task is gone), a RefusedError, or when ctx ends; it
// is repeated until then. A source that next does not name keeps its position.
func (g *Group) Commit(ctx context.Context, t Task, next map[string]int64) error {
	return g.commit(ctx, t, next, false)
}

// CommitReleased is Commit with the claim released: the task's last one. Release has to follow.
func (g *Group) CommitReleased(ctx context.Context, t Task, next map[string]int64) error {
	return g.commit(ctx, t, next, true)
}

func (g *Group) commit(ctx context.Context, t Task, next map[string]int64, released bool) error {
	g.mu.Lock()
	task, incarnation := g.owned[t], g.identity.incarnation
	g.mu.Unlock()
	if task == nil {
		return fmt.Errorf("committing task %s: it is not owned: %w", t, ErrLost)
	}
	metadata, positions, doubt, err := g.prepareCommit(t, task, next, released)
	if err != nil {
		return err
	}
	err = g.repeat(ctx, func(ctx context.Context) (int16, error) {
		if released && g.cfg.Guarantee == ExactlyOnce { // before each try: it may have waited long for the one before
			if err := g.readBeforeRelease(ctx, t, incarnation, positions, doubt); err != nil {
				return 0, err
			}
		}
		// The generation is that of the moment of sending.
		g.mu.Lock()
		id, now := g.identity, g.owned[t]
		var wait error
		if released && task.mayComeLate(id) {
			wait = g.renew()
		}
		g.mu.Unlock()
		switch {
		case now != task || id.incarnation != incarnation:
			return 0, ErrLost
		case wait != nil:
			return 0, wait
		}
		return g.commitOffsets(ctx, id, t, task, positions, metadata, released)
	})
	if err != nil {
		return fmt.Errorf("committing task %s: %w", t, err)
	}
	g.mu.Lock()
	task.position = positions
	task.out = task.out && !released
	g.mu.Unlock()
	return nil
}

// prepareCommit is what a commit writes, and whether its positions may be behind what a transaction has committed.
func (g *Group) prepareCommit(t Task, task *ownedTask, next map[string]int64, released bool) (string, map[string]int64, bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !task.taken {
		return "", nil, false, fmt.Errorf("committing task %s: it has not been taken over", t)
	}
	positions, err := task.merged(t, next)
	if err != nil {
		return "", nil, false, err
	}
	c := task.claim
	c.Released = released
	task.releasing = task.releasing || released
	metadata, err := c.encode()
	return metadata, positions, released && task.doubt, err
}

// hurry makes Run ask the coordinator now, because a commit was told that the membership is over.
func (g *Group) hurry() {
	g.mu.Lock()
	g.suspect = true
	g.mu.Unlock()
	g.wake()
}
