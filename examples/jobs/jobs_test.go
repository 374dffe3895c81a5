//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestMain is the program itself if the environment says so.
func TestMain(m *testing.M) {
	if os.Getenv("RLOCK_TEST_PROGRAM") != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// place is a database of its own, and a Redis.
type place struct {
	*testing.T

	queue     *queue
	url, file string // of the database
	redis     string // its URL, or else it is embedded
}

// scenes are the tests that run on both databases.
var scenes = map[string]func(*place){
	"the late write of a worker that was stopped is refused": lateWrite,
	"another worker does the job of one that was killed":     killed,
	"a worker that is told to end writes what it has done":   told,
	"the statements of the guide":                            fenced,
}

// TestShow runs the program as a reader would who tries it.
func TestShow(t *testing.T) {
	t.Parallel()
	p := &place{T: t}
	show := p.start()
	require.NoError(t, show.Wait())
	for n := range 3 {
		require.True(t, show.says(fmt.Sprintf("has written video:%d,", n+1)))
	}
}

func TestOnSQLite(t *testing.T) {
	t.Parallel()
	for name, scene := range scenes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "jobs.db")
			q, err := open("", file)
			require.NoError(t, err)
			t.Cleanup(func() { _ = q.db.Close() })
			scene(&place{T: t, queue: q, file: file, redis: "redis://" + redistest.Start(t).Addr})
		})
	}
}

func TestOnPostgreSQL(t *testing.T) {
	t.Parallel()
	server := startPostgres(t)
	for name, scene := range scenes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := server.create(t)
			scene(&place{T: t, queue: server.open(t, database), url: server.url(database), redis: "redis://" + redistest.Start(t).Addr})
		})
	}
}

// process is a process of the program.
type process struct {
	*exec.Cmd

	mu  sync.Mutex
	out bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) says(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Contains(p.out.String(), text)
}

func (p *process) name() string { return fmt.Sprintf("worker %d", p.Process.Pid) }

// start starts the program. It ends with the test.
func (p *place) start(args ...string) *process {
	p.Helper()
	i := &process{Cmd: exec.CommandContext(p.Context(), os.Args[0], append([]string{"-file", p.file, "-lease", "1s"}, args...)...)}
	i.Env = append(os.Environ(), "RLOCK_TEST_PROGRAM=1", "REDIS_URL="+p.redis, "DATABASE_URL="+p.url)
	i.Stdout, i.Stderr = i, i
	require.NoError(p, i.Start())
	p.Cleanup(func() {
		_ = i.Process.Kill()
		_ = i.Wait()
		if p.Failed() {
			p.Logf("%v\n%s", i.Args[1:], i.out.String())
		}
	})
	return i
}

// enqueue enqueues a job for video:7, by a process.
func (p *place) enqueue() {
	p.Helper()
	require.NoError(p, p.start("enqueue", "video:7", "720p").Wait())
}

// row is what the database has of the job.
type row struct {
	state, result string
	token         rlock.Token
}

func (p *place) row() (r row) {
	p.Helper()
	require.NoError(p, p.queue.db.QueryRowContext(p.Context(), "SELECT state, result, token FROM jobs").Scan(&r.state, &r.result, &r.token))
	return r
}

func lateWrite(p *place) {
	p.enqueue()
	stopped := p.start("-takes", "3s", "work")
	redistest.Eventually(p, "the first worker works", func() bool { return stopped.says("works on video:7") })
	require.NoError(p, stopped.Process.Signal(syscall.SIGSTOP))
	began := p.row()

	other := p.start("-takes", "3s", "work")
	redistest.Eventually(p, "the other one works", func() bool { return other.says("works on video:7") })
	require.NoError(p, stopped.Process.Signal(syscall.SIGCONT)) // it writes before the other one does
	redistest.Eventually(p, "the first one is refused", func() bool { return stopped.says(errStale.Error()) })
	redistest.Eventually(p, "the other one has done the job", func() bool { return other.says("has written video:7") })
	done := p.row()
	require.Equal(p, "video:7 in 720p, by "+other.name(), done.result)
	require.Greater(p, done.token, began.token)
	require.False(p, stopped.says("has written"))
}

func killed(p *place) {
	p.enqueue()
	first := p.start("-takes", "1h", "work")
	redistest.Eventually(p, "the first worker works", func() bool { return first.says("works on video:7") })
	other := p.start("-takes", "10ms", "work")
	began := p.row()
	require.NoError(p, first.Process.Signal(syscall.SIGKILL))
	redistest.Eventually(p, "the other one has done the job", func() bool { return other.says("has written video:7") })
	done := p.row()
	require.Equal(p, "video:7 in 720p, by "+other.name(), done.result)
	require.Greater(p, done.token, began.token)
}

func told(p *place) {
	p.enqueue()
	w := p.start("-takes", "500ms", "work")
	redistest.Eventually(p, "it works", func() bool { return w.says("works on video:7") })
	require.NoError(p, w.Process.Signal(syscall.SIGTERM))
	require.NoError(p, w.Wait())
	require.Equal(p, "done", p.row().state)
	options, err := redis.ParseURL(p.redis)
	require.NoError(p, err)
	require.Zero(p, redistest.Open(p, options).Exists(p.Context(), "video:7").Val(), "its lock is released")
}
