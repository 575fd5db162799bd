// Package groupsim simulates whole groups: some sidecars, each a real session.Machine beside a small member,
// with a model of their workers, on a fake clock, in one goroutine. It is for tests, and nothing of the
// sidecar imports it.
//
// What is real: the session, the assignor with its codecs. What is a model: the coordinator (groupmodel,
// which is run against a real broker), the member (by groupclient's rules, without goroutines), the logs,
// the network, the workers. A run is made of its seed alone: the same seed gives the same history.
//
// Flow: World has a queue of what happens next. Faults come at random: workers and sidecars crash, hang,
// stop and come back, connections break, requests and answers are lost or late, the coordinator moves,
// members come and drain away, workers are replaced by ones that declare a table more; in some runs all members
// are static, copies warm up before tasks move, copies are slow. Then the faults end, and everything has to come to rest.
//
// Every second run is one of exactly_once. Its Kafka has a coordinator of transactions (txn.go), logs with open
// transactions and markers (log.go) and positions that are pending (txnoffsets.go), as brokers of 4.4 have them (a script is
// asked of both, txn_test.go); its sidecars have a transactional producer (producer.go, attempt.go, ending.go) and take tasks
// over as DESIGN says (takeover.go, exact.go).
// More goes wrong there (exactfaults.go): markers are held back, coordinators and leaders are away, answers are lost,
// writes come late, a sidecar stops or dies in the middle of a transaction and goes on, when others have its tasks.
//
// Checked at every step (each is named as an invariant where it is checked):
//
//   - never two actives of a task in one generation (kafka.go)
//   - no commit of a former owner is accepted; a new owner begins where the former has ended (kafka.go)
//   - no source record is lost; its effect comes again only after a crash of a sidecar, or where the worker
//     was told that it is unknown; under exactly_once it never does, and positions and changelogs go on together (log.go, txn.go)
//   - a commit that is answered as committed is visible, one that is answered as aborted never becomes so (producer.go)
//   - nobody fences a sidecar that is in the group: a hand-over needs none (txn.go)
//   - a task is not taken over while a transaction of its former owner is undecided, and no position is sent before
//     what belongs to it is written (kafka.go, txnoffsets.go)
//   - no record is delivered before all tables have reached the ends captured by the take-over (work.go)
//   - every revoke is answered or expires (effects.go)
//   - a store's rows equal the log at its position, and it is never ahead of the log (work.go, replay.go)
//   - when the faults have ended, everything is owned, caught up and quiet within settleWithin (rest.go)
//
// A seed that fails is printed with its history. To see it again:
//
//	go test ./internal/groupsim -run TestGroups -groupsim.seed 4711
//
// -groupsim.runs N changes the number of runs, -groupsim.from N where they begin. Mutants are mistakes made
// on purpose; a test makes sure that they are found.
package groupsim
