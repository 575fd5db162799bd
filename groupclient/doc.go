// Package groupclient is being a member of a Kafka consumer group by the classic protocol: protocol
// type "consumer", protocol name "pillion".
//
// Flow: Prepare checks a worker's declaration against Kafka (and creates changelogs); Group.Join
// makes Run join with it. Run is the one owner of the membership: find the coordinator → JoinGroup →
// (leader: plan with package assignor) → SyncGroup → Handler.Assigned → heartbeats, until the
// coordinator says 27 (join again at once, still claiming what is owned), 25 (lost), or a Release or
// a changed Join asks for a follow-up join. Nothing of this ever waits for the worker.
//
// Owned tasks: a task is claimed from the sync that gives it until Release, or until the membership
// is lost. So a JoinGroup that is sent before the session has looked at the assignment already
// claims it. TakeOver, Commit and CommitReleased come from other goroutines; they use the
// generation that is current when they are sent, and the coordinator fences them by it.
//
// The leader: what each member says of itself → partition counts → the claims of tasks, where members
// declare a set differently → assignor.Target, Transition, Validate → the group's record is measured →
// SyncGroup. What waits is logged when it begins and when it is over.
//
// INVARIANT: TakeOver reads claims, checks its generation (which a SyncGroup confirms), fences, reads
// stable offsets, commits the claim and captures the ends, in this order.
// INVARIANT: a follow-up join is never sent before the SyncGroup of the generation is answered.
// INVARIANT: a repeated JoinGroup has the same bytes.
// INVARIANT: after a loss nothing is claimed and no commit of a lost task is sent.
// INVARIANT: nothing that the offsets topic would not store is sent.
//
// What must never be: a JoinGroup that understates what is owned, a commit without a generation, a
// heartbeat that waits for a handler.
package groupclient
