// Package conformance plays the sidecar against a worker process that somebody wrote, from the data
// files in spec/scenarios, and says for each case what was expected and what came.
//
// Flow: Load reads the scenarios; Run plays the chosen ones, each with a listener, a token, a
// directory and a worker process of its own. A player does one step after another. Goroutines read
// sockets, write sockets and wait for processes; what they see comes to the player as events, which it
// handles only while a step waits. Behind the player stands a small model of Kafka: logs, committed
// positions, checkpoints. What the worker commits goes there, so that a table that was restored wrongly
// shows as a wrong row.
//
//	scenario.go, value.go    the lines of a file
//	steps*.go                what each line does
//	player.go, process.go    waiting, events, the worker's process
//	server.go, wire.go       handshakes; websocket frames, whole or in nasty pieces
//	session.go, epoch.go     what the worker may say now, and credit
//	data.go                  writes and commits
//	model.go                 Kafka
//	suite.go, report.go      many cases, and what people read
//
// INVARIANT: a message or frame of the worker that breaks spec/PROTOCOL.md ends the case, whatever the
// step was waiting for.
// INVARIANT: the player itself keeps to the credit that the worker gives, and to the order of section 7.
// INVARIANT: nothing here knows a client: what is checked is in the scenarios and in PROTOCOL.md.
package conformance
