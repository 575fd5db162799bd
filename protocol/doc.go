// Package protocol holds the words that the sidecar and its worker exchange, and nothing else.
//
// Control messages are JSON text messages with a "type"; data are binary frames (package frame).
// spec/PROTOCOL.md is the specification; spec/codes.json is the only source of types and codes.
//
// Flow: Encode turns a message into the bytes of one text message, Decode turns bytes into a
// message. Both check the same rules, which stand as tags at the fields in messages.go: a field
// without omitempty must be there, a rule tag bounds its value.
//
// INVARIANT: Decode never panics and never returns a message that breaks a rule; what Encode
// returns, Decode accepts.
//
// The package is pure: bytes in, values out. It must never do I/O nor import anything but the
// standard library.
package protocol

//go:generate go run ../internal/codegen/gen ..
//go:generate go run ../internal/specgen/gen ..
