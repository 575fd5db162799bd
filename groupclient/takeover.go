package groupclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
)

// step is one step of a take-over.
type step struct {
	name string
	do   func(*taking, context.Context) error
}

// takeOverSteps are the steps of a take-over. INVARIANT: their order. A test runs what can go wrong against this
// order, and against each order in which one step is left out or moved.
//
// The claims are read before the generation is checked, so that nobody of a later generation has written them,
// and nobody but an owner of before is fenced. Transactions are fenced before stable positions are read, which
// would wait for them. Our producer is initialised before our claim is written: who finds our claim and fences
// it has fenced a producer for good, which we do not initialise a second time. The ends are captured after our
// claim stands, so that whatever an earlier owner has written until then is before them; and they are the high
// watermarks, as the markers of transactions that have ended may not be there yet.
var takeOverSteps = []step{
	{"claims", (*taking).readClaims},
	{"generation", (*taking).checkGeneration},
	{"fence", (*taking).fence},
	{"begin", (*taking).beginProducer},
	{"stable", (*taking).readStable},
	{"start", (*taking).decide},
	{"claim", (*taking).writeClaim},
	{"ends", (*taking).captureEnds},
}

// taking is a take-over under way: the whole of it is done under one generation.
type taking struct {
	*Group
	t    Task
	task *ownedTask
	set  PreparedSet
	id   identity

	claims    map[string]claim     // by source
	committed map[string]committed // by source
	ids       map[string][16]byte
	positions map[string]int64
	open      string // our claim as text
	ends      map[string]int64
}

// TakeOver makes a task ours to read and to write, and says where it starts. It has to be called
// once for each time that the task is opened, after the Assigned that gave it. It fails with
// ErrRebalancing, ErrLost, a RefusedError (lost_position, lost_state, kafka_refused), or when ctx
// ends. Where it fails, its claim may be written nevertheless: Release sees to that.
func (g *Group) TakeOver(ctx context.Context, t Task) (TakeOver, error) {
	over, err := g.takeOver(ctx, t)
	if err != nil {
		return TakeOver{}, fmt.Errorf("taking over task %s: %w", t, err)
	}
	return over, nil
}

func (g *Group) takeOver(ctx context.Context, t Task) (TakeOver, error) {
	o, err := g.begin(t)
	if err != nil {
		return TakeOver{}, err
	}
	defer o.end()
	for _, step := range g.steps {
		if err := o.still(); err != nil {
			return TakeOver{}, err
		}
		if err := step.do(o, ctx); err != nil {
			return TakeOver{}, err
		}
	}
	return o.done()
}

// done makes the task one that can be committed.
func (o *taking) done() (TakeOver, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.ours(); err != nil {
		return TakeOver{}, err
	}
	o.task.taken, o.task.position, o.task.claim, o.task.open = true, o.positions, o.task.sent, o.open
	o.task.releasing, o.task.before = false, nil // our claim stands
	return TakeOver{Positions: maps.Clone(o.positions), Ends: o.ends, TopicIDs: o.ids}, nil
}

func (o *taking) end() {
	o.mu.Lock()
	o.task.taking--
	delete(o.waits, o.t)
	o.mu.Unlock()
	o.wake() // a release may wait for it
}

// ours tells whether the take-over may go on; needs mu.
func (o *taking) ours() error {
	switch {
	case o.identity.incarnation != o.id.incarnation || o.fenced != nil:
		return ErrLost
	case o.owned[o.t] != o.task:
		return fmt.Errorf("%w: the task was released meanwhile", ErrRebalancing)
	}
	return nil
}

func (o *taking) still() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ours()
}

// repeat makes a request until it is answered for good, the task is not ours any more, or ctx ends.
func (o *taking) repeat(ctx context.Context, try func(context.Context) (int16, error)) error {
	return o.Group.repeat(ctx, func(ctx context.Context) (int16, error) {
		if err := o.still(); err != nil {
			return 0, err
		}
		return try(ctx)
	})
}

// begin notes as whom the task is taken over.
func (g *Group) begin(t Task) (*taking, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	task := g.owned[t]
	switch {
	case g.want == nil || g.identity.generation < 0 || g.fenced != nil:
		return nil, ErrLost
	case task == nil && (g.between || !g.follow.IsZero() || g.parting[t] != nil):
		// Released after the sync that the caller has heard of; the next one is on its way.
		return nil, fmt.Errorf("%w: the task has been released", ErrRebalancing)
	case task == nil:
		return nil, ErrLost
	case task.unsure == g.identity.generation && g.identity.generation > 0:
		return nil, g.renew()
	}
	for _, set := range g.want.Sets {
		if set.Name == t.Set {
			task.taking++
			return &taking{Group: g, t: t, task: task, set: set, id: g.identity}, nil
		}
	}
	return nil, fmt.Errorf("set %q is not declared", t.Set)
}

// readClaims reads who owned the task's source partitions. A position without a claim of ours has none.
func (o *taking) readClaims(ctx context.Context) error {
	offsets, err := o.fetchOffsets(ctx, o.id, o.t.Partition, o.set.Sources, false)
	if err != nil {
		return err
	}
	o.committed, o.claims = offsets, map[string]claim{}
	for source, c := range offsets {
		parsed, ok, err := parseClaim(c.metadata)
		if err != nil {
			return &RefusedError{codeLostState, fmt.Sprintf("the committed position of %s-%d in group %q carries %v; run the newest version of the sidecar",
				source, o.t.Partition, o.cfg.Group, err)}
		}
		if ok {
			o.claims[source] = parsed
		}
	}
	return nil
}

func (o *taking) checkGeneration(ctx context.Context) error {
	return o.Group.checkGeneration(ctx, o.id)
}

// readStable reads positions that no open transaction may still change.
func (o *taking) readStable(ctx context.Context) (err error) {
	began := time.Now()
	req := o.offsetFetch(o.t.Partition, o.set.Sources, true)
	o.committed, err = o.readOffsets(ctx, req, o.t.Partition, o.set.Sources, func(code int16) error {
		if code == 88 && time.Since(began) >= tellAfter { // UNSTABLE_OFFSET_COMMIT
			o.waitFor(o.t, fmt.Sprintf("task %s waits for a transaction of its former owner to end, which Kafka ends after the transaction_timeout of that sidecar", o.t))
		}
		return o.still()
	})
	if err == nil {
		o.settled()
	}
	return err
}

// settled takes over what the end of a transaction that was not told has left: a task is opened anew only when its
// transactions have their ends.
func (o *taking) settled() {
	o.mu.Lock()
	defer o.mu.Unlock()
	positions := maps.Clone(o.task.position)
	for source := range positions {
		if c, ok := o.committed[source]; ok && c.offset >= 0 {
			positions[source] = c.offset
		}
	}
	o.task.position, o.task.doubt = positions, false
}

// decide looks at the topics and decides where the task starts.
func (o *taking) decide(ctx context.Context) error {
	var at found
	err := o.repeat(ctx, func(ctx context.Context) (_ int16, err error) {
		at, err = o.look(ctx, o.t, o.set)
		return 0, err
	})
	if err != nil {
		return err
	}
	at.claims, at.committed, o.ids = o.claims, o.committed, at.ids
	o.positions, err = o.cfg.positions(o.t, o.set, at)
	return err
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
		return fmt.Errorf("%w: %w", ErrLost, g.codeError(answered, onHeartbeat))
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

// writeClaim commits the unchanged positions with our claim, under the generation that was checked.
//
// INVARIANT: whatever may be written, the task knows of it before it is sent.
func (o *taking) writeClaim(ctx context.Context) error {
	ours := o.newClaim(o.id, o.set, o.ids)
	metadata, err := ours.encode()
	if err != nil {
		return &RefusedError{codeBadDeclaration, fmt.Sprintf("set %q: %v", o.t.Set, err)}
	}
	o.open = metadata
	tries := 0
	err = o.repeat(ctx, func(ctx context.Context) (int16, error) {
		if tries++; tries > 1 {
			if err := o.stillToReplace(ctx); err != nil {
				return 0, err
			}
		}
		o.mu.Lock()
		err := o.ours()
		if err == nil {
			o.task.sent, o.task.wrote, o.task.before = ours, o.positions, o.former()
			o.task.out = o.cfg.Guarantee == ExactlyOnce
		}
		o.mu.Unlock()
		if err != nil {
			return 0, err
		}
		return o.commitOffsets(ctx, o.id, o.t, o.task, o.positions, metadata, false)
	})
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.task.unsure == o.id.generation {
		return o.renew()
	}
	return nil
}

// stillToReplace: a claim that is written again may have waited long, and is not written over another's.
func (o *taking) stillToReplace(ctx context.Context) error {
	stands, err := o.fetchOffsets(ctx, o.id, o.t.Partition, o.set.Sources, false)
	if err != nil {
		return err
	}
	former := o.former()
	for source, c := range stands {
		if anothers(c.metadata, o.id.incarnation, former[source]) {
			return o.replaced(o.id.incarnation, o.t, source, c.metadata)
		}
	}
	return nil
}

// former are the incarnations whose claims stand, by source.
func (o *taking) former() map[string]string {
	former := map[string]string{}
	for source, c := range o.claims {
		former[source] = c.Incarnation
	}
	return former
}

// captureEnds captures the high watermarks of the changelogs.
func (o *taking) captureEnds(ctx context.Context) error {
	return o.repeat(ctx, func(ctx context.Context) (_ int16, err error) {
		o.ends, err = o.highWatermarks(ctx, o.t, o.set)
		return 0, err
	})
}

func (g *Group) highWatermarks(ctx context.Context, t Task, set PreparedSet) (map[string]int64, error) {
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
