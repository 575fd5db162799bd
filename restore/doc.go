// Package restore replays the topics behind tables to a fixed end, and follows them after it.
//
// Flow: Start gives a request a goroutine (replay.go). It checks the store's checkpoint against the
// log (check.go), fixes the end, and adds the partition to the fetcher, whose frames go through the
// request's gate as they are. When the position reaches the end the handler hears Reached; a table
// that others write is then followed until stop is called. All that a request waits for in Kafka is
// repeated until it succeeds.
//
// The end of our own changelog is the high watermark captured by the take-over. That of a source or
// global table is the last stable offset, captured at the start, and once more when that is reached.
// INVARIANT: a restore ends by position, never by a record: markers, aborted transactions, compacted
// tails and deleted heads all end; an empty log ends at once.
//
// INVARIANT: a position that the log does not hold any more is never skipped: the store is reset and
// the log replayed from its start.
// INVARIANT: Reached is called when every frame up to the end is in the gate's queue, and only then.
// INVARIANT: each frame's base is the next offset of the frame before it.
//
// Several restores share the fetcher evenly, because it gives each partition the same share of its
// buffers, and the gate serves senders in the order in which they wait.
//
// What must never be: a handler called for a request after its Reset or Failed; a checkpoint whose
// time is later than when the store was whole.
package restore
