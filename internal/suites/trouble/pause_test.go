package trouble

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

func TestTheLockOfAKilledProcessIsFreeAfterItsLease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	name := testkit.NewName()
	holder := testkit.StartChild(t, server.Addr, "lock", name)
	holder.Next()
	_, err := strconv.ParseInt(holder.Answer(), 10, 64)
	require.NoError(t, err)

	lock := testkit.NewClient(t, server.Client(t)).NewLock(name)
	ok, err := lock.TryLock(t.Context(), rlock.Wait(2*time.Second))
	require.NoError(t, err)
	require.False(t, ok, "the lock is renewed while its process lives")
	holder.Kill()
	passed := redistest.Stopwatch(t)
	require.NoError(t, lock.Lock(t.Context(), rlock.Wait(testkit.ALongTime)))
	require.Less(t, passed(), 4*time.Second)
	require.NoError(t, lock.Unlock(t.Context()))
}

// A process is stopped for longer than its lease, at any point between the check and the write. When it resumes it may write
// once more, and only the token exposes that write. After that it knows that the lock is lost.
func TestAStoppedProcessLearnsOfTheLossWhenItResumes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := testkit.NewClient(t, server.Client(t))
	const processes = 5
	var writers []*testkit.Child
	var locks []*rlock.Lock
	for range processes {
		lock := client.NewLock(testkit.NewName(), rlock.Fenced())
		process := testkit.StartChild(t, server.Addr, "writes", lock.Name())
		process.Answer() // it has the lock and writes
		require.NoError(t, process.Cmd.Process.Signal(syscall.SIGSTOP))
		writers, locks = append(writers, process), append(locks, lock)
	}
	stale := 0
	for i, process := range writers {
		hold, err := locks[i].Acquire(t.Context(), rlock.Wait(testkit.ALongTime))
		require.NoError(t, err)
		resumed, lateWrites := time.Now().UnixNano(), 0
		require.NoError(t, process.Cmd.Process.Signal(syscall.SIGCONT))
		line := process.Answer()
		for ; !strings.HasPrefix(line, "lost:"); line = process.Answer() {
			var token uint64
			var at int64
			require.NoError(t, testkit.Second(fmt.Sscan(line, &token, &at)), line)
			require.Less(t, token, hold.Token(), "a store that compares tokens rejects this write")
			if at > resumed {
				lateWrites++
			}
		}
		require.LessOrEqual(t, lateWrites, 1, "only a check before the stop allows a late write")
		stale += lateWrites
		require.Contains(t, line, "lock lost")
		require.NoError(t, hold.Unlock(t.Context()))
		process.Kill()
	}
	t.Logf("%d of %d processes wrote once after they had lost the lock, and the token exposed all of them", stale, processes)
}
