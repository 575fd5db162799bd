// Package session decides what one worker session does: it turns what the group, the worker and the
// data path report into what they shall do next.
//
// Machine is pure: Step takes the time and one Event and returns Effects; the same events give the
// same effects. Runner owns the Machine, feeds it one event at a time and carries the effects out;
// what takes time (Kafka) runs beside the loop and comes back as an event.
//
// Flow of a task that the group gives us: take over (claims, positions, ends) -> assign -> opened ->
// restore every table to its end -> restored -> ready -> feed records -> commits. And back: revoke ->
// last commits -> released -> the release is written -> the group may hand the task on.
//
// A copy: the group makes us a standby -> assign -> opened -> every table is followed for ever. When the
// group makes us the active it is promoted: take over, while the copy goes on following -> each table goes
// on to the end that the take-over has captured -> promoted, behind the last frame -> ready -> records.
// And back: an active that owes nothing is demoted in place; one that does is revoked, and copied after
// its release.
//
// Promoted and demoted end an epoch in the data stream. Until the worker speaks of the new one it may be in
// the old: what must not overtake them (revoke, reset) goes behind them, and lost names both epochs.
//
// What must never be:
//
// INVARIANT: a task is opened only while no commit of an earlier epoch of it, nor of an earlier
// connection, is without an answer, and nothing of one that was answered as unknown can still land.
// INVARIANT: records of a task flow only after its own tables and all global tables have reached
// their ends and the worker has said ready.
// INVARIANT: commits of a task are answered in order; when one is not committed, all later ones of
// its epoch fail alike, and the task gets a new epoch.
// INVARIANT: after the membership is lost nothing of its tasks is committed. After any other lost no
// commit of the epoch begins; those that had arrived whole before come to their ends.
// INVARIANT: a copy is promoted when each of its tables has reached the end that was captured after our
// claim, and only then; it goes on from where it is.
// INVARIANT: a copy claims nothing and commits nothing. It ends at once, and outlives the membership.
// INVARIANT: a table of a new epoch goes on behind the last frame of the former one that was queued, or
// behind the last commit; that frame is not dropped.
// INVARIANT: the follow-up join (ReleaseTasks) comes after the release was written or can no longer be.
package session
