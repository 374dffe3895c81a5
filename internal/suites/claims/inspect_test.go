package claims

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestInspectShowsTheHolder of every kind, and nobody when it is free.
func TestInspectShowsTheHolder(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		for kind, k := range testkit.Kinds {
			if k.Groups {
				continue
			}
			client, other := testkit.NewClient(t, rdb), testkit.NewClient(t, rdb)
			lock := testkit.MakeLock(kind, client, testkit.NewName())
			free := testkit.Must(lock.Inspect(t.Context()))
			require.Equal(t, rlock.LockInfo{Name: lock.Name(), Time: free.Time}, free, kind)
			ctx := rlock.WithOwner(t.Context())
			require.NoError(t, lock.Lock(ctx, rlock.Lease(time.Minute)))
			require.NoError(t, lock.Lock(ctx))
			for _, asked := range []*rlock.Client{client, other} {
				info := testkit.Must(testkit.MakeLock(kind, asked, lock.Name()).Inspect(t.Context()))
				require.Equal(t, 1, info.HolderCount, kind)
				require.Len(t, info.Holders, 1)
				h := info.Holders[0]
				require.Equal(t, client.ID(), h.Client)
				require.Equal(t, asked == client, h.Own)
				require.Contains(t, h.Holder, client.ID()+":")
				if !testkit.ByTurns(kind) { // which tell Redis nothing of it
					require.Equal(t, 2, h.Acquisitions)
				}
				require.False(t, h.Expired)
				mode := map[string]string{"read": "read", "write": "write", "fenced write": "write"}[kind]
				require.Equal(t, mode, h.Mode)
				require.InDelta(t, time.Minute, h.Lease, float64(30*time.Second))
				require.InDelta(t, time.Minute, info.Lease, float64(30*time.Second))
				require.Equal(t, k.Tokens, info.Token != 0, kind)
				require.Zero(t, info.WaiterCount)
				require.WithinDuration(t, rdb.Time(t.Context()).Val(), info.Time, 10*time.Second)
			}
			require.NoError(t, lock.Unlock(ctx))
			require.NoError(t, lock.Unlock(ctx))
			require.Empty(t, testkit.Must(lock.Inspect(t.Context())).Holders)
		}
	})
}

// TestInspectShowsWaiters in their order: those in the line, and in the queue of a fair lock.
func TestInspectShowsWaiters(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	for _, kind := range []string{"lock", "fair"} {
		t.Run(kind, func(t *testing.T) {
			holder := testkit.MakeLock(kind, testkit.NewClient(t, server.Client(t)), testkit.NewName())
			hold := testkit.Must(holder.Acquire(t.Context()))
			var clients []*rlock.Client
			var waiting []<-chan error
			for range 3 {
				client := testkit.NewClient(t, server.Client(t))
				lock := testkit.MakeLock(kind, client, holder.Name())
				clients = append(clients, client)
				waiting = append(waiting, testkit.Async(func() error {
					return lock.Do(t.Context(), func(context.Context) error { return nil })
				}))
				testkit.Eventually(t, "it stands in the queue", func() bool {
					return testkit.Must(holder.Inspect(t.Context())).WaiterCount == len(clients)
				})
			}
			info := testkit.Must(testkit.MakeLock(kind, clients[1], holder.Name()).Inspect(t.Context()))
			require.Len(t, info.Waiters, 3)
			for i, w := range info.Waiters {
				require.Equal(t, clients[i].ID(), w.Client)
				require.Equal(t, i == 1, w.Own)
				require.False(t, w.Redisson)
				require.Nil(t, w.Identity)
				if kind == "fair" {
					require.Zero(t, w.Since)
				} else {
					require.WithinDuration(t, admin.Time(t.Context()).Val(), w.Since, testkit.ALongTime)
				}
			}
			require.NoError(t, hold.Unlock(t.Context()))
			for _, w := range waiting {
				require.NoError(t, testkit.Within(t, "each has its turn", w))
			}
			require.Zero(t, testkit.Must(holder.Inspect(t.Context())).WaiterCount)
		})
	}
}

// TestInspectShowsBothSides of a read-write name, through either handle, and a reader that has died.
func TestInspectShowsBothSides(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		client := testkit.NewClient(t, rdb)
		rw := client.NewRWLock(testkit.NewName())
		name := rw.Reader().Name()
		ctx := rlock.WithOwner(t.Context())
		require.NoError(t, rw.Writer().Lock(ctx))
		require.NoError(t, rw.Reader().Lock(ctx))
		for _, side := range []*rlock.Lock{rw.Reader(), rw.Writer()} {
			info := testkit.Must(side.Inspect(t.Context()))
			require.Equal(t, 2, info.HolderCount)
			modes := []string{info.Holders[0].Mode, info.Holders[1].Mode}
			slices.Sort(modes)
			require.Equal(t, []string{"read", "write"}, modes)
		}
		require.NoError(t, rw.Writer().Unlock(ctx))

		// A reader without a key of its own has died: Redisson leaves the field.
		require.NoError(t, rdb.HSet(t.Context(), name, "0f0e0d0c-0b0a-4908-8706-050403020100:7", 1).Err())
		info := testkit.Must(rw.Reader().Inspect(t.Context()))
		require.Equal(t, 2, info.HolderCount)
		for _, h := range info.Holders {
			require.Equal(t, h.Client != client.ID(), h.Expired)
			require.Equal(t, h.Expired, h.Lease == 0)
		}
		require.NoError(t, rw.Reader().Unlock(ctx))
	})
}

// TestInspectShowsRedisson's holders and waiters, as Redisson writes them.
func TestInspectShowsRedisson(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		const java = "0f0e0d0c-0b0a-4908-8706-050403020100"
		ctx := t.Context()
		lock := testkit.NewClient(t, rdb).NewFairLock(testkit.NewName())
		require.NoError(t, rdb.HSet(ctx, lock.Name(), java+":33", 3).Err())
		require.NoError(t, rdb.RPush(ctx, "redisson_lock_queue:{"+lock.Name()+"}", java+":34", java+":35").Err())
		info := testkit.Must(lock.Inspect(ctx))
		require.Equal(t, []rlock.HolderInfo{{Holder: java + ":33", Client: java, Acquisitions: 3, Lease: info.Lease}}, info.Holders)
		require.Negative(t, info.Lease, "this one has none")
		require.Equal(t, []rlock.WaiterInfo{{Client: java, Redisson: true}, {Client: java, Redisson: true}}, info.Waiters)
	})
}

// TestInspectIsBounded has more holders and waiters in Redis than anybody wants to read.
func TestInspectIsBounded(t *testing.T) {
	t.Parallel()
	testkit.OnBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		t.Helper()
		const many = 1000
		ctx := t.Context()
		client := testkit.NewClient(t, rdb)
		fair, rw := client.NewFairLock(testkit.NewName()), client.NewRWLock(testkit.NewName())
		plain := client.NewLock(testkit.NewName())
		pipe := rdb.Pipeline()
		pipe.HSet(ctx, rw.Reader().Name(), "mode", "read")
		for i := range many {
			pipe.HSet(ctx, rw.Reader().Name(), fmt.Sprintf("client:%d", i), 1)
			pipe.RPush(ctx, "redisson_lock_queue:{"+fair.Name()+"}", fmt.Sprintf("client:%d", i))
			pipe.ZAdd(ctx, "rlock:{"+plain.Name()+"}", redis.Z{Score: float64(i + 1), Member: fmt.Sprintf("client:%d|3000|", i)})
		}
		_, err := pipe.Exec(ctx)
		require.NoError(t, err)
		info := testkit.Must(rw.Reader().Inspect(ctx))
		require.Equal(t, many, info.HolderCount)
		require.Len(t, info.Holders, 100)
		for _, lock := range []*rlock.Lock{fair, plain} {
			info = testkit.Must(lock.Inspect(ctx))
			require.Equal(t, many, info.WaiterCount)
			require.Len(t, info.Waiters, 100)
			require.Equal(t, "client", info.Waiters[0].Client)
		}
	})
}

func TestInspectFails(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	client := testkit.NewClient(t, rdb)
	lock := client.NewLock(testkit.NewName())
	require.NoError(t, rdb.Set(t.Context(), lock.Name(), "x", 0).Err())
	_, err := lock.Inspect(t.Context())
	require.ErrorContains(t, err, "inspect")
	require.ErrorContains(t, err, "is not a lock")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = lock.Inspect(over)
	require.ErrorIs(t, err, context.Canceled)
	_, err = client.NewLock("").Inspect(t.Context())
	require.ErrorIs(t, err, rlock.ErrInvalidName)
	_, err = (*rlock.Lock)(nil).Inspect(t.Context())
	require.ErrorIs(t, err, rlock.ErrInvalidOption)
	require.NoError(t, client.Close())
	_, err = lock.Inspect(t.Context())
	require.ErrorIs(t, err, rlock.ErrClosed)
}

// TestInspectOnACluster finds the node that has the lock, also with a tag in the name.
func TestInspectOnACluster(t *testing.T) {
	t.Parallel()
	rdb := redistest.StartCluster(t).Client(t)
	client := testkit.NewClient(t, rdb)
	for i := range 8 {
		lock := client.NewLock(fmt.Sprintf("%s{%d}", testkit.NewName(), i), rlock.Fenced())
		require.NoError(t, lock.Lock(t.Context()))
		info := testkit.Must(lock.Inspect(t.Context()))
		require.Equal(t, client.ID(), info.Holders[0].Client)
		require.NotZero(t, info.Token)
		require.NoError(t, lock.Unlock(t.Context()))
	}
}
