//go:build unix

package main

import (
	"os"
	"syscall"
)

// memory returns how much memory an ended process had at most, in KiB on Linux.
func memory(s *os.ProcessState) int64 {
	usage, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return int64(usage.Maxrss) //nolint:unconvert // it has 32 bits elsewhere
}
