// Package faultproxy stands between clients and one Kafka broker, and breaks what passes.
//
// Flow: a Proxy listens before its broker has started, so that the broker can advertise the proxy's
// address; each connection is a link of two pumps, which pass one whole frame at a time. Kafka's frames
// are a length, an API key (of requests) and a correlation id: so it knows which request is in flight,
// for whom, and can cut a link in the middle of a request or of an answer of one kind. Where the
// connection is TLS, the proxy ends it and begins another one to the broker (SCRAM does not mind).
//
// Faults: Arm cuts one request of some kinds at one stage; CutAll cuts every link at once; Set delays,
// throttles, or makes links half-open, for some clients or for all, until it is set back.
//
// What must never be: a link or a goroutine that outlives Close, or a frame that is passed on in part
// but for a cut.
package faultproxy
