//go:build !linux

package cli

import "syscall"

// ownGroup starts a worker in a process group of its own. When we are killed with SIGKILL it finds
// its socket closed, and is not ended otherwise.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
