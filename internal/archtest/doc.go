// Package archtest holds the rules of the architecture as tests: who may import whom, who may log,
// what is never linked into the sidecar, how long a file may be. It has no code of its own.
package archtest
