// Package drill breaks a whole Pillion group on a real Kafka, for as long as one likes, and proves that
// nothing is lost or doubled. docs/reliability.md says what is promised, what is checked and what came out.
//
// Flow: Schedule (pure, of a seed) says which faults come when; Run plays it in waves on a lab: three
// brokers behind fault proxies, four pairs of a sidecar and a worker (two in Python, two in Node), a load whose right answer is
// computed here (Answer, pure). Everything that is seen goes into a History, with its time. After each wave
// the faults are healed, the inputs are consumed, the pairs drain, everything is read back into Facts, and
// Check (pure) says what is violated. Count (pure, of the history) says which faults hit something: a
// commit, a restore, a take-over or a rebalance that was pending at that instant. Others do not count.
//
//	make drill                                          a short one
//	make drill FAULTS=1000 SEED=7 GUARANTEE=exactly_once
//
// What must never be: a process that outlives the drill, a fault that counts without evidence in the
// history, a check that is left out because a fault made it hard.
package drill
