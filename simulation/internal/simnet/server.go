package simnet

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
)

// Faults are what may happen to a command, each with its probability.
type Faults struct {
	Latency   time.Duration // the usual time of a way
	Slow      float64       // a way takes up to SlowMax more
	SlowMax   time.Duration
	LostSend  float64 // the connection breaks before the command arrives
	LostReply float64 // the connection breaks after the command was executed
	Silent    float64 // nothing comes back, and the driver gives up; the command was executed or not
	Late      float64 // the driver gives up, or the connection breaks, and the command is executed up to LateMax later
	Repeated  float64 // the connection breaks after the command was executed, and it is executed again up to LateMax later
	LateMax   time.Duration
	Aim       float64 // how many times as often these happen to commands that are sent seldom; zero means as often
	Pool      int     // how many connections a process has to a server; zero means 10
}

// Server is one Redis with the network in front of it. It is safe for concurrent use.
type Server struct {
	name   string
	seed   uint64
	trace  *Trace
	faults atomic.Pointer[Faults]

	// Nobody sleeps while holding the mutex, which is that of all servers of a group.
	mu       *sync.Mutex
	redis    *simredis.Server
	ahead    time.Duration // of its clock
	down     bool
	hangs    time.Time // until when it answers nothing
	links    []*Link
	commands int

	port int64    // of its address
	kin  *kinship // with the other servers of its group; nil for a server that is alone
}

// NewServer returns an empty server.
func NewServer(name string, seed uint64, trace *Trace, faults Faults) *Server {
	s := &Server{name: name, seed: seed, trace: trace, mu: new(sync.Mutex)}
	s.faults.Store(&faults)
	s.redis = simredis.New(func() time.Time { return time.Now().Add(s.ahead) })
	return s
}

// With runs a function while nothing else happens at the server.
func (s *Server) With(f func(r *simredis.Server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.redis)
	s.replicates()
}

// Do executes a command at once, as nobody's.
func (s *Server) Do(args ...string) (reply any) {
	s.With(func(r *simredis.Server) { reply = r.Do(args...) })
	s.trace.Note("%s: %s = %v", s.name, args, reply)
	return reply
}

// Commands is how many commands of processes were executed.
func (s *Server) Commands() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commands
}

// Monitor has somebody receive what is published on all channels, as a dashboard does.
func (s *Server) Monitor() {
	s.With(func(r *simredis.Server) {
		r.SubscribePattern("*", &simredis.Subscriber{Send: func(string, string) {}, SendMatching: func(string, string, string) {}})
	})
}

// Set sets which faults happen from now on.
func (s *Server) Set(f Faults) { s.faults.Store(&f) }

// StepClock moves the clock of the server.
func (s *Server) StepClock(d time.Duration) {
	s.trace.Note("the clock of %s steps by %v", s.name, d)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// Hang has the server answer nothing for a while.
func (s *Server) Hang(d time.Duration) {
	s.trace.Note("%s hangs for %v", s.name, d)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangs = time.Now().Add(d)
}

// Snapshot returns a copy of the data.
func (s *Server) Snapshot() *simredis.DB {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.redis.DB().Clone()
}

// Stop ends the server, which breaks all connections.
func (s *Server) Stop() {
	s.trace.Note("%s stops", s.name)
	s.mu.Lock()
	s.down = true
	if r := s.redis.Following(); r != nil {
		r.Cut()
	}
	links := append([]*Link(nil), s.links...)
	s.mu.Unlock()
	for _, l := range links {
		l.BreakSubscriptions(false, 0)
	}
}

// Start starts it again with data, nil for none.
func (s *Server) Start(db *simredis.DB) {
	s.trace.Note("%s starts, with data: %v", s.name, db != nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
	s.redis.Reset(db)
	s.rejoins()
}

// IsDown reports whether the server was stopped.
func (s *Server) IsDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

// execute runs a command of a process, which may have been asked to come here by another node of a cluster. It returns how many writes there
// were up to this command, or zero if it has written nothing.
func (s *Server) execute(l *Link, args []string, asked bool) (reply any, offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands++
	if asked {
		s.redis.Do("ASKING")
	}
	before := s.redis.Offset()
	reply = s.redis.Do(args...)
	if after := s.redis.Offset(); after > before {
		offset = after
	}
	s.replicates()
	if text, failed := reply.(simredis.Err); !failed || !driver.UnknownScript(string(text)) {
		l.executed.Add(1)
	}
	s.trace.Note("%s to %s: %s = %v", l.name, s.name, command(args), reply)
	return reply, offset
}

// short is a command without the text of its script.
func short(args []string) []string {
	if args[0] == "EVAL" {
		return append([]string{"EVAL"}, args[2:]...)
	}
	return args
}
