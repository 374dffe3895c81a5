package claims

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/handles"
	"github.com/go-rlock/rlock/observe"
)

// inGoodTime is how late a shutdown may be on a loaded machine. TestFigureShutdown has the figures.
const inGoodTime = 5 * time.Second

func TestShutdownLeavesNoLockOfFortyHolders(t *testing.T) {
	t.Parallel()
	told, late := testkit.WindUp(t, redistest.Start(t).Client(t), 40)
	require.Equal(t, 40, told)
	require.Less(t, late, inGoodTime)
}

// TestADeployHandsAThousandLocksOn has another process take the locks of a process that gets SIGTERM, long before a lease.
func TestADeployHandsAThousandLocksOn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	shutdown, taken := testkit.Deploy(t, server.Addr, testkit.NewClient(t, server.Client(t)))
	require.Less(t, shutdown, inGoodTime)
	require.Less(t, taken, inGoodTime)
}

// TestAWriterTakesItsReadLockDuringShutdown has a section that winds up downgrade: it re-enters the name on the other side.
func TestAWriterTakesItsReadLockDuringShutdown(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	rw := client.NewRWLock(testkit.NewName())
	owner := rlock.WithOwner(t.Context())
	write, err := rw.Writer().Acquire(owner)
	require.NoError(t, err)
	stopped := testkit.Async(func() error { return client.Shutdown(t.Context()) })
	testkit.Within(t, "the writer is told", write.Context().Done())
	require.NoError(t, rw.Reader().Lock(owner))
	require.ErrorIs(t, rw.Reader().Lock(t.Context()), rlock.ErrClosed, "another reader")
	require.NoError(t, write.Unlock(t.Context()))
	require.ErrorIs(t, rw.Writer().Lock(owner), rlock.ErrUpgrade)
	testkit.Stays(t, "Shutdown waits for the reader", func() bool { return len(stopped) == 0 })
	require.NoError(t, rw.Reader().Unlock(owner))
	require.NoError(t, testkit.Within(t, "Shutdown returns", stopped))
}

// TestShutdownOfOneClientOfAGroup has Shutdown wait for a group that has a member of its client, and tell its holder.
func TestShutdownOfOneClientOfAGroup(t *testing.T) {
	t.Parallel()
	rdb := redistest.Embedded(t)
	for what, makeGroup := range map[string]func(one, other *rlock.Client) handles.Any{
		"multi": func(one, other *rlock.Client) handles.Any {
			return rlock.NewMultiLock(other.NewLock(testkit.NewName()), one.NewLock(testkit.NewName()))
		},
		"red": func(one, other *rlock.Client) handles.Any {
			return rlock.NewRedLock(one.NewLock(testkit.NewName()), other.NewLock(testkit.NewName()),
				one.NewLock(testkit.NewName()))
		},
	} {
		t.Run(what, func(t *testing.T) {
			one := testkit.NewClient(t, rdb)
			hold, err := makeGroup(one, testkit.NewClient(t, rdb)).Acquire(t.Context())
			require.NoError(t, err)
			stopped := testkit.Async(func() error { return one.Shutdown(t.Context()) })
			testkit.Within(t, "the holder is told", hold.Context().Done())
			require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrClosed)
			require.NoError(t, hold.Err())
			require.Empty(t, stopped)
			require.NoError(t, hold.Unlock(t.Context()))
			require.NoError(t, testkit.Within(t, "Shutdown returns", stopped))
		})
	}
}

func TestStatsOfAClient(t *testing.T) {
	t.Parallel()
	client := testkit.NewClient(t, redistest.Embedded(t))
	require.Zero(t, client.Stats())
	lock := client.NewLock(testkit.NewName())
	group := rlock.NewMultiLock(client.NewLock(testkit.NewName()), client.NewFairLock(testkit.NewName()))
	hold, err := lock.Acquire(t.Context())
	require.NoError(t, err)
	again, err := lock.Acquire(hold.Context())
	require.NoError(t, err)
	both := testkit.Must(group.Acquire(t.Context()))
	require.Equal(t, observe.Stats{Held: 3, Acquired: 3}, client.Stats(), "a re-entry counts once, a group as its members")
	waiting := testkit.Async(func() error { return lock.Lock(t.Context()) })
	testkit.Eventually(t, "one waits", func() bool { return client.Stats().Waiting == 1 })
	require.NoError(t, again.Unlock(t.Context()))
	require.NoError(t, hold.Unlock(t.Context()))
	require.NoError(t, testkit.Within(t, "it has waited", waiting))
	require.NoError(t, lock.Unlock(t.Context()))
	require.NoError(t, both.Unlock(t.Context()))
	stats := client.Stats()
	require.LessOrEqual(t, stats.HandOvers, uint64(1))
	stats.HandOvers = 0
	require.Equal(t, observe.Stats{Acquired: 4}, stats)
	require.NoError(t, client.Close())
	require.Equal(t, uint64(4), client.Stats().Acquired, "it works after Close")
	var none *rlock.Client
	require.Zero(t, none.Stats())
	require.NoError(t, none.Shutdown(t.Context()))
}
