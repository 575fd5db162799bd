package groupclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
)

// TakeOver makes a task ours to read and to write, and says where it starts. It has to be called
// once for each time that the task is opened, after the Assigned that gave it. It fails with
// ErrRebalancing, ErrLost, a RefusedError (lost_position, lost_state, kafka_refused), or when ctx
// ends.
//
// INVARIANT: the order of the steps. The claims are read before the generation is checked, so that
// nobody of a later generation has written them; transactions are fenced before stable positions are
// read; and the ends are captured after our own claim is committed, when nobody else can write.
func (g *Group) TakeOver(ctx context.Context, t Task) (TakeOver, error) {
	over, err := g.takeOver(ctx, t)
	if err != nil {
		return TakeOver{}, fmt.Errorf("taking over task %s: %w", t, err)
	}
	return over, nil
}

func (g *Group) takeOver(ctx context.Context, t Task) (TakeOver, error) {
	task, set, id, err := g.begin(t)
	if err != nil {
		return TakeOver{}, err
	}
	claims, err := g.readClaims(ctx, id, t, set)
	if err != nil {
		return TakeOver{}, err
	}
	if err := g.checkGeneration(ctx, id); err != nil {
		return TakeOver{}, err
	}
	if err := g.fence(ctx, id, claims); err != nil {
		return TakeOver{}, err
	}
	start, err := g.fetchOffsets(ctx, id, t.Partition, set.Sources, true)
	if err != nil {
		return TakeOver{}, err
	}
	var at found
	err = g.step(ctx, id, func(ctx context.Context) (int16, error) {
		at, err = g.look(ctx, t, set)
		return 0, err
	})
	if err != nil {
		return TakeOver{}, err
	}
	at.claims, at.committed = claims, start
	positions, err := g.cfg.positions(t, set, at)
	if err != nil {
		return TakeOver{}, err
	}
	ours := g.newClaim(id, set, at.ids)
	if err := g.commitClaim(ctx, id, t, positions, ours); err != nil {
		return TakeOver{}, err
	}
	var ends map[string]int64
	err = g.step(ctx, id, func(ctx context.Context) (int16, error) {
		ends, err = g.ends(ctx, t, set)
		return 0, err
	})
	if err != nil {
		return TakeOver{}, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.identity.incarnation != id.incarnation:
		return TakeOver{}, ErrLost
	case g.owned[t] != task:
		return TakeOver{}, fmt.Errorf("%w: the task was released meanwhile", ErrRebalancing)
	}
	task.taken, task.claim, task.position = true, ours, positions
	return TakeOver{Positions: maps.Clone(positions), Ends: ends, TopicIDs: at.ids}, nil
}

// begin notes as whom the task is taken over: the whole of it is done under one generation.
func (g *Group) begin(t Task) (*ownedTask, PreparedSet, identity, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	task := g.owned[t]
	switch {
	case g.want == nil || g.identity.generation < 0:
		return nil, PreparedSet{}, identity{}, ErrLost
	case task == nil && (g.between || !g.follow.IsZero()):
		// Released after the sync that the caller has heard of; the next one is on its way.
		return nil, PreparedSet{}, identity{}, fmt.Errorf("%w: the task has been released", ErrRebalancing)
	case task == nil:
		return nil, PreparedSet{}, identity{}, ErrLost
	}
	for _, set := range g.want.Sets {
		if set.Name == t.Set {
			return task, set, g.identity, nil
		}
	}
	return nil, PreparedSet{}, identity{}, fmt.Errorf("set %q is not declared", t.Set)
}

// readClaims reads who owned the task's source partitions, by source. A position without a claim of
// ours has none.
func (g *Group) readClaims(ctx context.Context, id identity, t Task, set PreparedSet) (map[string]claim, error) {
	offsets, err := g.fetchOffsets(ctx, id, t.Partition, set.Sources, false)
	if err != nil {
		return nil, err
	}
	claims := map[string]claim{}
	for source, c := range offsets {
		parsed, ok, err := parseClaim(c.metadata)
		if err != nil {
			return nil, &RefusedError{codeLostState, fmt.Sprintf("the committed position of %s-%d in group %q carries %v; run the newest version of the sidecar",
				source, t.Partition, g.cfg.Group, err)}
		}
		if ok {
			claims[source] = parsed
		}
	}
	return claims, nil
}

// checkGeneration asks whether our generation is still the newest: 0, or 27 when a next one is only
// being built. A coordinator that is loading answers 0 to any heartbeat without looking. So a SyncGroup
// has to confirm it: that one is told 14 then, and once more our share in a stable generation of ours.
func (g *Group) checkGeneration(ctx context.Context, id identity) error {
	var answered int16
	err := g.step(ctx, id, func(ctx context.Context) (int16, error) {
		answer, err := g.client.ToGroup(ctx, g.cfg.Group, g.heartbeat(id))
		if err != nil {
			return 0, err
		}
		if answered = answer.(*kmsg.HeartbeatResponse).ErrorCode; answered == 0 {
			if answer, err = g.client.ToGroup(ctx, g.cfg.Group, g.syncRequest(id)); err != nil {
				return 0, err
			}
			answered = answer.(*kmsg.SyncGroupResponse).ErrorCode
		}
		if answered == 27 {
			return 0, nil
		}
		return answered, nil
	})
	if errors.Is(err, ErrRebalancing) && !g.movedOn(id) {
		// 22, and it was not our own loop that went on to the next generation.
		g.hurry()
		return fmt.Errorf("%w: %w", ErrLost, codeError(answered, onHeartbeat, g.cfg.Group))
	}
	return err
}

// syncRequest asks for our share of a generation.
func (g *Group) syncRequest(id identity) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group = g.cfg.Group
	req.Generation = id.generation
	req.MemberID = id.member
	req.InstanceID = g.instance()
	req.ProtocolType = kmsg.StringPtr(protocolType)
	req.Protocol = kmsg.StringPtr(protocolName)
	return req
}

// movedOn tells that our own loop has gone on to another generation, or is about to.
func (g *Group) movedOn(id identity) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.between || g.identity != id
}

// fence ends the transactions of owners that have not let go. A claim of at_least_once is not
// fenced: there is nothing to fence it with.
func (g *Group) fence(ctx context.Context, id identity, claims map[string]claim) error {
	ids := map[string]bool{}
	for _, c := range claims {
		if c.Guarantee == ExactlyOnce && !c.Released && c.Incarnation != id.incarnation {
			ids[TransactionalID(g.cfg.Group, c.Incarnation)] = true
		}
	}
	for _, transactional := range slices.Sorted(maps.Keys(ids)) {
		if err := g.fenceOne(ctx, id, transactional); err != nil {
			return err
		}
	}
	return nil
}

// TransactionalID is that of one incarnation of a member; it is never used by another.
func TransactionalID(group, incarnation string) string { return group + "-" + incarnation }

// fenceOne repeats until the former owner's transactions are ended, or our membership is over: then the
// transactional id may be that of a new owner's next life.
func (g *Group) fenceOne(ctx context.Context, id identity, transactional string) error {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID = &transactional
	req.TransactionTimeoutMillis = 10_000
	req.ProducerID, req.ProducerEpoch = -1, -1
	for attempt := 0; ; attempt++ {
		if g.current().incarnation != id.incarnation {
			return ErrLost
		}
		limited, cancel := context.WithTimeout(ctx, offsetsLimit)
		answer, err := g.client.ToTransaction(limited, transactional, req)
		cancel()
		if err == nil {
			code := answer.(*kmsg.InitProducerIDResponse).ErrorCode
			err = &kafka.Error{Code: code, What: fmt.Sprintf("fencing the transactional id %q", transactional)}
			switch code {
			case 0:
				g.log.Info("fenced the transactions of the task's former owner", "transactional_id", transactional)
				return nil
			case 53: // TRANSACTIONAL_ID_AUTHORIZATION_FAILED
				g.log.Warn(fmt.Sprintf("no right to fence transactional id %q: waiting for its transaction to end by itself; "+
					"grant Write on transactional ids with the prefix %q to this user", transactional, g.cfg.Group+"-"))
				return nil
			case 14, 15, 16:
				g.client.ForgetCoordinator(kafka.Transaction, transactional)
			case 51: // CONCURRENT_TRANSACTIONS: the former transaction is being ended
			default:
				if !kafka.Retriable(err) {
					return &RefusedError{codeKafkaRefused, err.Error()}
				}
			}
		} else if !kafka.Retriable(err) {
			return err
		}
		if !kafka.Pause(ctx, attempt) {
			return final(ctx, err)
		}
	}
}

func (g *Group) newClaim(id identity, set PreparedSet, ids map[string][16]byte) claim {
	c := claim{Incarnation: id.incarnation, Guarantee: g.cfg.Guarantee, Sources: map[string]string{}, Tables: map[string]string{}}
	for _, source := range set.Sources {
		c.Sources[source] = shortID(ids[source])
	}
	for _, table := range set.Tables {
		if !table.Source {
			c.Tables[table.Topic] = shortID(ids[table.Topic])
		}
	}
	return c
}

// commitClaim commits the unchanged positions with our claim, under the generation that was checked.
func (g *Group) commitClaim(ctx context.Context, id identity, t Task, positions map[string]int64, c claim) error {
	metadata, err := c.encode()
	if err != nil {
		return &RefusedError{codeBadDeclaration, fmt.Sprintf("set %q: %v", t.Set, err)}
	}
	return g.step(ctx, id, func(ctx context.Context) (int16, error) {
		return g.commitOffsets(ctx, id, t, positions, metadata)
	})
}

// ends captures the high watermarks of the changelogs. Whoever wrote before us is out by now.
func (g *Group) ends(ctx context.Context, t Task, set PreparedSet) (map[string]int64, error) {
	ends := map[string]int64{}
	var tps []kafka.TopicPartition
	for _, table := range set.Tables {
		if !table.Source {
			tps = append(tps, kafka.TopicPartition{Topic: table.Topic, Partition: t.Partition})
		}
	}
	if len(tps) == 0 {
		return ends, nil
	}
	last, err := g.offsets(ctx, kafka.Latest, tps)
	if err != nil {
		return nil, fmt.Errorf("capturing the ends of the changelogs: %w", err)
	}
	for _, table := range set.Tables {
		if !table.Source {
			ends[table.Name] = last[table.Topic]
		}
	}
	return ends, nil
}
