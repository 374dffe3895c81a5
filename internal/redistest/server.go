package redistest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock/internal/redistest/host"
)

// Server is a redis-server process, or a simulated server if time is virtual. It ends with the test.
type Server struct {
	Addr    string
	TLSAddr string // empty means no TLS
	Port    int
	// Proxy is in front of the server for clients, sentinels and replicas. Nil means that they connect directly.
	Proxy *Proxy

	tb        testing.TB
	simulated host.Server // nil means that it is a process

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
	if host.Virtual {
		return startSimulated(tb, args...)
	}
	return startFirst(tb, func() *Server { return newServer(tb, args...) })
}

// StartBehindProxy starts a server and a proxy in front of it. The server announces the proxy's port by the settings that
// announce names.
func StartBehindProxy(tb testing.TB, announce []string, args ...string) *Server {
	tb.Helper()
	if host.Virtual {
		s := startSimulated(tb, args...)
		s.Proxy = NewProxy(tb, s.Addr)
		return s
	}
	return startFirst(tb, func() *Server {
		s := newServer(tb, args...)
		s.Proxy = NewProxy(tb, s.Addr)
		_, port, err := net.SplitHostPort(s.Proxy.Addr)
		must(tb, err)
		for _, setting := range announce {
			s.args = append(s.args, setting, port)
		}
		return s
	})
}

// startFirst starts a new server, which ends with the test. If the server ends at once, because another program has taken its
// port meanwhile, another one is made.
func startFirst(tb testing.TB, create func() *Server) *Server {
	tb.Helper()
	for range 4 {
		s := create()
		tb.Cleanup(s.Kill)
		if s.launch(s.settings()...) {
			return s
		}
		tb.Logf("the server on port %d ended at once: %s", s.Port, s.lastWords())
	}
	tb.Fatalf("%s does not start", program())
	return nil
}

// startSimulated starts a server in virtual time.
func startSimulated(tb testing.TB, args ...string) *Server {
	tb.Helper()
	if len(args) > 0 {
		NeedsRealServer(tb, "the settings "+strings.Join(args, " "))
	}
	simulated := host.Start()
	tb.Cleanup(simulated.Kill)
	port := simulated.Port()
	return &Server{Addr: fmt.Sprintf("127.0.0.1:%d", port), Port: port, tb: tb, simulated: simulated}
}

func newServer(tb testing.TB, args ...string) *Server {
	tb.Helper()
	if os.Getenv("RLOCK_NO_REDIS") == "1" {
		tb.Skip("RLOCK_NO_REDIS=1")
	}
	if _, err := exec.LookPath(program()); err != nil {
		if requireRedis() {
			tb.Fatalf("RLOCK_REQUIRE_REDIS=1, but: %v", err)
		}
		tb.Skip("needs a redis-server (Debian: apt-get install redis-server)")
	}
	port := freePort(tb)
	return &Server{Addr: fmt.Sprintf("127.0.0.1:%d", port), Port: port, tb: tb, dir: tb.TempDir(), args: slices.Clone(args)}
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
	if s.simulated != nil {
		s.simulated.Run()
		return
	}
	if !s.launch(s.settings()...) {
		s.tb.Fatalf("%s does not start again: %s", program(), s.lastWords())
	}
}

func (s *Server) settings() []string {
	return append(append([]string{
		"--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no",
		"--daemonize", "no", "--loglevel", "warning", "--repl-diskless-sync-delay", "0",
	}, debugging()...), s.args...)
}

// lastWords returns the end of the server's log.
func (s *Server) lastWords() string {
	log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return string(log[max(0, len(log)-500):])
}

// launch starts the process, and waits until it replies. It reports false if the process ends instead.
func (s *Server) launch(args ...string) bool {
	s.tb.Helper()
	ended := s.spawn(args...)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, DialerRetries: 1})
	defer func() { _ = rdb.Close() }()
	failed := false
	EventuallyWithin(s.tb, 20*time.Second, program()+" replies", func() bool {
		select {
		case <-ended:
			failed = true
		default:
		}
		return failed || ping(rdb)
	})
	info := rdb.Info(context.Background(), "server").Val()
	if !failed && !strings.Contains(info, fmt.Sprintf("process_id:%d\r", s.process.Pid)) {
		select { // perhaps another server has the port and replied, so that this one ends
		case <-ended:
			failed = true
		case <-time.After(time.Second): // a script that runs the server has another pid
		}
	}
	return !failed
}

// spawn starts the process, and returns a channel that is closed when it has ended.
func (s *Server) spawn(args ...string) <-chan struct{} {
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
	defer s.mu.Unlock()
	s.process, s.ended = cmd.Process, ended
	return ended
}

// Kill ends the server at once, with SIGKILL, and waits until it has ended.
func (s *Server) Kill() {
	if s.simulated != nil {
		s.simulated.Kill()
		return
	}
	s.mu.Lock()
	process, ended := s.process, s.ended
	s.process = nil
	s.mu.Unlock()
	if process != nil {
		_ = process.Kill()
		<-ended
	}
}

// Snapshot returns what the server has now, for [Server.Restore].
func (s *Server) Snapshot() []byte {
	s.tb.Helper()
	if s.simulated != nil {
		return s.simulated.Snapshot()
	}
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer func() { _ = rdb.Close() }()
	must(s.tb, rdb.Save(context.Background()).Err())
	path := filepath.Join(s.dir, "dump.rdb")
	snapshot, err := os.ReadFile(path)
	must(s.tb, err)
	must(s.tb, os.Remove(path)) // later starts begin empty
	return snapshot
}

// Restore kills the server, and starts it again with what a snapshot has.
func (s *Server) Restore(snapshot []byte) {
	s.tb.Helper()
	if s.simulated != nil {
		s.simulated.Restore(snapshot)
		return
	}
	s.Kill()
	path := filepath.Join(s.dir, "dump.rdb")
	must(s.tb, os.WriteFile(path, snapshot, 0o600))
	s.Run()
	must(s.tb, os.Remove(path))
}

// Pause stops the process with SIGSTOP. It keeps its connections and replies to nothing until Resume.
func (s *Server) Pause() {
	if s.simulated != nil {
		s.simulated.Pause()
		return
	}
	s.signal(syscall.SIGSTOP)
}

// Resume continues a paused process.
func (s *Server) Resume() {
	if s.simulated != nil {
		s.simulated.Resume()
		return
	}
	s.signal(syscall.SIGCONT)
}

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
