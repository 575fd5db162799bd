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
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = g.cfg.Group
	req.RequireStable = stable
	for _, source := range sources {
		topic := kmsg.NewOffsetFetchRequestTopic()
		topic.Topic, topic.Partitions = source, []int32{partition}
		req.Topics = append(req.Topics, topic)
	}
	var found map[string]committed
	err := g.step(ctx, id, func(ctx context.Context) (int16, error) {
		answer, err := g.client.ToGroup(ctx, g.cfg.Group, req)
		if err != nil {
			return 0, err
		}
		var code int16
		found, code = readOffsets(answer.(*kmsg.OffsetFetchResponse), partition)
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

func readOffsets(resp *kmsg.OffsetFetchResponse, partition int32) (map[string]committed, int16) {
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
func (g *Group) commitOffsets(ctx context.Context, id identity, t Task, next map[string]int64, metadata string) (int16, error) {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = g.cfg.Group
	req.Generation = id.generation
	req.MemberID = id.member
	req.InstanceID = g.instance()
	for _, source := range slices.Sorted(maps.Keys(next)) {
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic = source
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = t.Partition, next[source], -1, &metadata
		topic.Partitions = append(topic.Partitions, p)
		req.Topics = append(req.Topics, topic)
	}
	answer, err := g.client.ToGroup(ctx, g.cfg.Group, req)
	if err != nil {
		return 0, err
	}
	return worst(req, answer.(*kmsg.OffsetCommitResponse))
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
	if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		return fmt.Errorf("%w: %w", err, ctx.Err())
	}
	return err
}

// verdict is what a code of OffsetCommit or OffsetFetch means to the caller.
func (g *Group) verdict(code int16) error {
	err := codeError(code, onOffsets, g.cfg.Group)
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
	metadata, positions, err := g.prepareCommit(t, task, next, released)
	if err != nil {
		return err
	}
	err = g.repeat(ctx, func(ctx context.Context) (int16, error) {
		// The generation is that of the moment of sending.
		g.mu.Lock()
		id, now := g.identity, g.owned[t]
		g.mu.Unlock()
		if now != task || id.incarnation != incarnation {
			return 0, ErrLost
		}
		return g.commitOffsets(ctx, id, t, positions, metadata)
	})
	if err != nil {
		return fmt.Errorf("committing task %s: %w", t, err)
	}
	g.mu.Lock()
	task.position = positions
	g.mu.Unlock()
	return nil
}

func (g *Group) prepareCommit(t Task, task *ownedTask, next map[string]int64, released bool) (string, map[string]int64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !task.taken {
		return "", nil, fmt.Errorf("committing task %s: it has not been taken over", t)
	}
	positions := maps.Clone(task.position)
	for source, offset := range next {
		if _, ok := positions[source]; !ok || offset < 0 {
			return "", nil, fmt.Errorf("committing task %s: position %d of %q is not one of its sources'", t, offset, source)
		}
		positions[source] = offset
	}
	c := task.claim
	c.Released = released
	metadata, err := c.encode()
	return metadata, positions, err
}

// hurry makes Run ask the coordinator now, because a commit was told that the membership is over.
func (g *Group) hurry() {
	g.mu.Lock()
	g.suspect = true
	g.mu.Unlock()
	g.wake()
}
