package goredis

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/fault"
)

// DialHook gives deadlines to connections that have none, such as those of an SSH tunnel: without them, a lost reply would keep a
// connection forever. With ReadTimeout and WriteTimeout -2, go-redis sets no deadlines for the commands of the application. It
// does set them for those of rlock, see [route], and when it receives messages.
func (d detour) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
		end := d.dials.Begin()
		defer func() { end(conn != nil) }()
		conn, err = next(ctx, network, addr)
		if err != nil || conn == nil || conn.SetDeadline(time.Time{}) == nil {
			return conn, err
		}
		return newTimed(conn), nil
	}
}

// timed is a connection with deadlines: one end of a pipe, whose other end is copied to and from a connection without.
type timed struct {
	net.Conn

	beyond net.Conn
	broke  atomic.Pointer[error] // a panic of the connection
}

func newTimed(conn net.Conn) net.Conn {
	near, far := net.Pipe()
	t := &timed{Conn: near, beyond: conn}
	copied := func(to, from net.Conn) {
		defer func() { // the reader of the pipe notices its end
			if p := recover(); p != nil { // nobody else could, in this goroutine
				err := fault.Panicked(p)
				t.broke.Store(&err)
			}
			_ = far.Close()
			t.hangUp()
		}()
		_, _ = io.Copy(to, from)
	}
	go copied(conn, far)
	go copied(far, conn)
	return t
}

// hangUp closes the connection, whose methods may panic.
func (t *timed) hangUp() {
	defer func() { _ = recover() }()
	_ = t.beyond.Close()
}

// Close closes both ends. A write to the connection may hang, and so may its Close: nothing waits for that.
func (t *timed) Close() error {
	err := t.Conn.Close()
	go t.hangUp()
	return err
}

// Read reads from the pipe.
func (t *timed) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	if broke := t.broke.Load(); broke != nil && errors.Is(err, io.EOF) {
		err = *broke
	}
	return n, err
}

// LocalAddr is that of the connection, not of the pipe.
func (t *timed) LocalAddr() net.Addr { return t.beyond.LocalAddr() }

// RemoteAddr is that of the connection, not of the pipe.
func (t *timed) RemoteAddr() net.Addr { return t.beyond.RemoteAddr() }

// undated reports whether a command failed because its connection takes no deadline, and so was not sent: go-redis sets one before it
// writes. Such a connection was made before the hook was added.
func undated(err error) bool {
	return err != nil && (errors.Is(err, os.ErrNoDeadline) || strings.HasSuffix(err.Error(), "deadline not supported"))
}
