package cli

import "syscall"

// ownGroup starts a worker in a process group of its own. It dies with us, however we die.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
