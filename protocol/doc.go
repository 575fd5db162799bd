// Package protocol holds the words that the sidecar and its worker exchange, and nothing else.
//
// Control messages are JSON text messages with a "type"; data are binary frames (package frame).
// spec/PROTOCOL.md is the specification; spec/codes.json is the only source of types and codes.
//
// The package is pure: bytes in, values out. It must never do I/O nor import anything but the
// standard library.
package protocol
