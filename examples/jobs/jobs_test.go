//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
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
	"the lock of a job goes from hand to hand":               handOff,
	"a ticket that a dead worker used is worth nothing":      usedTicket,
	"a ticket that waited for too long is worth nothing":     oldTicket,
	"a job that cannot be enqueued leaves no lock":           refusedJob,
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

// client returns a client of Redis, which is closed with the test.
func (p *place) client() *redis.Client {
	p.Helper()
	options, err := redis.ParseURL(p.redis)
	require.NoError(p, err)
	return redistest.Open(p, options)
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
func (p *place) enqueue(flags ...string) {
	p.Helper()
	require.NoError(p, p.start(append(flags, "enqueue", "video:7", "720p")...).Wait())
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
	require.Zero(p, p.client().Exists(p.Context(), "video:7").Val(), "its lock is released")
}

// contend tries to get the lock of the video all the time, until it is stopped or gets it. The stop returns how often it was refused.
func (p *place) contend() (stop func() int) {
	p.Helper()
	locks, err := rlock.New(p.client())
	require.NoError(p, err)
	refused, ended := 0, make(chan error, 1)
	ctx, cancel := context.WithCancel(p.Context())
	go func() {
		defer locks.Close()
		for ctx.Err() == nil {
			_, err := locks.NewLock("video:7", rlock.Fenced()).TryAcquire(ctx)
			if ctx.Err() == nil && !errors.Is(err, rlock.ErrNotAcquired) {
				ended <- fmt.Errorf("got the lock, or another error: %w", err)
				return
			}
			refused++
			time.Sleep(time.Millisecond) // other tests need the processors too
		}
		ended <- nil
	}()
	return func() int {
		cancel()
		require.NoError(p, <-ended)
		return refused
	}
}

func handOff(p *place) {
	p.enqueue()
	stop := p.contend()
	enqueued := p.row()
	second := p.start("enqueue", "video:7", "1080p")
	require.Error(p, second.Wait())
	require.True(p, second.says("video:7 is in use"))

	w := p.start("-takes", "2s", "work")
	redistest.Eventually(p, "it works", func() bool { return w.says("works on video:7") })
	require.Positive(p, stop())
	require.Greater(p, p.row().token, enqueued.token)
	redistest.Eventually(p, "it has done the job", func() bool { return w.says("has written video:7") })
	require.False(p, w.says("without a ticket"))
	rdb := p.client()
	redistest.Eventually(p, "the lock is free again", func() bool { return rdb.Exists(p.Context(), "video:7").Val() == 0 })
}

// usedTicket kills a worker at the moment in which it has the lock and has done nothing yet: when Redis has executed its adoption.
func usedTicket(p *place) {
	p.enqueue()
	stop := p.contend()
	enqueued := p.row()
	proxy := redistest.NewProxy(p, strings.TrimPrefix(p.redis, "redis://"))
	proxy.HoldReply(-1, func(c redistest.Command) bool {
		return c[0] == "evalsha" && slices.Contains(c, "video:7") // Redis knows the script, which is that of the export, too
	})
	direct := p.redis
	p.redis = "redis://" + proxy.Addr
	first := p.start("-lease", "10s", "work")
	p.redis = direct
	rdb := p.client()
	redistest.Eventually(p, "Redis has executed the adoption", func() bool {
		token, err := rdb.Get(p.Context(), "redisson_lock_token:{video:7}").Uint64()
		require.NoError(p, err)
		return rlock.Token(token) > enqueued.token
	})
	require.NoError(p, first.Process.Kill())
	require.Equal(p, enqueued, p.row(), "it has done nothing")

	_, err := p.queue.db.ExecContext(p.Context(), "UPDATE jobs SET due = 0") // it is delivered again, long before the lease ends
	require.NoError(p, err)
	second := p.start("-lease", "5s", "-takes", "10ms", "work")
	redistest.Eventually(p, "the second one has to wait", func() bool { return second.says("locks video:7 without a ticket") })
	require.Positive(p, stop(), "nobody has had the lock since the job was enqueued")
	redistest.EventuallyWithin(p, 40*time.Second, "the second one has done the job", func() bool { return second.says("has written video:7") })
	require.Greater(p, p.row().token, enqueued.token)
}

func oldTicket(p *place) {
	p.enqueue("-delay", "1ms")
	rdb := p.client()
	redistest.Eventually(p, "the lock is free", func() bool { return rdb.Exists(p.Context(), "video:7").Val() == 0 })
	w := p.start("-takes", "10ms", "work")
	redistest.Eventually(p, "it has done the job", func() bool { return w.says("has written video:7") })
	require.True(p, w.says("locks video:7 without a ticket"))
}

func refusedJob(p *place) {
	_, err := p.queue.db.ExecContext(p.Context(), "CREATE TABLE jobs (another TEXT)")
	require.NoError(p, err)
	require.Error(p, p.start("enqueue", "video:7", "720p").Wait())
	require.Positive(p, p.client().Exists(p.Context(), "redisson_lock_token:{video:7}").Val(), "it had the lock")
	require.Zero(p, p.client().Exists(p.Context(), "video:7").Val())
}
