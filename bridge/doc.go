// Package bridge is the websocket server that the worker connects to.
//
// # Flow
//
// Server listens on loopback or a Unix socket, refuses what is no worker (Host, Origin, token,
// subprotocol, in this order), and upgrades. Each connection has two goroutines: a reader, which
// is the HTTP handler's, and one writer. The reader checks every message before anything else sees
// it, gathers writes frames into the buffer of their commit, and calls the Handler. The writer
// takes from two lanes: control first, then data in order.
//
//	session --Send----------> control lane --\
//	session --SendInStream--> data lane ------ writer --> socket --> reader --> Handler --> session
//	pumps --gate--Enqueue---> data lane --/                             \--> buffer of the commit
//
// # Order
//
// Control messages keep their order and overtake data. What is in the data lane keeps its order; a
// frame or message whose gate is closed by the time it is taken out is dropped, and a frame's
// credit given back. Calls of a Handler never overlap: Connected first, Disconnected last, and the
// Disconnected of an older connection before the Connected of the one that takes its place.
//
// # Drain
//
// POST /drain is the other thing that can be asked for here, by whoever may be a worker: the sidecar
// hands everything over, the answer says how that went, and the server stops behind it.
//
// # Liveness
//
// Only a closed socket is death. The server pings so that a path that drops idle connections keeps
// this one, but a pong that does not come means nothing: a worker may block its event loop for as
// long as the session's progress clock lets it. WriteTimeout therefore has to be longer than that
// clock; zero means never.
//
// # Memory
//
// What one connection can hold is bounded; Config.MemoryBound is the sum:
//
//   - data lane: MaxQueuedData and one frame, however much the worker grants
//   - control lane: MaxQueuedControl; past it the connection is closed
//   - writes: MaxBufferedWrites + MaxCommitBytes, then credit is withheld: what the worker may
//     still send is Window.Connection and one frame
//   - the message being read: the larger of MaxFrame and MaxControl
//
// # What must never be
//
// INVARIANT: nothing of a closed gate is written after a message that was sent after the close.
// INVARIANT: a commit that lost a frame for any reason carries Writes.Err, or the connection ends.
// INVARIANT: bytes that the worker may send and buffered bytes stay within the bound above.
// INVARIANT: who asked for a drain gets an answer before the server stops.
// INVARIANT: no input, however hostile, reaches the Handler unless it decodes and is allowed.
package bridge
