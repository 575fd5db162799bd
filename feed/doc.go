// Package feed gives the records of the source partitions of open tasks to the worker.
//
// Flow: Start adds the partition to the fetcher from its committed position; each frame waits for
// the task's gate and for the worker's credit and goes out as it is. The gate notes how far the worker
// has been given records, which bounds what it may commit.
//
// Order: frames of one partition in offset order; the first begins at the request's position, each
// later one where the one before ended.
//
// INVARIANT: a position that the log does not hold any more is never skipped: the handler hears
// LostPosition, and the request has ended.
//
// What must never be: a frame sent past a closed gate; a handler called after LostPosition or
// Failed of its request.
package feed
