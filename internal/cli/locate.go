package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pillion/pillion/assignor"
	"github.com/pillion/pillion/groupclient"
	"github.com/pillion/pillion/produce"
	"github.com/pillion/pillion/protocol"
	"github.com/pillion/pillion/session"
)

const (
	// viewFor is how long what the coordinator said is an answer, and how soon it is asked again.
	viewFor = time.Second
	// locateWithin is how long it may take to answer.
	locateWithin = 3 * time.Second
	// groupStable is the state of a group whose members have their shares. The others: PreparingRebalance,
	// CompletingRebalance, Empty, Dead.
	groupStable = "Stable"
)

// locator tells who holds a key: the session's Locator. It asks the group's coordinator, which knows
// every member's metadata and share of the plan, and keeps the answer for a while. While the group
// rebalances the coordinator tells no shares: what it told before is said then, as stale.
//
// INVARIANT: an answer that is not stale was asked for after the last change of the group that this
// sidecar has heard of, and the group was stable.
type locator struct {
	describe func(ctx context.Context, group string) (groupclient.View, error)
	now      func() time.Time
	asking   sync.Mutex // held while the coordinator is asked: one question at a time

	mu       sync.Mutex
	changes  int  // of the group
	changing bool // a generation is being built
	last     described
	stable   described // the newest one of a stable group
}

// described is an answer of the coordinator.
type described struct {
	view    groupclient.View
	err     error
	at      time.Time
	changes int // when it was asked for
}

func newLocator(describe func(context.Context, string) (groupclient.View, error)) *locator {
	return &locator{describe: describe, now: time.Now}
}

// Locate finds the members that hold a task.
func (l *locator) Locate(ctx context.Context, ask session.Whereabouts) (protocol.Located, error) {
	view, stale, err := l.judge(ask.Group, l.newest(ctx, ask.Group))
	if err != nil {
		return protocol.Located{}, groupError(err)
	}
	return located(view, ask, stale), nil
}

func (l *locator) newest(ctx context.Context, group string) described {
	if d, ok := l.recent(group); ok {
		return d
	}
	l.asking.Lock()
	defer l.asking.Unlock()
	if d, ok := l.recent(group); ok { // somebody has asked meanwhile
		return d
	}
	return l.ask(ctx, group)
}

// recent is the newest answer of the coordinator, if it need not be asked again.
func (l *locator) recent(group string) (described, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.last
	return d, d.view.Group == group && d.changes == l.changes && l.now().Sub(d.at) < viewFor
}

func (l *locator) ask(ctx context.Context, group string) described {
	ctx, cancel := context.WithTimeout(ctx, locateWithin)
	defer cancel()
	l.mu.Lock()
	d := described{changes: l.changes}
	l.mu.Unlock()
	d.view, d.err = l.describe(ctx, group)
	d.view.Group = group
	l.mu.Lock()
	defer l.mu.Unlock()
	d.at = l.now()
	l.last = d
	if d.err == nil && d.view.State == groupStable {
		l.stable = d
	}
	return d
}

// judge chooses what is said: the newest answer, or the one before it that still says something.
func (l *locator) judge(group string, newest described) (view groupclient.View, stale bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rebalancing := newest.err == nil && strings.HasSuffix(newest.view.State, "Rebalance")
	if (newest.err != nil || rebalancing) && l.stable.view.Group == group {
		return l.stable.view, true, nil
	}
	stale = l.changing || newest.changes != l.changes || newest.view.State != groupStable
	return newest.view, stale, newest.err
}

// changed hears that the group has a new generation, or that one is being built.
func (l *locator) changed(changing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	l.changing = changing
}

// located picks a task out of a view.
func located(v groupclient.View, ask session.Whereabouts, stale bool) protocol.Located {
	partition := produce.KeyPartition(ask.Key, ask.Set.Partitions)
	if ask.Partition != nil {
		partition = *ask.Partition
	}
	task := assignor.Task{Set: unitedKey(v, ask.Set.Sources), Partition: partition}
	out := protocol.Located{
		Set: ask.Set.Name, Partition: partition, Stale: stale,
		Task: session.TaskID{Set: ask.Set.Name, Partition: partition}.String(),
	}
	for _, m := range v.Members {
		if slices.Contains(m.Active, task) {
			out.Active = &protocol.Holder{Member: m.ID, Address: m.Address}
		}
		if slices.Contains(m.Standby, task) {
			lag := m.Lag(task)
			if lag == assignor.UnknownLag {
				lag = -1
			}
			out.Standbys = append(out.Standbys, protocol.Shadow{Member: m.ID, Address: m.Address, Lag: min(lag, protocol.MaxInteger)})
		}
	}
	slices.SortStableFunc(out.Standbys, func(a, b protocol.Shadow) int {
		return cmp.Compare(uint64(a.Lag), uint64(b.Lag)) // -1, not known, is last
	})
	return out
}

// unitedKey is the group's name of the set with these sources: members may declare it differently.
func unitedKey(v groupclient.View, sources []string) string {
	for _, u := range v.Sets {
		for _, s := range sources {
			if slices.Contains(u.Sources, s) {
				return u.Key
			}
		}
	}
	return assignor.Key(sources)
}

// seen tells the locator what the member hears.
type seen struct {
	groupclient.Handler
	locator *locator
}

func (s seen) Assigned(a groupclient.Assignment) {
	s.locator.changed(false)
	s.Handler.Assigned(a)
}

func (s seen) Rebalancing() {
	s.locator.changed(true)
	s.Handler.Rebalancing()
}

func (s seen) Lost(code string, err error) {
	s.locator.changed(false) // what others do is seen at the coordinator
	s.Handler.Lost(code, err)
}

func (s seen) Fatal(err error) {
	s.locator.changed(false)
	s.Handler.Fatal(err)
}
