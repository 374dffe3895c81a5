package cli

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/cmd/rlock/internal/deploy"
)

// The exit codes. Those above 63 are the ones of sysexits.h.
const (
	exitNo          = 1
	exitUsage       = 64
	exitUnavailable = 69
	exitFailed      = 70
	exitNotAcquired = 75
	exitLost        = 76
	exitNotRunnable = 126
	exitNotFound    = 127
	exitSignal      = 128 // and the number of the signal
)

// exit is an error with an exit code. A nil error has nothing to say.
type exit struct {
	code int
	err  error
	// interrupted means that Ctrl-C ended the program, so this process has to end by that signal too. Otherwise a shell would go on with
	// its loop.
	interrupted bool
}

// Error implements error.
func (e *exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

// Unwrap returns the error.
func (e *exit) Unwrap() error { return e.err }

func usage(err error) error { return &exit{code: exitUsage, err: err} }

// outcome returns the exit code of an error, and what to say.
func outcome(err error) (code int, text string) {
	var exit *exit
	var network net.Error
	switch {
	case err == nil:
		return 0, ""
	case errors.As(err, &exit):
		return exit.code, exit.Error()
	case errors.Is(err, errWrite) && errors.Is(err, syscall.EPIPE):
		return exitFailed, "" // nobody reads
	case errors.Is(err, errWrite):
		return exitFailed, "cannot write the output: " + lastOf(err)
	case errors.Is(err, deploy.ErrConfig), errors.Is(err, rlock.ErrInvalidOption), errors.Is(err, rlock.ErrInvalidName):
		return exitUsage, err.Error()
	case errors.Is(err, rlock.ErrUnavailable), errors.As(err, &network), errors.Is(err, context.DeadlineExceeded), isTemporary(err):
		return exitUnavailable, err.Error()
	}
	return exitFailed, err.Error()
}

// isTemporary reports whether the catalog's own commands met a server that cannot answer now, or a connection that ended.
func isTemporary(err error) bool {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	for _, text := range []string{"LOADING", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "BUSY ", "EOF", "redis: all sentinels", "redis: cannot load cluster slots"} {
		if strings.HasPrefix(err.Error(), text) {
			return true
		}
	}
	return false
}
