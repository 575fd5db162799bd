// Package kafka is the connection to Kafka: raw requests through kafka-go's Transport, sent to a
// node that this package looked up itself.
//
// kafka-go's Transport pools connections. Everything else is done here, because there it is wrong,
// too old or too slow: TLS, SASL, versions, routing, leaders, coordinators, deadlines, repeats after a
// lost connection, and error codes.
//
// A connection is admitted before the Transport gets it: dialled, encrypted, authenticated, with what
// the files of Security hold at that moment (authenticator.go). It authenticates again by itself before
// the request that would come too late (conn.go). Who is not admitted gets a SecurityError, and who
// lacks a right an AccessError: each is one sentence that says what to do.
//
// Flow: a caller gives Do (or ToGroup, Any, ...) a kmsg request, or Exchange a codec of its own.
// The node's address is taken from our Metadata, the version from the ApiVersions answer of that
// very broker, the bytes are made in the caller's goroutine, and a connection of the broker's own
// pool carries them (exchange.go). A lost connection drops the whole pool of that broker, for its
// other idle connections died with it, and the request is sent again over a new one.
//
// Requests may thus be sent twice. Every request of Kafka that we use bears that; those of a
// producer do so by their sequence numbers.
//
// INVARIANT: no read and no write of a socket is without a deadline.
// INVARIANT: when a call has returned, nothing touches its request or its buffers any more, also
// when it was cancelled.
// INVARIANT: a version that a broker does not offer is never sent to it, nor one so old that it
// silently drops a field that we rely on.
// INVARIANT: the leader epoch known of a partition never goes back while its topic id is the same.
// INVARIANT: no secret is in an error or a log line.
// INVARIANT: after Close no connection and no goroutine is left.
//
// Error codes inside an answer are the caller's, except in the calls of this package that say
// otherwise (ListOffsets, Coordinator, ...). Connection failures are errors, and Retriable.
package kafka
