package core_test

import (
	"context"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/internal/core/coretest"
	"github.com/go-rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/internal/driver/goredis"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newClient returns a client of a server, with a leftover of nothing.
func newClient(t *testing.T, server *redistest.Server) *coretest.Client {
	t.Helper()
	d, err := goredis.New(server.Client(t), driver.Config{CommandTimeout: 5 * time.Second})
	require.NoError(t, err)
	id := []byte(uuid.NewString())
	id[14] = '8'
	c := coretest.Open(core.Config{ID: string(id), CommandTimeout: 5 * time.Second, WatchdogTimeout: 30 * time.Second}, d)
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func start(t *testing.T) *redistest.Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
	return redistest.Start(t)
}

// TestTurnsOnRedis has goroutines of three clients take turns on a server: one at a time has the lock, with a token greater than all before,
// and nothing is left in the end.
func TestTurnsOnRedis(t *testing.T) {
	t.Parallel()
	server := start(t)
	const goroutines, turns = 8, 25
	var mu sync.Mutex
	var holding, taken int
	var last uint64
	var all sync.WaitGroup
	for range 3 {
		c := newClient(t, server)
		for range goroutines {
			all.Go(func() {
				for range turns {
					h, err := c.Acquire(t.Context(), core.Terms{Key: "turns", Flags: "t"})
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					holding++
					if taken++; holding != 1 || h.Token() <= last {
						t.Errorf("%d have it; token %d after %d", holding, h.Token(), last)
					}
					last = h.Token()
					mu.Unlock()
					mu.Lock()
					holding--
					mu.Unlock()
					if err := h.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	require.Equal(t, 3*goroutines*turns, taken)
	keys, err := server.Client(t).Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Equal(t, []string{"redisson_lock_token:{turns}"}, keys)
}

// TestErrorsOnRedis checks what a refused caller is told, and that nothing of it stays.
func TestErrorsOnRedis(t *testing.T) {
	t.Parallel()
	server := start(t)
	holder, other := newClient(t, server), newClient(t, server)
	h, err := holder.Acquire(t.Context(), core.Terms{Key: "taken"})
	require.NoError(t, err)
	require.NoError(t, h.Err())
	for _, c := range []*coretest.Client{holder, other} {
		_, err = c.Acquire(t.Context(), core.Terms{Key: "taken", Single: true})
		require.ErrorIs(t, err, fault.ErrNotAcquired)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err = c.Acquire(ctx, core.Terms{Key: "taken"})
		cancel()
		require.ErrorIs(t, err, fault.ErrNotAcquired)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	require.NoError(t, h.Unlock(t.Context()))
	require.ErrorIs(t, h.Unlock(t.Context()), fault.ErrUnlockedAlready)
	<-h.Done()
	require.NoError(t, server.Client(t).Set(t.Context(), "text", "x", 0).Err())
	_, err = other.Acquire(t.Context(), core.Terms{Key: "text"})
	require.ErrorContains(t, err, "WRONGTYPE")

	lost, err := other.Acquire(t.Context(), core.Terms{Key: "deleted"})
	require.NoError(t, err)
	require.NoError(t, server.Client(t).Del(t.Context(), "deleted").Err())
	require.ErrorIs(t, lost.Unlock(t.Context()), fault.ErrLost)

	other.Close(t.Context())
	_, err = other.Acquire(t.Context(), core.Terms{Key: "taken"})
	require.ErrorIs(t, err, fault.ErrClosed)
	keys, err := server.Client(t).Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.Equal(t, []string{"text"}, keys)
}

// TestKeysAreInjective checks that no two names share a key of rlock's own.
func TestKeysAreInjective(t *testing.T) {
	t.Parallel()
	seen := make(map[any]string)
	for _, name := range []string{"x", "{x}", "{{x}", "{x}}", "{x", "x}", "a{x}", "{x}a", "x:" + strconv.Itoa(1)} {
		keys, _ := core.Plain.Keys(name)
		require.NotContains(t, seen, keys[1], "%s and %s", name, seen[keys[1]])
		seen[keys[1]] = name
	}
}
