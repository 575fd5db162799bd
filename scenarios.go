// Package pillion holds the files of spec/ that a program needs when it runs elsewhere.
package pillion

import "embed"

// Scenarios are the cases that `pillion conformance` plays, one file each; spec/scenarios/README.md
// says what their lines mean.
//
//go:embed spec/scenarios/*.jsonl
var Scenarios embed.FS
