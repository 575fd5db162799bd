package groupclient

import (
	"context"
	"reflect"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/assignor"
)

// A static member (group.instance.id) that comes back within its session gets its old share again, and no
// rebalance is made: also when it declares something else now. The broker does not tell that. So before
// its first join the group is asked what its predecessor declared; if that is not the same, a follow-up
// join makes a new plan.

// lookBack notes whether the share that a returning static member is about to get was planned for
// another declaration. Without an answer it takes what it gets.
func (g *Group) lookBack(ctx context.Context, request *kmsg.JoinGroupRequest) {
	g.outdated = false
	if g.cfg.InstanceID == "" || g.synced >= 0 {
		return
	}
	ours, err := assignor.DecodeSubscription(request.Protocols[0].Metadata)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, shortLimit)
	defer cancel()
	v, err := describe(ctx, g.client, g.cfg.Group)
	if err != nil {
		g.log.Debug("what a predecessor declared is not known", "error", err)
		return
	}
	for _, m := range v.Members {
		if m.Instance == g.cfg.InstanceID && v.State == "Stable" {
			g.outdated = !reflect.DeepEqual(m.Sets, ours.Sets) || !reflect.DeepEqual(m.Globals, ours.Globals) || m.NoStandby != ours.NoStandby
		}
	}
}

// catchUp asks for a follow-up join when the share was planned for another declaration. Needs g.mu.
func (g *Group) catchUp() {
	if g.outdated {
		g.follow, g.urgent = time.Now(), true
	}
	g.outdated = false
}
