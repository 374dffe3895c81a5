package redistest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a redis-server process.
type Server struct {
	Addr    string
	TLSAddr string // empty: it speaks no TLS
	Port    int
	// Proxy is what clients, Sentinels and replicas reach the server through, if it stands behind one.
	Proxy *Proxy

	tb   testing.TB
	dir  string
	args []string
	env  []string // besides the test's

	mu      sync.Mutex
	process *os.Process   // nil: not running
	ended   chan struct{} // closed when it has
}

// program is what the servers run.
func program() string { return cmp.Or(os.Getenv("RLOCK_REDIS_SERVER"), "redis-server") }

// debugging is the setting by which they obey DEBUG. Redis 6.2 always does, and does not know it.
var debugging = sync.OnceValue(func() []string {
	version, _ := exec.Command(program(), "--version").Output()
	if strings.Contains(string(version), " v=6.") {
		return nil
	}
	return []string{"--enable-debug-command", "yes"}
})

// Start starts a server with these settings besides its own, as in "--maxmemory", "1mb". It ends with the test.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return newServer(tb, freePort(tb), args...).started()
}

// StartBehindProxy starts a server and a proxy before it, whose port it tells to others by the settings that announce
// names.
func StartBehindProxy(tb testing.TB, announce []string, args ...string) *Server {
	tb.Helper()
	s := newServer(tb, freePort(tb), args...)
	s.Proxy = NewProxy(tb, s.Addr)
	_, port, err := net.SplitHostPort(s.Proxy.Addr)
	must(tb, err)
	for _, setting := range announce {
		s.args = append(s.args, setting, port)
	}
	return s.started()
}

func (s *Server) started() *Server {
	s.tb.Helper()
	s.tb.Cleanup(s.Kill)
	s.Run()
	return s
}

func newServer(tb testing.TB, port int, args ...string) *Server {
	tb.Helper()
	if _, err := exec.LookPath(program()); err != nil {
		if requireRedis() {
			tb.Fatalf("RLOCK_REQUIRE_REDIS=1, but: %v", err)
		}
		tb.Skip("needs a redis-server (Debian: apt-get install redis-server)")
	}
	return &Server{Addr: fmt.Sprintf("127.0.0.1:%d", port), Port: port, tb: tb, dir: tb.TempDir(), args: args}
}

// given has the ports that freePort has given out: two tests may ask before either listens.
var given sync.Map

// freePort returns a port that nobody listens on, with its cluster bus port ten thousand above it. Both are below the
// ports that the system gives to outgoing connections, of which the tests open many: one of those would keep the
// server from starting.
func freePort(tb testing.TB) int {
	tb.Helper()
	for range 1000 {
		port := 10000 + rand.IntN(12000)
		if _, taken := given.LoadOrStore(port, true); !taken && free(port) && free(port+10000) {
			return port
		}
	}
	tb.Fatal("no free port")
	return 0
}

func free(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

// Public returns the address that others know the server by: its proxy's, if it has one.
func (s *Server) Public() string {
	if s.Proxy != nil {
		return s.Proxy.Addr
	}
	return s.Addr
}

// Run starts the server again after Kill, with what its settings make it keep: by default nothing.
func (s *Server) Run() {
	s.tb.Helper()
	s.exec(append([]string{
		"--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no",
		"--daemonize", "no", "--loglevel", "warning", "--repl-diskless-sync-delay", "0",
	}, append(debugging(), s.args...)...)...)
}

func (s *Server) exec(args ...string) {
	s.tb.Helper()
	name := program()
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.tb.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = processAttr()
	cmd.Env = append(os.Environ(), s.env...)
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // the kernel ends the server with the thread that started it
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		s.tb.Fatalf("start %s: %v", name, err)
	}
	s.mu.Lock()
	s.process, s.ended = cmd.Process, ended
	s.mu.Unlock()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, DialerRetries: 1})
	defer func() { _ = rdb.Close() }()
	EventuallyWithin(s.tb, 20*time.Second, name+" answers", func() bool { return ping(rdb) })
}

// Kill ends the server at once.
func (s *Server) Kill() {
	s.mu.Lock()
	process, ended := s.process, s.ended
	s.process = nil
	s.mu.Unlock()
	if process != nil {
		_ = process.Kill()
		<-ended
	}
}

// Pause stops the process, which keeps its connections and answers nothing until Resume.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		s.tb.Fatal("the server does not run")
	}
	if err := s.process.Signal(sig); err != nil {
		s.tb.Fatal(err)
	}
}

// Client opens a client of the server, closed with the test.
func (s *Server) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	return Open(tb, &redis.Options{Addr: s.Addr})
}
