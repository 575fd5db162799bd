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

// A take-over that fails after its claim was sent leaves a claim behind that is not released, and so does a
// release that Kafka did not take. The next owner would fence this member, which lives and has other tasks.
//
// INVARIANT: under exactly once a task whose claim may stand unreleased is claimed in the group until a release
// of it is acknowledged, or the membership is over.
//
// So Release makes it a parting task: not ours to work on, and still claimed. Run writes what is parting before
// the follow-up join. It does not trust positions that the task remembers, which a transaction may have passed:
// it reads the stable ones. While a transaction of the task may be under way nothing is released: positions that
// come between the two would be lost.

// cleanUp is how long after its timeout a transaction may be there yet: brokers look every ten seconds.
const cleanUp = 15 * time.Second

// letGo takes a task out of what is owned; needs g.mu.
func (g *Group) letGo(t Task) {
	if task := g.owned[t]; task != nil && task.out {
		g.parting[t] = task
	}
	delete(g.owned, t)
}

// unanswered notes that a claim of this generation, or its release, was sent and not answered.
func (g *Group) unanswered(id identity, released bool, tasks ...*ownedTask) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cfg.Guarantee != ExactlyOnce {
		return
	}
	for _, task := range tasks {
		task.unsure = id.generation
		if !released {
			task.late = id.generation
		}
	}
}

// mayComeLate says whether a claim of the generation may be taken behind what is written next: a release would be
// undone by it, and the next owner would fence this member. It needs g.mu.
func (o *ownedTask) mayComeLate(id identity) bool {
	return o.late == id.generation && id.generation > 0
}

// renew asks for a new generation; needs g.mu. A request that was not answered may lie somewhere, and be taken
// after a later one: it would put the position back. In a later generation it is refused.
func (g *Group) renew() error {
	if g.follow.IsZero() {
		g.follow = time.Now()
	}
	g.wake()
	return fmt.Errorf("%w: the claim was not answered, and is written again in the next generation", ErrRebalancing)
}

// part writes releases. It is done when nothing is left that has to be written.
func (g *Group) part(ctx context.Context) (done bool, err error) {
	id, tasks, busy := g.toPart()
	if len(tasks) == 0 {
		return !busy, nil
	}
	at, err := g.stableOf(ctx, tasks)
	if err != nil {
		return false, forGood(err)
	}
	maps.DeleteFunc(tasks, func(t Task, _ *ownedTask) bool { return at[t] == nil }) // a transaction is open
	if len(tasks) == 0 {
		return false, nil
	}
	codes, err := g.commitParting(ctx, id, tasks, at)
	if err != nil {
		return false, forGood(err)
	}
	for t, code := range codes {
		switch rule := ruleOf(code, onOffsets); {
		case rule == ruleOK:
			g.log.Debug("released the claim of a task that was not taken over", "task", t.String())
		case rule == ruleFatal:
			return false, fmt.Errorf("kafka does not take the release of task %s: %w", t, g.codeError(code, onOffsets))
		case rule == ruleFindCoordinator:
			g.client.ForgetCoordinator(coordinatorOf, g.cfg.Group)
		case rule == ruleLost:
			g.hurry()
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for t, code := range codes {
		if code == 0 && g.parting[t] == tasks[t] {
			delete(g.parting, t)
		}
	}
	return len(g.parting) == 0, nil
}

// forGood leaves out what passes by itself.
func forGood(err error) error {
	var refused *RefusedError
	if errors.As(err, &refused) {
		return err
	}
	return nil
}

// toPart are the tasks whose release can be written now. Busy: others have a take-over that is about to end, or a
// transaction that may not have its end: their claim has to stand, so that who takes over ends it; or a claim of
// this generation that was not answered, and would stand again behind a release: that is written in the next one.
func (g *Group) toPart() (id identity, tasks map[Task]*ownedTask, busy bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id, tasks = g.newestIdentity(), map[Task]*ownedTask{}
	for t, task := range g.parting {
		if task.mayComeLate(id) || task.taking > 0 || task.doubt && time.Since(task.since) < g.cfg.TransactionTimeout+cleanUp {
			busy = true
			continue
		}
		tasks[t] = task
	}
	return id, tasks, busy
}

// stableOf says what is to be committed for tasks: per task and source. A task that is left out has an open transaction.
//
// INVARIANT: a position stands only beside a claim of the topic that it was decided for. Where our claim has not
// landed, what stands may be a position that the take-over found lost (of a source that was created anew): beside our
// claim it would be believed. There it is the position that the claim was to bring.
func (g *Group) stableOf(ctx context.Context, tasks map[Task]*ownedTask) (map[Task]map[string]int64, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.RequireStable = g.cfg.Group, true
	for topic, partitions := range partitionsOf(tasks) {
		rt := kmsg.NewOffsetFetchRequestTopic()
		rt.Topic, rt.Partitions = topic, partitions
		req.Topics = append(req.Topics, rt)
	}
	answer, err := g.short(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.OffsetFetchResponse)
	if err := g.verdict(resp.ErrorCode); err != nil {
		return nil, err
	}
	stable := map[kafka.TopicPartition]committed{}
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			if p.ErrorCode == 0 {
				c := committed{offset: p.Offset}
				if p.Metadata != nil {
					c.metadata = *p.Metadata
				}
				stable[kafka.TopicPartition{Topic: topic.Topic, Partition: p.Partition}] = c
			}
		}
	}
	at := map[Task]map[string]int64{}
	for t, task := range tasks {
		positions := maps.Clone(task.wrote)
		for source := range positions {
			stands, ok := stable[kafka.TopicPartition{Topic: source, Partition: t.Partition}]
			if !ok {
				positions = nil
				break
			}
			if anothers(stands.metadata, task.sent.Incarnation, task.before[source]) {
				return nil, g.replaced(task.sent.Incarnation, t, source, stands.metadata)
			}
			if c, ok, _ := parseClaim(stands.metadata); ok && c.Incarnation == task.sent.Incarnation && c.agrees(task.sent, source) {
				positions[source] = stands.offset
			}
		}
		if positions != nil {
			at[t] = positions
		}
	}
	return at, nil
}

// commitParting writes the releases in one request, and gives the code of each task.
func (g *Group) commitParting(ctx context.Context, id identity, tasks map[Task]*ownedTask, at map[Task]map[string]int64) (map[Task]int16, error) {
	topics := map[string][]kmsg.OffsetCommitRequestTopicPartition{}
	for t, task := range tasks {
		released := task.sent
		released.Released = true
		metadata, err := released.encode()
		if err != nil {
			return nil, err
		}
		for source, offset := range at[t] {
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = t.Partition, offset, -1, &metadata
			topics[source] = append(topics[source], p)
		}
	}
	req := g.offsetCommit(id)
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.Partitions = topic, topics[topic]
		req.Topics = append(req.Topics, rt)
	}
	ctx, tries := kafka.CountTries(ctx, kmsg.OffsetCommit)
	answer, err := g.short(ctx, req)
	if err != nil || tries.Repeated() {
		g.unanswered(id, true, slices.Collect(maps.Values(tasks))...)
	}
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.OffsetCommitResponse)
	codes := map[Task]int16{}
	for t := range tasks {
		code, err := worst(only(req, at[t], t.Partition), onlyOf(resp, at[t], t.Partition))
		if err != nil {
			code = codeUnanswered
		}
		codes[t] = code
	}
	return codes, nil
}

// codeUnanswered stands for a partition that an answer leaves out: UNKNOWN_SERVER_ERROR, which is repeated.
const codeUnanswered = -1

// only and onlyOf are the parts of a commit and of its answer that are about one task.
func only(req *kmsg.OffsetCommitRequest, sources map[string]int64, partition int32) *kmsg.OffsetCommitRequest {
	part := kmsg.NewPtrOffsetCommitRequest()
	for _, topic := range req.Topics {
		if _, ok := sources[topic.Topic]; !ok {
			continue
		}
		topic.Partitions = slices.DeleteFunc(slices.Clone(topic.Partitions), func(p kmsg.OffsetCommitRequestTopicPartition) bool { return p.Partition != partition })
		part.Topics = append(part.Topics, topic)
	}
	return part
}

func onlyOf(resp *kmsg.OffsetCommitResponse, sources map[string]int64, partition int32) *kmsg.OffsetCommitResponse {
	part := kmsg.NewPtrOffsetCommitResponse()
	for _, topic := range resp.Topics {
		if _, ok := sources[topic.Topic]; !ok {
			continue
		}
		topic.Partitions = slices.DeleteFunc(slices.Clone(topic.Partitions), func(p kmsg.OffsetCommitResponseTopicPartition) bool { return p.Partition != partition })
		part.Topics = append(part.Topics, topic)
	}
	return part
}

func partitionsOf(tasks map[Task]*ownedTask) map[string][]int32 {
	topics := map[string][]int32{}
	for t, task := range tasks {
		for source := range task.wrote {
			topics[source] = append(topics[source], t.Partition)
		}
	}
	return topics
}

// partFirst is called before a new JoinGroup is built. What cannot be released now is claimed in it; where it
// cannot be claimed, as its set is not declared any more, the join waits, and gives the membership up when that
// takes too long. False: join again later.
func (g *Group) partFirst(ctx context.Context) bool {
	done, err := g.part(ctx)
	switch {
	case err != nil:
		g.lose(err, false)
		return false
	case done || g.allDeclared():
		g.partSince = time.Time{}
		return true
	case g.partSince.IsZero():
		g.partSince = time.Now()
	case time.Since(g.partSince) > g.cfg.RebalanceTimeout/2:
		g.partSince = time.Time{}
		g.lose(errors.New("the claims of tasks that are not declared any more could not be released"), false)
		return false
	}
	g.again(ctx)
	return false
}

// allDeclared: what is parting can be claimed.
func (g *Group) allDeclared() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for t := range g.parting {
		if g.want == nil || !slices.ContainsFunc(g.want.Sets, func(s PreparedSet) bool { return s.Name == t.Set && g.joined != nil && g.joined.has(s) }) {
			return false
		}
	}
	return true
}

// passesBy says whether the follow-up join is made although something is parting that cannot be released yet, and
// is claimed in it: others wait for what was let go of, or for new declarations, or the release waits for another
// generation.
func (g *Group) passesBy() bool {
	if !g.allDeclared() {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range g.claimed {
		if g.owned[t] == nil && g.parting[t] == nil {
			return true
		}
	}
	for _, task := range g.parting {
		if task.mayComeLate(g.newestIdentity()) {
			return true
		}
	}
	return g.urgent
}

// partBeforeLeaving releases, as far as one try goes, the tasks on which nobody works: who takes them over has
// nobody to fence. One that is worked on is fenced, as it has to be.
func (g *Group) partBeforeLeaving(ctx context.Context) {
	g.mu.Lock()
	for t, task := range g.owned {
		if task.out && (!task.taken || task.releasing) {
			g.letGo(t)
		}
	}
	member := g.identity.generation >= 0
	g.mu.Unlock()
	if member {
		if _, err := g.part(ctx); err != nil {
			g.log.Debug("claims are not released", "error", err)
		}
	}
}

// readBeforeRelease reads what stands where a release is to be written: also the positions, where the end of a
// transaction was not told.
//
// INVARIANT: under exactly once no release is written over another's claim. A transaction of who was fenced is
// refused; a plain commit is not, where the coordinator believes that the member is still the one it knew: one that
// moves forgets a static member's successor, which has joined since the last plan was stored (missed_test.go).
func (g *Group) readBeforeRelease(ctx context.Context, t Task, ours string, positions map[string]int64, doubt bool) error {
	stands, err := g.fetchOffsets(ctx, g.current(), t.Partition, slices.Sorted(maps.Keys(positions)), doubt)
	if err != nil {
		return err
	}
	for source, c := range stands {
		if anothers(c.metadata, ours) {
			return g.replaced(ours, t, source, c.metadata)
		}
		if doubt && c.offset >= 0 {
			positions[source] = c.offset
		}
	}
	return nil
}
