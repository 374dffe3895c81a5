package deploy

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"
)

// A HandshakeError means that a server was reached, but that there was no TLS handshake.
type HandshakeError struct {
	Addr  string
	Err   error
	Limit time.Duration // if it took too long, which is what a server without TLS does, or else 0
}

// Error implements error.
func (e *HandshakeError) Error() string {
	if e.Limit > 0 {
		return fmt.Sprintf("no TLS handshake within %v; a server without TLS has a URL with redis://", e.Limit)
	}
	return fmt.Sprintf("the TLS handshake failed: %v", e.Err)
}

// Unwrap returns the error.
func (e *HandshakeError) Unwrap() error { return e.Err }

// Timeout implements [net.Error], as does Temporary.
func (e *HandshakeError) Timeout() bool { return e.Limit > 0 }

// Temporary implements [net.Error].
func (e *HandshakeError) Temporary() bool { return false }

// dial connects within a time, TLS handshake included, and tells a server that is not there from one that has no TLS.
func dial(within time.Duration, secure *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		conn, err := (&net.Dialer{KeepAlive: time.Minute}).DialContext(ctx, network, addr)
		if err != nil || secure == nil {
			return conn, err
		}
		config := secure.Clone()
		if config.ServerName == "" {
			config.ServerName, _, _ = net.SplitHostPort(addr)
		}
		safe := tls.Client(conn, config)
		if err := safe.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			failure := &HandshakeError{Addr: addr, Err: err}
			if ctx.Err() != nil {
				failure.Limit = within
			}
			return nil, failure
		}
		return safe, nil
	}
}
