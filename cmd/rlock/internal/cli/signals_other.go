//go:build !unix

package cli

import (
	"os"
	"syscall"
)

// forwarded are the signals that end a wait for the lock.
var forwarded = []os.Signal{os.Interrupt}

func die(syscall.Signal) {}
