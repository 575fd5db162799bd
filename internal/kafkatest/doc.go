// Package kafkatest gives tests a Kafka to talk to, and the few things a test
// wants to do with it from the outside.
//
// Two kinds of Kafka:
//
//   - Fake starts an in-process cluster (kfake) in a millisecond. It can be
//     told to misbehave (kfake.Cluster.Fault, Control, MoveTopicPartition), and
//     it needs nothing but Go.
//   - Broker and Cluster start real Kafka brokers from Maven artifacts. They
//     exist only with the build tag "kafka", so that `go test ./...` needs
//     neither Java nor Maven. The process itself is in package kafkaproc, and
//     can be had by hand with the command in realkafka.
//
// The helpers (Produce, ReadAll, CommittedOffsets, ...) use franz-go and not
// the code under test: what a test believes of Kafka must come from somebody
// else. All of them take the bootstrap addresses, work on both kinds, and end
// the test with a sentence when Kafka does not answer in time.
//
// Order: everything that a function here starts has ended when the test has
// ended, before its t.TempDir is removed. What must never be: a broker that
// outlives the test binary, or a helper that waits without a deadline.
package kafkatest
