// Package child runs a program that may run only while something is held.
package child

import (
	"errors"
	"os"
	"time"
)

// OnLost is what happens to the program when the context ends.
type OnLost string

// What may happen.
const (
	Term OnLost = "term" // SIGTERM, and SIGKILL after the grace
	Kill OnLost = "kill" // SIGKILL at once
	Keep OnLost = "keep" // nothing: it goes on
)

// Program is a program and how it is run. It is run directly, not by a shell, as a process group of its own.
type Program struct {
	Path string   // of the file
	Args []string // with the name of the program as the first one
	Env  []string
	// The files become the program's own, so nothing of what it reads and writes goes through this process.
	Stdin, Stdout, Stderr *os.File
	OnLost                OnLost
	Grace                 time.Duration
	// Signals are passed on to the process group.
	Signals <-chan os.Signal
}

// ErrUnsupported means that this system has no process groups.
var ErrUnsupported = errors.New("running a program is supported on Unix only")
