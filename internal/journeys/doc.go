// Package journeys holds tests of whole journeys: the real binary, built with the race detector, real
// Python workers, a Kafka. It has no code of its own.
//
// The tests carry the build tag kafka, since most need a real broker (Java, Maven); those that need a
// fault in one kind of request use the in-process Kafka. All need the Python of `make setup`.
//
//	go test -tags kafka ./internal/journeys
//
// What the processes of a failed test have said is printed; JOURNEYS_LOG=1 (with -v) prints it always.
//
// Most run one reference job (job_test.go, testdata/counts.py): numbered records in; a count per key
// in a table with changelog, and one output for each record, out. Whatever is killed meanwhile, the
// check at the end is the same: every count exact, every output there once (or as often as the test
// says may be), positions at the ends, the worker's files equal to the changelog.
// Workers written with pillion.Worker have one of their own (app_job_test.go, testdata/app_lists.py): a list
// per key of all its values, which must be whole and in order, element by element.
//
// Order in a test: things are waited for by event (a line of a log, a metric, an offset), with a
// deadline. What must never be: a sleep that stands for an event, and a process that outlives its test.
package journeys
