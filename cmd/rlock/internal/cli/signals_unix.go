//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// forwarded are the signals that are passed on. While rlock waits for the lock, they end it.
var forwarded = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// die ends this process by a signal, as if it had not been caught.
func die(s syscall.Signal) {
	signal.Reset(s)
	_ = syscall.Kill(os.Getpid(), s)
	time.Sleep(time.Second) // the signal comes at any moment
}
