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
// INVARIANT: the follow-up join (ReleaseTasks) comes after the release was written or can no longer be.
package session
