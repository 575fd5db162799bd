// Package produce writes commits of the worker to Kafka: each record exactly once in its partition,
// in the order of the commit, or an answer that says otherwise.
//
// Flow: Write parses a commit's frames and refuses what Kafka would refuse (plan.go), packs the
// records into batches of one partition each (pack.go, batch.go) and queues these on their lanes
// (lane.go), one lane for each partition. A lane sends its batches one after the other, each under
// the producer id, epoch and sequence that it got when it was first sent, and repeats a batch until
// the broker gives a definite answer. Batches of several lanes for one broker share a request
// (sender.go). outcome.go is the table of what Kafka's codes mean for a batch.
//
// Order: batches of one partition land in the order in which their commits were given to Write.
// Between partitions there is no order.
//
// A batch whose end cannot be told within DeliveryTimeout makes its commit an *UnknownError, but it
// stays at the head of its lane until Kafka has answered: nothing else is written to that partition
// before, so that a late landing can never come after newer records. UnknownError.Ended tells when.
//
// INVARIANT: a batch that may have reached a broker is repeated with the same producer id, epoch and
// sequence, or never again.
// INVARIANT: a lane changes its producer id only when every batch it has sent has a definite answer.
// INVARIANT: a *RejectedError means that no record of the commit is or will be in Kafka.
//
// What must never be: a retry under a new sequence while an older attempt may still land; a second
// batch of a partition under way; a lock held during I/O.
package produce
