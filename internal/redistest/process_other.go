//go:build unix && !linux

package redistest

import "syscall"

// processAttr shields the servers from an interrupt at the terminal.
func processAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
