// Package fetch reads many partitions by raw record batches, straight into columnar frames.
//
// Flow: Add starts one pump goroutine for a partition. The pump asks for the partition's leader,
// checks that its log still holds what was read before (topic id, leader epoch), and takes a seat
// at the node of that leader. Each node sends Fetch requests for its seats from two loops: one for
// partitions that have a backlog, which never waits at the broker, and one for partitions at their
// end, which waits there for new records. The response is parsed as it streams in; each partition's
// record bytes are read into a buffer of its own and queued at the seat. The pump checks and
// decodes the batches into frames and hands them to its Sink, which blocks as it likes: meanwhile at
// most one further buffer is fetched for that partition, and the others go on.
//
// Order: the frames of a partition are given in order, each base the next offset of the one before.
// Progress follows the frames of its response; Stopped comes last, once.
//
// Errors: what may pass is retried inside, for ever and with a pause: connections, leaders that
// move, brokers that are away. What must be decided by the caller stops the partition with one of
// the typed errors in errors.go. A broker is not trusted: what it claims is checked, and answers that
// bring nothing where something should be, or should have been waited for, are followed by pauses.
//
// Memory: a partition's share is BufferBytes/2 divided by the number of partitions, at most
// PartitionBytes; its first buffer is always allowed. A second one, and what a batch is larger than
// the share, come from the other half of BufferBytes, which is only taken when there is room; a pump
// that has waited long for its sink loses its buffer to another that has none, and fetches it again.
// Decompressed bytes live in a few decoders that all pumps share; a pump that waits for its sink
// lends its decoder to others, and decompresses again when it was used.
//
// INVARIANT: a buffer of a failed exchange is never used again, because its connection may still
// write to it.
// INVARIANT: no record at or past Until, of an aborted transaction, or of a control batch is in a
// frame, and the position passes all of them.
// INVARIANT: a partition whose sink blocks does not keep another from being fetched and decoded.
// INVARIANT: no number that the bytes claim is allocated before it is checked against the bytes
// that are there and against a limit.
//
// The package must never skip ahead of records that it could not read, nor hold an object per record.
package fetch
