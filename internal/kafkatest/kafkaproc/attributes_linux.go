package kafkaproc

import "syscall"

// childAttributes: the broker dies with us however we end, and the terminal's
// Ctrl-C reaches only us.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
