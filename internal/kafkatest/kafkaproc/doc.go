// Package kafkaproc runs real Kafka brokers as child processes: one, or a
// cluster, of any version from 3.3 on (KRaft), on 127.0.0.1.
//
// Flow: Prepare resolves the broker's jars with Maven (once per version), lays
// down a formatted storage directory to copy from, and makes a class data
// archive that brings a start from 2.7 s to about 1.4 s. All of it is kept in
// .cache/kafka/<version> of the checkout, made under a file lock, so that
// parallel test binaries wait for one of them. New lays out a cluster, Start
// starts it, and each Node can be killed, stopped, paused and started again on
// the same data and the same port.
//
// Order: a Node's methods are called by one goroutine at a time. Start returns
// when the node answers Metadata and lists itself (Kafka.Start: when every node
// lists all). Coordinators may not be there yet, as with any new Kafka.
//
// With Config.Secure each node also listens with TLS, SASL and client
// certificates, and an authorizer allows only what ACLs say; the plain listener
// stays the admin's door. Users and ACLs are made when Kafka.Start has its nodes.
//
// INVARIANT: a broker never outlives the process that started it, whichever way
// that ends: the kernel kills it (Linux; elsewhere Close must be reached).
// INVARIANT: two test binaries never hand out one port: a port is kept by a
// file lock until Close, below the range that outgoing connections use.
package kafkaproc
