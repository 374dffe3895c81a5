package rlockotel

import (
	"context"
	"errors"
	"regexp"
	"runtime/debug"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/go-rlock/rlock"
)

// scope is the name of the instrumentation: the path of this module.
const scope = "github.com/go-rlock/rlock/rlockotel"

// version returns the version of this module in a program, and nothing if that is not known: in a checkout, in a module that is replaced by
// a directory, or in a program without build information.
func version(program *debug.BuildInfo, ok bool) string {
	if !ok {
		return ""
	}
	for _, m := range append(program.Deps, &program.Main) {
		if m.Path != scope {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		return strings.TrimSuffix(m.Version, "(devel)")
	}
	return ""
}

// sentinels are the errors of which error.type has the name. If an error matches several, the first one counts, so that error.type and
// rlock.outcome agree.
var sentinels = []struct {
	err  error
	name string
}{
	{rlock.ErrNoPermits, "rlock.ErrNoPermits"},
	{rlock.ErrNotAcquired, "rlock.ErrNotAcquired"},
	{rlock.ErrNotReplicated, "rlock.ErrNotReplicated"},
	{rlock.ErrUnavailable, "rlock.ErrUnavailable"},
	{rlock.ErrLost, "rlock.ErrLost"},
	{rlock.ErrNotHeld, "rlock.ErrNotHeld"},
	{rlock.ErrClosed, "rlock.ErrClosed"},
	{rlock.ErrInvalidName, "rlock.ErrInvalidName"},
	{rlock.ErrInvalidOption, "rlock.ErrInvalidOption"},
	{rlock.ErrReentered, "rlock.ErrReentered"},
	{rlock.ErrUpgrade, "rlock.ErrUpgrade"},
	{context.Canceled, "context.Canceled"},
	{context.DeadlineExceeded, "context.DeadlineExceeded"},
}

// redisPrefix matches the prefix of an error of Redis, such as NOPERM.
var redisPrefix = regexp.MustCompile(`^[A-Z]{2,16}\b`)

// errorType returns the attribute error.type of a failure.
func errorType(err error) attribute.KeyValue {
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return semconv.ErrorTypeKey.String(s.name)
		}
	}
	if prefix := redisPrefix.FindString(reason(err)); prefix != "" {
		return semconv.ErrorTypeKey.String(prefix)
	}
	return semconv.ErrorTypeOther
}

// reason returns the text of the innermost error, which does not name the lock: the errors around it do.
func reason(err error) string {
	for {
		switch wrapper := err.(type) { //nolint:errorlint // it goes down the chain
		case interface{ Unwrap() []error }:
			all := wrapper.Unwrap()
			if len(all) == 0 {
				return err.Error()
			}
			err = all[len(all)-1]
		case interface{ Unwrap() error }:
			inner := wrapper.Unwrap()
			if inner == nil {
				return err.Error()
			}
			err = inner
		default:
			return err.Error()
		}
	}
}
