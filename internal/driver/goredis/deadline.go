package goredis

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// DialHook gives deadlines to connections that have none, such as those of an SSH tunnel: without them, a lost reply would keep a
// connection forever. With ReadTimeout and WriteTimeout -2, go-redis sets no deadlines for the commands of the application. It
// does set them for those of rlock, see [route], and when it receives messages.
func (detour) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
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
}

func newTimed(conn net.Conn) net.Conn {
	near, far := net.Pipe()
	t := &timed{Conn: near, beyond: conn}
	copied := func(to, from net.Conn) {
		defer func() { // the reader of the pipe notices its end
			_ = far.Close()
			_ = t.beyond.Close()
		}()
		_, _ = io.Copy(to, from)
	}
	go copied(conn, far)
	go copied(far, conn)
	return t
}

// Close closes both ends. A write to the connection may hang, and so may its Close: nothing waits for that.
func (t *timed) Close() error {
	err := t.Conn.Close()
	go func() { _ = t.beyond.Close() }()
	return err
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
