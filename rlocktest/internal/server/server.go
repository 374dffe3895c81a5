// Package server runs a Redis within the process, whose clock runs, and makes clients of it. It has no sockets.
package server

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
)

// Server is one server. It is safe for concurrent use.
type Server struct {
	redis *miniredis.Miniredis

	mu    sync.Mutex
	clock func() time.Time
	ahead time.Duration // of the clock, by Advance
	down  bool          // there is an outage
	conns map[net.Conn]struct{}
}

// New returns a server with the time of a clock.
func New(clock func() time.Time) *Server {
	s := &Server{redis: miniredis.NewMiniRedis(), clock: clock, conns: make(map[net.Conn]struct{})}
	s.redis.ClockTTL(true)
	s.Advance(0)
	return s
}

// Close ends the server.
func (s *Server) Close() { s.redis.Close() }

// Advance moves the server's clock ahead of the other clocks by d more. Nothing else moves it but time, and nobody asks for the time while no
// command is sent. So a bubble of testing/synctest with an idle client passes an hour at once.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
	s.redis.SetTime(s.clock().Add(s.ahead))
}

// Client returns a client of the server, and what closes it.
func (s *Server) Client(opts []rlock.Option) (locks *rlock.Client, stop func(), err error) {
	// go-redis looks the host up, also if it does not dial. A name would be asked of the network, outside any bubble.
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", Dialer: s.dial, DisableIdentity: true, MaxRetries: -1})
	if locks, err = rlock.New(rdb, opts...); err != nil {
		_ = rdb.Close()
		return nil, nil, err
	}
	return locks, func() {
		_ = locks.Close()
		_ = rdb.Close()
	}, nil
}

// Outage breaks all connections and refuses new ones, or ends that.
func (s *Server) Outage(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
	for conn := range s.conns {
		if down {
			_ = conn.Close()
			delete(s.conns, conn)
		}
	}
}

var errOutage = errors.New("rlocktest: an outage")

func (s *Server) dial(context.Context, string, string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, errOutage
	}
	conn, err := s.redis.Dial()
	if err != nil {
		return nil, err
	}
	s.conns[conn] = struct{}{}
	return timed{conn, s}, nil
}

// timed is a connection whose commands find the server's clock set.
type timed struct {
	net.Conn
	server *Server
}

// Write implements [net.Conn].
func (t timed) Write(b []byte) (int, error) {
	t.server.Advance(0)
	return t.Conn.Write(b)
}
