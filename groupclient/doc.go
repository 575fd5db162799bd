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
// Taking over is a list of steps: claims → our generation → fences → our producer → stable positions →
// where to start → our claim → ends. Under exactly once positions travel inside transactions, which are
// another's business: Transactional says what one has to commit, directly before it is sent, Transacted
// that it was, and Fenced that its producer is fenced, which ends the membership. What may stand in Kafka
// as a claim of ours that is not released keeps its task claimed in the group (parting) until Run has
// written the release.
//
// The leader: what each member says of itself → partition counts → the claims of tasks, where members
// declare a set differently → assignor.Target, Transition, Validate → the group's record is measured →
// SyncGroup. What waits is logged when it begins and when it is over.
//
// INVARIANT: TakeOver reads claims, checks its generation (which a SyncGroup confirms), fences, has our
// producer initialised, reads stable offsets, commits the claim and captures the ends, in this order.
// INVARIANT: the producer of an incarnation is initialised once, before the first claim of that incarnation is
// sent: a fence of a claim that was read holds for ever.
// INVARIANT: under exactly once a task whose claim may stand unreleased is claimed in the group until a release
// of it is acknowledged, or the membership is over.
// INVARIANT: a release never takes a position back, also where the end of a transaction is not known.
// INVARIANT: no claim that is not released is written after the release.
// INVARIANT: a follow-up join is never sent before the SyncGroup of the generation is answered.
// INVARIANT: a repeated JoinGroup has the same bytes.
// INVARIANT: after a loss nothing is claimed and no commit of a lost task is sent.
// INVARIANT: nothing that the offsets topic would not store is sent.
//
// What must never be: a JoinGroup that understates what is owned, a commit without a generation, a
// heartbeat that waits for a handler.
package groupclient
