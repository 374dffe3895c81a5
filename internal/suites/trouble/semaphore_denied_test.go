package trouble

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// evals matches the commands that run scripts.
func evals(c redistest.Command) bool { return strings.HasPrefix(c[0], "eval") }

// TestPlainPermitsAreKeptWithoutRights has calls that count once mark their numbers as a user who may not look for old marks.
func TestPlainPermitsAreKeptWithoutRights(t *testing.T) {
	t.Parallel()
	f := testkit.NewFaulty(t, testkit.Quick())
	admins := testkit.Admins(t, f.Server)
	user := testkit.NewUser(t, admins, append(testkit.Rights(t, "a plain semaphore, by itself"), "-hlen")...)
	admin := testkit.NewClient(t, admins[0]).NewPlainSemaphore("app:"+testkit.NewName(), rlock.Total(2))
	require.Equal(t, 2, testkit.Must(admin.AvailablePermits(t.Context())))
	rdb := redistest.Open(t, &redis.Options{Addr: f.Proxy.Addr, Username: user, Password: testkit.Secret, ReadTimeout: 400 * time.Millisecond})
	logger, _ := testkit.Recording()
	client := testkit.NewClient(t, rdb, logger)
	f.Proxy.DropReply(1, evals)
	sem := client.NewPlainSemaphore(admin.Name())
	require.NoError(t, sem.Acquire(t.Context()))
	require.NoError(t, sem.Release(t.Context(), 1))
	require.Equal(t, 2, testkit.Must(admin.AvailablePermits(t.Context())))
}
