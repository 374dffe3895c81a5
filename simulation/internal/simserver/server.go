// Package simserver serves a simulated Redis on the network in memory, as redis-server does on a real one: it listens, speaks RESP 2 and 3,
// and can be killed, paused, and started with other data.
package simserver

import (
	"net"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/testkit/simredis"
	"github.com/go-rlock/rlock/simulation/internal/memnet"
)

// Server is a server of its own, which runs from the start. It is safe for concurrent use.
type Server struct {
	// Port is where it listens.
	Port int

	mu       sync.Mutex
	redis    *simredis.Server
	listener net.Listener
	paused   chan struct{}
	opened   int64 // connections so far
	ahead    time.Duration
	stopped  time.Time // at which its clock stands; zero means it runs
	ran      func(id int64, args []string)
	serving  sync.WaitGroup
}

// Start starts an empty server on a port of its own. ran is told each command, with the number of its connection.
func Start(ran func(id int64, args []string)) *Server {
	s := &Server{Port: memnet.NewPort(), ran: ran}
	s.redis = simredis.New(s.clock)
	s.Run()
	return s
}

func (s *Server) clock() time.Time {
	if !s.stopped.IsZero() {
		return s.stopped
	}
	return time.Now().Add(s.ahead)
}

// Run starts the server after Kill.
func (s *Server) Run() {
	l, err := memnet.Listen(s.Port)
	if err != nil {
		panic(err) // its port is nobody else's
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener = l
	s.serving.Go(func() { s.accept(l) })
}

func (s *Server) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.listener == l {
			s.serve(conn)
		} else {
			_ = conn.Close()
		}
		s.mu.Unlock()
	}
}

// Kill ends the server at once, with all that it has. It does nothing if the server does not run.
func (s *Server) Kill() {
	s.mu.Lock()
	l := s.listener
	s.listener = nil
	if l != nil {
		_ = l.Close()
	}
	s.redis.Reset(nil) // ends all connections
	s.resume()
	s.mu.Unlock()
	s.serving.Wait()
}

// Pause has the server do nothing until Resume. It keeps its connections, and takes new ones.
func (s *Server) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused == nil {
		s.paused = make(chan struct{})
	}
}

// Resume ends Pause.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resume()
}

func (s *Server) resume() {
	if s.paused != nil {
		close(s.paused)
		s.paused = nil
	}
}

// Data returns a copy of the data.
func (s *Server) Data() *simredis.DB {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.redis.DB().Clone()
}

// Restart kills the server, and starts it again with a copy of other data.
func (s *Server) Restart(data *simredis.DB) {
	s.Kill()
	s.mu.Lock()
	s.redis.Reset(data.Clone())
	s.mu.Unlock()
	s.Run()
}

// SetAhead moves the server's clock ahead of the true time, or behind.
func (s *Server) SetAhead(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = by
}

// StopClock has the server's clock stand at a time.
func (s *Server) StopClock(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = at
}

// awaitResume waits while the server is paused. It returns with s.mu locked.
func (s *Server) awaitResume() {
	for {
		s.mu.Lock()
		paused := s.paused
		if paused == nil {
			return
		}
		s.mu.Unlock()
		<-paused
	}
}
