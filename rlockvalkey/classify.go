// Code generated from rlockrueidis by internal/twin; DO NOT EDIT.

package rlockvalkey

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/valkey-io/valkey-go"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/fault"
)

// classify returns an error of valkey-go with everything on which the next step depends. It returns nil for nil.
//
// valkey-go gives the same error to commands that were written before their connection broke, and to others that were not. So nearly all
// are in doubt.
func (d *conn) classify(err error) *fault.Error {
	if err == nil {
		return nil
	}
	if reply, ok := valkey.IsValkeyErr(err); ok {
		return d.rejected(err, reply.Error())
	}
	if errors.Is(err, valkey.ErrNoCache) { // in front of it is what the server replied to a new connection
		replied, _, _ := strings.Cut(err.Error(), valkey.ErrNoCache.Error())
		f := d.rejected(err, replied)
		f.Fate = fault.NotSent
		return f
	}
	var refused *tls.CertificateVerificationError
	var op *net.OpError
	untrusted := errors.As(err, &refused)
	f := &fault.Error{Fate: fault.InDoubt, Err: err, Stale: broken(err)}
	f.Transient = !untrusted
	if errors.Is(err, valkey.ErrClosing) && d.closed() {
		f.Transient, f.Err = false, fault.LibraryClosed(err)
	}
	if untrusted || errors.Is(err, fault.ErrNoConnection) || errors.Is(err, valkey.ErrNoSlot) || errors.As(err, &op) && op.Op == "dial" {
		f.Fate = fault.NotSent
	}
	return f
}

// rejected classifies an error that a server replied.
func (d *conn) rejected(err error, text string) *fault.Error {
	if d.cluster {
		return driver.Rejected(err, text, true)
	}
	return driver.Alone(driver.Rejected(err, text, false), "valkey.NewClient without ForceSingleClient")
}

// closed reports whether the client is closed. Calls get the same error if valkey-go has just closed the connections to a master that
// another one replaced.
func (d *conn) closed() bool {
	ctx, cancel := context.WithTimeout(context.Background(), d.timeout)
	defer cancel()
	return d.client == nil || errors.Is(d.client.Do(ctx, d.client.B().Arbitrary("PING").Blocking()).NonValkeyError(), valkey.ErrClosing)
}

// broken reports whether an error is about a connection, rather than about a command or a reply.
func broken(err error) bool {
	var network net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) || errors.Is(err, valkey.ErrNoSlot)
}

// unknownScript reports whether a server does not know a script's digest.
func unknownScript(r valkey.ValkeyResult) bool {
	reply, ok := valkey.IsValkeyErr(r.Error())
	return ok && driver.UnknownScript(reply.Error())
}
