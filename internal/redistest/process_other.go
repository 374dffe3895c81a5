//go:build unix && !linux

package redistest

import "syscall"

// processAttr keeps an interrupt of the terminal from the servers.
func processAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
