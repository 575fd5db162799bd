package groupclient

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// releaseLinger is how long a follow-up join waits for the other tasks that are being revoked, so
// that several releases make one rebalance.
const releaseLinger = 100 * time.Millisecond

// beat waits for the next heartbeat and sends it, unless something else is due before.
func (g *Group) beat(ctx context.Context) {
	due, wanted := g.followUp()
	if warm, ok := g.warmDue(); ok && (!wanted || warm.Before(due)) {
		due, wanted = warm, true
	}
	if wanted && time.Until(due) <= 0 {
		done, err := g.part(ctx)
		switch {
		case err != nil:
			g.lose(err, false)
			return
		case done || g.passesBy():
			g.log.Debug("joining again: claims, subscription or copies have changed")
			g.rejoin()
			return
		}
		wanted = false // beats go on until it is written
	}
	wait := time.Until(g.next)
	if g.suspected() {
		wait = 0
	}
	if wanted {
		wait = min(wait, time.Until(due))
	}
	if wait > 0 {
		g.pause(ctx, wait)
		return
	}
	g.next = time.Now().Add(g.cfg.HeartbeatInterval)
	code, err := g.sendBeat(ctx)
	switch {
	case err == nil && code == 0:
		g.failures = 0
		g.lookAtCopies()
	case err == nil:
		g.next = time.Now()
		g.obey(ctx, code, onHeartbeat)
	case ctx.Err() == nil:
		g.gaveUp(ctx, err)
		g.next = time.Now()
	}
}

// sendBeat is a heartbeat. Where its 0 tells nothing, because the answers before are long ago, a SyncGroup
// asks once more; see checkGeneration.
func (g *Group) sendBeat(ctx context.Context) (code int16, err error) {
	asked, id := time.Now(), g.current()
	answer, err := g.short(ctx, g.heartbeat(id))
	if err != nil {
		return 0, err
	}
	if code := answer.(*kmsg.HeartbeatResponse).ErrorCode; code != 0 || g.stay(asked) {
		return code, nil
	}
	asked = time.Now()
	if answer, err = g.short(ctx, g.syncRequest(id)); err != nil {
		return 0, err
	}
	if code = answer.(*kmsg.SyncGroupResponse).ErrorCode; code == 0 {
		g.confirm(asked)
	}
	return code, nil
}

func (g *Group) suspected() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	suspect := g.suspect
	g.suspect = false
	return suspect
}

func (g *Group) heartbeat(id identity) *kmsg.HeartbeatRequest {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group = g.cfg.Group
	req.Generation = id.generation
	req.MemberID = id.member
	req.InstanceID = g.instance()
	return req
}

func (g *Group) current() identity {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.identity
}

// followUp tells when a follow-up join is due.
func (g *Group) followUp() (due time.Time, wanted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.follow.IsZero() {
		return time.Time{}, false
	}
	if g.urgent || !g.revoking() {
		return g.follow, true
	}
	return g.follow.Add(releaseLinger), true
}

// revoking: tasks are owned that are on their way to others.
func (g *Group) revoking() bool {
	for _, t := range g.owned {
		if !t.active || g.draining {
			return true
		}
	}
	return false
}

// leave leaves the group, if we are in it.
func (g *Group) leave(ctx context.Context, done []chan error) {
	id := g.current()
	var err error
	g.partBeforeLeaving(ctx)
	if id.member != "" || g.cfg.InstanceID != "" && id.generation >= 0 {
		err = g.sendLeave(ctx, id)
	}
	g.mu.Lock()
	g.identity = identity{generation: -1, incarnation: newIncarnation()}
	clear(g.owned)
	clear(g.parting)
	g.made, g.draining, g.newest, g.fenced = map[string]bool{}, false, -1, nil
	g.mu.Unlock()
	g.request, g.synced, g.phase = nil, -1, resting
	g.coldAgain()
	g.over()
	if err == nil { // our caller says the rest
		g.log.Info("left the group", "member", id.member)
	}
	for _, d := range done {
		d <- err
	}
}

// sendLeave tries until the session would have ended anyway.
func (g *Group) sendLeave(ctx context.Context, id identity) error {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = g.cfg.Group
	member := kmsg.NewLeaveGroupRequestMember()
	member.MemberID = id.member
	member.InstanceID = g.instance()
	member.Reason = kmsg.StringPtr("the sidecar leaves")
	req.Members = append(req.Members, member)
	req.MemberID = id.member
	for end := time.Now().Add(g.cfg.SessionTimeout); ; {
		answer, err := g.short(ctx, req)
		if err == nil {
			resp := answer.(*kmsg.LeaveGroupResponse)
			switch rule := ruleOf(resp.ErrorCode, onHeartbeat); rule {
			case ruleRetry, ruleFindCoordinator:
				g.client.ForgetCoordinator(coordinatorOf, g.cfg.Group)
				err = g.codeError(resp.ErrorCode, onHeartbeat)
			default: // left, or not a member any more
				return nil
			}
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return fmt.Errorf("leaving group %q was not answered: %w", g.cfg.Group, err)
		}
		g.again(ctx)
	}
}
