package redistest

import "syscall"

// processAttr keeps an interrupt of the terminal from the servers, and lets the kernel end them with the tests, even
// when those panic. The thread that starts a server must live as long as it, see Server.exec.
func processAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
