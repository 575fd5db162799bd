package groupclient

import "fmt"

// Fenced says that the producer of an incarnation is fenced: whoever did it has taken a task of ours over, and
// counts on nothing of that incarnation being written any more. Every task is lost at once: nothing is committed
// from here on, Run says Lost and joins again under a new incarnation. Nothing happens when the incarnation is
// over already.
//
// The member id is kept, and the new JoinGroup claims nothing: where the coordinator still has this member,
// nobody waits for the end of a session, and where it has not, it says so. A static member does not put itself
// in the place of another process that has joined with its group_instance_id since: that answers its JoinGroup
// with FENCED_INSTANCE_ID.
func (g *Group) Fenced(incarnation string, why error) {
	g.endIncarnation(incarnation, fmt.Errorf("the producer of this sidecar was fenced: %w", why))
}

// replaced ends a membership of which another has taken a task over without its knowledge.
func (g *Group) replaced(ours string, t Task, source, metadata string) error {
	err := fmt.Errorf("another sidecar has taken task %s over, and this one was not told: beside the position of %s-%d stands %.60q", t, source, t.Partition, metadata)
	g.endIncarnation(ours, err)
	return fmt.Errorf("%w: %w", ErrLost, err)
}

// endIncarnation gives an incarnation up: see Fenced.
func (g *Group) endIncarnation(incarnation string, why error) {
	g.mu.Lock()
	current := g.identity.incarnation == incarnation
	if current && g.fenced == nil {
		g.fenced = why
		clear(g.owned)
		clear(g.parting)
	}
	g.mu.Unlock()
	if current {
		g.wake()
	}
}

// takeFenced is why the present incarnation has to end, or nil.
func (g *Group) takeFenced() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fenced
}
