package goredis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
)

// classify returns an error of go-redis with everything on which the next step depends. It returns nil for nil.
func (d *Driver) classify(err error) *fault.Error {
	if err == nil {
		return nil
	}
	var reply redis.Error
	if errors.As(err, &reply) {
		return d.rejected(err, reply.Error())
	}
	f := &fault.Error{Fate: fault.InDoubt, Err: err, Stale: broken(err) || errors.Is(err, fault.ErrNoAnswer)}
	if errors.Is(err, fault.ErrReply) { // the command ran, but its outcome is not known
		return f
	}
	f.Transient = !untrusted(err)
	if errors.Is(err, redis.ErrClosed) {
		f.Transient, f.Err = false, fault.LibraryClosed(err)
	}
	if unsent(err) {
		f.Fate = fault.NotSent
	}
	return f
}

// rejected classifies an error that a server replied.
func (d *Driver) rejected(err error, text string) *fault.Error {
	if d.cluster != nil {
		f := driver.Rejected(err, text, true)
		if strings.HasSuffix(text, "cluster support disabled") {
			f.Err = fmt.Errorf("this server is no cluster: use redis.NewClient: %w", f.Err)
		}
		return f
	}
	return driver.Alone(driver.Rejected(err, text, false), "redis.NewClusterClient")
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

// broken reports whether an error is about a connection, rather than about a command or a reply.
func broken(err error) bool {
	var network net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network)
}
