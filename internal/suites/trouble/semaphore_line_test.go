package trouble

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestAHungWaiterForAPermitCosts3s has a process be told that does not ask. The waiter behind it came just before.
func TestAHungWaiterForAPermitCosts3s(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin, name := server.Client(t), testkit.NewName()
	hold := testkit.Must(testkit.NewClient(t, server.Client(t)).NewSemaphore(name, rlock.Total(1)).Acquire(t.Context()))
	hung := "00000000-0000-4000-8000-0000000000ff"
	channel := "rlock:{" + name + "}:" + hung
	sub := admin.Subscribe(t.Context(), channel)
	defer sub.Close()
	_, err := sub.Receive(t.Context())
	require.NoError(t, err)
	line := "rlock:{" + name + "}"
	require.NoError(t, admin.ZAdd(t.Context(), line, redis.Z{Score: 1, Member: hung + ":1|30000|1"}).Err())
	client := testkit.NewClient(t, server.Client(t))
	job := func(context.Context) error { return nil }
	got := testkit.Async(func() error { return client.NewSemaphore(name).Do(t.Context(), job) })
	testkit.Eventually(t, "it stands in the line", func() bool { return admin.ZCount(t.Context(), line, "0", "3e15").Val() == 2 })
	require.NoError(t, hold.Unlock(t.Context()))
	passed := redistest.Stopwatch(t)
	require.NoError(t, testkit.Within(t, "the other one has the permit", got))
	require.Less(t, passed(), 4500*time.Millisecond)
}
