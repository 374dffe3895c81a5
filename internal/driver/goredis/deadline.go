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
}

func newTimed(conn net.Conn) net.Conn {
	near, far := net.Pipe()
	copied := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // the reader of the pipe notices its end
		_ = far.Close()
		_ = conn.Close()
	}
	go copied(conn, far)
	go copied(far, conn)
	return timed{near, conn}
}

// LocalAddr and RemoteAddr are those of the connection, not of the pipe.
func (t timed) LocalAddr() net.Addr  { return t.beyond.LocalAddr() }
func (t timed) RemoteAddr() net.Addr { return t.beyond.RemoteAddr() }

// undated reports whether a command failed because its connection takes no deadline, and so was not sent: go-redis sets one before it
// writes. Such a connection was made before the hook was added.
func undated(err error) bool {
	return err != nil && (errors.Is(err, os.ErrNoDeadline) || strings.HasSuffix(err.Error(), "deadline not supported"))
}
