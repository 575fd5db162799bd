// Package plan runs the assignor on a group that somebody describes in JSON, without Kafka: what
// `pillion plan` prints.
//
// Flow: Read (strict JSON → Request, every mistake one sentence) → Request.Plan (assignor.Target, and
// Transition for the next generation) → Result → Result.JSON or Result.Table.
//
// INVARIANT: what Plan prints has passed the assignor's own validation.
// INVARIANT: an output's members, with their declarations and put in again, are the same plan.
//
// The package must never do I/O but on the reader and writer that it is given.
package plan
