// Package produce writes commits of the worker to Kafka: each record exactly once in its partition,
// in the order of the commit, or an answer that says otherwise. A Producer writes at least once: the
// records, whose positions somebody else commits afterwards. Its Transactions write records and
// positions together, or nothing.
//
// Flow: Write and Commit parse a commit's frames and refuse what Kafka would refuse (plan.go), and pack
// the records into batches of one partition each (batch.go). outcome.go is the table of what Kafka's
// codes mean for a batch; sender.go lets batches for one broker share a request; tails.go and gap.go say
// whether somebody else has written to a changelog.
//
// At least once: batches are queued on their lanes (lane.go), one lane for each partition. A lane sends
// its batches one after the other, each under the producer id, epoch and sequence that it got when it
// was first sent, and repeats a batch until the broker gives a definite answer. Batches of one partition
// land in the order in which their commits were given to Write. Between partitions there is no order. A
// batch whose end cannot be told within DeliveryTimeout makes its commit an *UnknownError, but it stays
// at the head of its lane until Kafka has answered: nothing else is written to that partition before,
// so that a late landing can never come after newer records. UnknownError.Ended tells when.
//
// Transactions: Commit queues a unit (unit.go). The owner, Run, makes one transaction after the other
// (transaction.go), each of all units that wait then:
//
//	AddPartitionsToTxn   all partitions at once; 51 while the markers of the transaction before land:
//	                     again after 5 to 10 ms, and units that come meanwhile join
//	Produce              one batch of a partition under way, partitions in parallel (txn_write.go);
//	                     small outputs of several units share batches (txn_merge.go)
//	AddOffsetsToTxn      when the first batch of each partition is there, beside the others
//	(the tail check)     did each batch of a changelog land where it had to
//	TxnOffsetCommit      to the group's coordinator, with the generation of this moment (txn_positions.go)
//	EndTxn               until it has a definite answer (txn_end.go), and beside it the leader epochs
//
// A unit that cannot be committed fails alone: the transaction is aborted, and the others go into the
// next one. One that has not ended when a transaction comes near its timeout goes apart from the others.
// ask.go says what the coordinators' codes mean. Only the transaction coordinator says that the producer
// is fenced; what brokers and the group's coordinator say (47, 48) ends in an abort, at which it is asked.
//
// INVARIANT: a batch that may have reached a broker is repeated with the same producer id, epoch and
// sequence, or never again.
// INVARIANT: a lane changes its producer id only when every batch it has sent has a definite answer.
// INVARIANT: a *RejectedError means that no record of the commit is or will be in Kafka (of a unit:
// visible in it).
// INVARIANT: TxnOffsetCommit is sent when every produce is acknowledged, and EndTxn is the next request.
// INVARIANT: a unit that was answered as not written is in no transaction whose commit is sent.
// INVARIANT: after a request of a transaction that was sent and not answered, the epoch changes before
// the next one begins: by InitProducerId with our id and epoch, after an EndTxn with an answer. With
// (-1, -1) it goes out only until it has succeeded once, for a fenced sidecar must not take its id back.
//
// What must never be: a retry under a new sequence while an older attempt may still land; a second
// batch of a partition under way; a lock held during I/O; an EndTxn that commits after a failure.
package produce
