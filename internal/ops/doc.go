// Package ops serves the probes and metrics of a sidecar. GET only, no keys, no values.
//
//	/startupz      200 once this listener is up
//	/livez         200 while the session's loop turns: also while draining and while Kafka is away
//	/readyz        200 when a worker is attached and the sidecar is a member; ?verbose says what is missing
//	/worker-livez  200 unless the worker is hung: a probe for the worker's container
//	/metrics       Prometheus; docs/metrics.md lists every one
//
// Startup must never depend on the worker: in a pod the worker is started after it.
package ops
