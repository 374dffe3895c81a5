package redistest

import "syscall"

// processAttr shields the servers from an interrupt at the terminal. It also makes the kernel kill them when the tests end,
// even in a panic. The thread that starts a server must live as long as the server, see Server.exec.
func processAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
