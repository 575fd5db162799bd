// Package transcripts plays every conversation of spec/transcripts against the real bridge and the
// real session. It has no code of its own.
//
// Flow: player takes the lines of a file in their order. What the worker says goes over a real
// websocket; a cause is made to happen in world, which stands for Kafka and the group; what the
// sidecar says is compared. Frames of the sidecar pass the gates that the session gave to its feeds
// and replays, so that a gate which should be closed, paused or without credit shows.
//
// What must never be: a line that is left out without a name and a reason (see exceptions).
package transcripts
