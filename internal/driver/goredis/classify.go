package goredis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// transientPrefixes lists the prefixes of temporary Redis errors: the script did not run, and a retry may succeed.
var transientPrefixes = []string{
	"LOADING", "BUSY ", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MISCONF", "NOSCRIPT", "MASTERDOWN",
	"max number of clients reached",
}

// stalePrefixes lists the prefixes of Redis errors that a stale topology could explain.
var stalePrefixes = []string{"MOVED ", "ASK ", "READONLY", "CLUSTERDOWN", "MASTERDOWN"}

// classify returns an error of go-redis with everything on which the next step depends. It returns nil for nil.
func (d *Driver) classify(err error) *fault.Error {
	if err == nil {
		return nil
	}
	f := &fault.Error{Fate: fault.InDoubt, Err: err, Stale: stale(err)}
	var reply redis.Error
	switch {
	case errors.As(err, &reply):
		f.Fate, f.Code = fault.Rejected, code(reply.Error())
		if brokeOff(reply) {
			f.Fate = fault.Partial
		}
		f.Transient = d.temporary(err)
	case errors.Is(err, fault.ErrReply): // the command ran, but its outcome is not known
	default:
		f.Transient = !errors.Is(err, redis.ErrClosed) && !untrusted(err)
		if unsent(err) {
			f.Fate = fault.NotSent
		}
	}
	return f
}

// beforeSending classifies an error that came before any call was sent. Where a server did reply to a question about the
// topology, its error keeps its fate.
func (d *Driver) beforeSending(err error) *fault.Error {
	f := d.classify(err)
	if f.Fate == fault.InDoubt {
		f.Fate = fault.NotSent
	}
	return f
}

// temporary reports whether the same command may succeed later, although a server rejected it now.
func (d *Driver) temporary(err error) bool {
	if d.cluster != nil && (redis.HasErrorPrefix(err, "MOVED ") || redis.HasErrorPrefix(err, "ASK ")) {
		return true // the client stopped following redirections, and its topology is being refreshed
	}
	return begins(err, transientPrefixes) || brokeOff(err)
}

// brokeOff reports whether a script stopped after it may have changed something: the slot of its keys was moving, and a
// missing key may be at the other node.
func brokeOff(err error) bool { return strings.Contains(err.Error(), "non local key") }

// begins reports whether a server's error has one of the prefixes. Before Redis 7, the error of a command inside a
// script comes behind a text about the script.
func begins(err error, prefixes []string) bool {
	fromScript := redis.HasErrorPrefix(err, "Error running script") || redis.HasErrorPrefix(err, "@user_script")
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		return redis.HasErrorPrefix(err, prefix) || fromScript && strings.Contains(err.Error(), ": -"+prefix)
	})
}

// code returns the [fault.Error.Code] of a server's error.
func code(text string) string {
	if strings.Contains(text, "WRONGTYPE") { // miniredis puts other text before it
		return "WRONGTYPE"
	}
	text = strings.TrimPrefix(text, "ERR ")
	if strings.HasPrefix(text, "The user executing the script can't run") {
		return "NOPERM" // Redis 7.0 words it differently inside a script
	}
	if strings.HasPrefix(text, "Error running script") || strings.HasPrefix(text, "@user_script") {
		if _, inner, found := strings.Cut(text, ": -"); found {
			text = strings.TrimPrefix(inner, "ERR ")
		}
	}
	if strings.HasPrefix(text, "The user executing the script can't ") {
		return "NOPERM" // which Redis 6 and 7.0 say only of a command that is not in a script
	}
	first, _, _ := strings.Cut(text, " ")
	if redis.IsAuthError(errors.New(text)) && first != "WRONGPASS" {
		return "NOAUTH" // a proxy words this error differently
	}
	return first
}

// unsent reports whether a command that no server answered cannot have been executed.
func unsent(err error) bool {
	if errors.Is(err, redis.ErrClosed) || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) ||
		untrusted(err) {
		return true
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// untrusted reports whether a TLS handshake failed because the server's certificate is not accepted.
func untrusted(err error) bool {
	var refused *tls.CertificateVerificationError
	return errors.As(err, &refused)
}

// stale reports whether a stale topology could explain an error.
func stale(err error) bool {
	var reply redis.Error
	if errors.As(err, &reply) {
		return begins(err, stalePrefixes)
	}
	return broken(err)
}

// broken reports whether an error is about a connection, rather than about a command or a reply.
func broken(err error) bool {
	var network net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network)
}

// unreplicated returns the error of a call that ran, but that too few replicas acknowledged. err is why Redis refused
// WAIT; it is nil if replicas were just too slow.
func (d *Driver) unreplicated(err error, format string, args ...any) *fault.Error {
	why := fmt.Errorf("%w: %s", fault.ErrNotReplicated, fmt.Sprintf(format, args...))
	f := &fault.Error{Fate: fault.Unreplicated, Err: why}
	if err != nil {
		refused := d.classify(err)
		f.Code, f.Stale, f.Err = refused.Code, refused.Stale, fmt.Errorf("%w: %w", why, err)
	}
	return f
}

// failed returns the reply of a call that failed.
func failed(err *fault.Error) wire.Reply { return wire.Reply{N: -1, Err: err} }
