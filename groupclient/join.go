package groupclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
)

const (
	protocolType = "consumer"
	protocolName = "pillion"

	coordinatorOf = kafka.Group
	// tooLargePause is how long the group rests when its record does not fit.
	tooLargePause = 5 * time.Second
)

// join is one JoinGroup, and the SyncGroup that follows its success.
func (g *Group) join(ctx context.Context) {
	if g.request == nil {
		if !g.partFirst(ctx) {
			return
		}
		request, err := g.buildJoin()
		switch {
		case err != nil:
			g.refuse(err)
			return
		case request == nil:
			g.phase = resting
			return
		}
		if err := g.fitsAlone(ctx, len(request.Protocols[0].Metadata)); err != nil {
			g.refuse(err)
			return
		}
		g.lookBack(ctx, request)
		g.request = request
	}
	waiting := fmt.Sprintf("group %q is rebalancing: waiting for its other members (one that died is waited for until its session of up to %s ends)",
		g.cfg.Group, g.cfg.SessionTimeout)
	answer, err := g.long(ctx, g.request, waiting)
	if err != nil {
		g.gaveUp(ctx, err)
		return
	}
	resp := answer.(*kmsg.JoinGroupResponse)
	if resp.ErrorCode == 79 { // MEMBER_ID_REQUIRED
		g.takeID(resp.MemberID)
		return
	}
	if resp.ErrorCode != 0 {
		g.obey(ctx, resp.ErrorCode, onJoin)
		return
	}
	g.failures = 0
	if err := g.missed(resp.Generation); err != nil {
		g.lose(err, false)
		return
	}
	g.mu.Lock()
	// Plain commits go on with the generation of the last sync until this one is synced; see Transactional.
	g.identity.member, g.newest = resp.MemberID, resp.Generation
	g.mu.Unlock()
	g.sync(ctx, resp)
}

// missed tells that a generation was made without us between the last one that we joined and this one, and
// notes that we have joined this one. Only a static member can miss one and still be answered: Kafka keeps it,
// with the claims of its last JoinGroup, and the leader gives what was not in those to others.
// INVARIANT: a member that has missed a generation commits nothing of before.
func (g *Group) missed(generation int32) error {
	last := g.joinedIn
	g.joinedIn = generation
	if g.cfg.InstanceID == "" || g.synced < 0 || last < 0 || generation <= last+1 {
		return nil
	}
	return fmt.Errorf("generations were made without static member %q: the last that it joined is %d, this one is %d; its tasks may be others' by now",
		g.cfg.InstanceID, last, generation)
}

// unjoined: whether the coordinator still knows the generation joined last cannot be told.
func (g *Group) unjoined() {
	g.joinedIn = g.synced
	g.mu.Lock()
	g.newest = g.synced
	g.mu.Unlock()
}

// gaveUp: a request without an answer: of a broker that cannot be used, or one that went away.
func (g *Group) gaveUp(ctx context.Context, err error) {
	var version *kafka.VersionError
	var denied *kafka.AccessError
	switch {
	case errors.As(err, &version):
		g.refuse(version)
	case errors.As(err, &denied): // of the look-up of the coordinator
		g.refuse(denied)
	case errors.Is(err, errInterrupted), errors.Is(err, errMoved), ctx.Err() != nil:
	default:
		g.again(ctx)
	}
}

// takeID repeats the JoinGroup with the member id that the coordinator has given.
func (g *Group) takeID(member string) {
	g.mu.Lock()
	g.identity.member = member
	g.mu.Unlock()
	g.request.MemberID = member
}

// sync is the SyncGroup of a generation; the leader plans before.
func (g *Group) sync(ctx context.Context, joined *kmsg.JoinGroupResponse) {
	leader := joined.LeaderID == joined.MemberID && !joined.SkipAssignment
	req := g.syncRequest(identity{member: joined.MemberID, generation: joined.Generation})
	var warnings []string
	if leader && len(joined.Members) > 0 {
		var err error
		if req.GroupAssignment, warnings, err = g.plan(ctx, joined); err != nil {
			g.unplanned(ctx, joined.Generation, err)
			return
		}
	}
	waiting := fmt.Sprintf("group %q is rebalancing: waiting for the plan of its leader %q", g.cfg.Group, joined.LeaderID)
	asked := time.Now()
	answer, err := g.long(ctx, req, waiting)
	// From here on a JoinGroup is a new one: its claims are those of this moment.
	if err != nil {
		g.request = nil
		g.unjoined()
		g.gaveUp(ctx, err)
		return
	}
	resp := answer.(*kmsg.SyncGroupResponse)
	if resp.ErrorCode != 0 {
		g.request = nil
		if resp.ErrorCode != 27 { // another coordinator has not heard of this generation, and makes it anew
			g.unjoined()
		}
		g.obey(ctx, resp.ErrorCode, onSync)
		return
	}
	g.confirm(asked)
	g.settle(ctx, joined, resp.MemberAssignment, leader, warnings)
}

// unplanned is a generation that the leader gives no plan: it joins again, and with it the others.
func (g *Group) unplanned(ctx context.Context, generation int32, err error) {
	g.log.Debug("no plan for this generation", "generation", generation, "error", err)
	g.request = nil
	var large *tooLargeError
	if errors.As(err, &large) {
		g.tell(codeKafkaRefused, large.Error()+"; trying again")
		g.waitOut(ctx, min(tooLargePause, g.cfg.SessionTimeout/2))
		return
	}
	g.tell(codeRebalance, fmt.Sprintf("group %q has no plan yet: %v; trying again", g.cfg.Group, err))
	g.again(ctx)
}

// obey does what the table says about a code of JoinGroup, SyncGroup or Heartbeat.
func (g *Group) obey(ctx context.Context, code int16, on request) {
	err := g.codeError(code, on)
	switch ruleOf(code, on) {
	case ruleRetry:
		g.again(ctx)
	case ruleFindCoordinator:
		g.client.ForgetCoordinator(coordinatorOf, g.cfg.Group)
		g.again(ctx)
	case ruleRejoin:
		g.rejoin()
		if code == 14 || code == 15 || code == 16 {
			g.client.ForgetCoordinator(coordinatorOf, g.cfg.Group)
			g.again(ctx)
		}
	case ruleNewID:
		g.lose(err, true)
	case ruleLost:
		g.lose(err, false)
	case ruleBackOff:
		g.tooLarge(ctx)
	case ruleFenced:
		forgotten := g.forgotten()
		g.lose(err, true)
		if forgotten {
			g.again(ctx)
			return
		}
		g.refuse(err)
	default:
		g.lose(err, true)
		g.refuse(err)
	}
}

// forgotten tells that FENCED_INSTANCE_ID need not mean another process: a coordinator that has moved since
// does not know the id that we were given in a generation whose plan was not stored, and still has the one
// that we had before.
func (g *Group) forgotten() bool {
	id := g.current().member
	return g.cfg.InstanceID != "" && id != "" && id != g.syncedAs && (g.request == nil || g.request.MemberID != "")
}

// rejoin builds a new JoinGroup, still claiming what is owned.
func (g *Group) rejoin() {
	g.request = nil
	g.mu.Lock()
	g.between = true
	g.mu.Unlock()
	if g.phase == stable {
		g.handler.Rebalancing()
	}
	g.phase = joining
}

// tooLarge is the answer -1 to SyncGroup: the group's record passes the limit of
// __consumer_offsets, and every member got the same.
func (g *Group) tooLarge(ctx context.Context) {
	g.rejoin()
	g.tell(codeKafkaRefused, fmt.Sprintf("kafka cannot store the plan of group %q: most likely it is larger than a record of __consumer_offsets may be; "+
		"raise message.max.bytes of the brokers (8388608), or set offsets.topic.compression.codec=1; trying again", g.cfg.Group))
	g.waitOut(ctx, tooLargePause)
}

// waitOut waits the whole time, whatever pokes, but for a Leave.
func (g *Group) waitOut(ctx context.Context, d time.Duration) {
	for end := time.Now().Add(d); time.Until(end) > 0 && ctx.Err() == nil && !g.interrupted(); {
		g.pause(ctx, time.Until(end))
	}
}

func (g *Group) instance() *string {
	if g.cfg.InstanceID == "" {
		return nil
	}
	return &g.cfg.InstanceID
}
