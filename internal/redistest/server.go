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

// Server is a redis-server process that ends with the test.
type Server struct {
	Addr    string
	TLSAddr string // empty means no TLS
	Port    int
	// Proxy is in front of the server for clients, sentinels and replicas. Nil means that they connect directly.
	Proxy *Proxy

	tb   testing.TB
	dir  string
	args []string
	env  []string // in addition to the test's

	mu      sync.Mutex
	process *os.Process   // nil means not running
	ended   chan struct{} // closed when the process has ended
}

// program returns the name of the server program.
func program() string { return cmp.Or(os.Getenv("RLOCK_REDIS_SERVER"), "redis-server") }

// debugging returns the setting that enables DEBUG. Redis 6.2 does not know the setting, and always enables DEBUG.
var debugging = sync.OnceValue(func() []string {
	version, _ := exec.Command(program(), "--version").Output()
	if strings.Contains(string(version), " v=6.") {
		return nil
	}
	return []string{"--enable-debug-command", "yes"}
})

// Start starts a server with additional settings, such as "--maxmemory", "1mb". The server ends with the test.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return newServer(tb, freePort(tb), args...).started()
}

// StartBehindProxy starts a server and a proxy in front of it. The server announces the proxy's port by the settings that
// announce names.
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

// given records the ports that freePort has returned, because two tests may ask before either listens.
var given sync.Map

// freePort returns a port that is free, like its cluster bus port, which is 10,000 higher. Both are below the range that the
// system uses for outgoing connections. The tests open many of those, and one on a server's port would keep the server from
// starting.
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

// Public returns the address that other processes use: the proxy's if there is one, otherwise the server's.
func (s *Server) Public() string {
	if s.Proxy != nil {
		return s.Proxy.Addr
	}
	return s.Addr
}

// Run starts the server again after Kill. It has only the data that its settings persist, by default none.
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
	EventuallyWithin(s.tb, 20*time.Second, name+" replies", func() bool { return ping(rdb) })
}

// Kill ends the server at once, with SIGKILL, and waits until it has ended.
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

// Pause stops the process with SIGSTOP. It keeps its connections and replies to nothing until Resume.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume continues a paused process.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		s.tb.Fatal("the server is not running")
	}
	if err := s.process.Signal(sig); err != nil {
		s.tb.Fatal(err)
	}
}

// Client returns a client of the server that is closed with the test.
func (s *Server) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	return Open(tb, &redis.Options{Addr: s.Addr})
}
