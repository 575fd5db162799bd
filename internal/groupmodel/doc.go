// Package groupmodel is Kafka's coordinator of one classic consumer group as a pure, deterministic
// model: time and requests in, answers out. It is for tests, and nothing of the sidecar imports it.
//
// Flow: Ask hands in one request with a token; what it gives back are answers, each with the token of
// its request. JoinGroup and SyncGroup may stay unanswered until a later Ask, Tick or Move answers them.
// Deadline says when Tick has something to do. The same calls give the same answers.
//
// What the model holds to be true is put as data: Table (state x request -> code) and testdata/*.txt,
// scripts of whole histories. A test runs each script against the model on a fake clock; with the build
// tag "kafka" the same scripts run against a real broker, and every answer has to be the same.
//
// What a real broker of 4.4 does and one would not expect; each has its script:
//
//   - A member that was given an id and has not joined yet holds up the rebalance until its session
//     ends (half-joined.txt).
//   - The rebalance timeout runs twice: for the members to join, and, from the end of the joining on, for
//     each of them to send its SyncGroup. Who has not is dropped, even when the group is Stable since
//     (late-sync.txt).
//   - A member that is in JoinGroup or SyncGroup has no session timeout. It begins anew with the answer.
//     Only the first JoinGroup of a member ends after five minutes.
//   - OffsetCommit counts as a heartbeat while the group is Stable or PreparingRebalance (commit-beats.txt).
//   - A group that everybody has left makes one more generation, the empty one (last-leaves.txt).
//   - A static member that comes back to a Stable group gets the old plan under its new id, even when it
//     subscribes to something else (static.txt).
//   - A coordinator that moves (or restarts) forgets everything since the last plan was stored: the group
//     is Stable again in its last generation, with the members of then, whose sessions begin anew
//     (restart.txt). While it loads it answers 14, but 0 to every heartbeat, without a look (as read in its
//     source: no script can time that).
//
// INVARIANT: a generation is made once: two answers to JoinGroup with the same generation have the same
// leader and, to the leader, the same members (unless the coordinator has moved, or a static member came back).
// INVARIANT: nothing is answered twice.
//
// Left out: several protocols, authorization, the new group protocol, group.initial.rebalance.delay.ms
// (it is 0), the limit of a group's record.
package groupmodel
