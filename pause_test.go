package rlock_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// writesUntilLost is the program of a process with a classic bug: it checks that it has the lock, and then writes. It prints the
// token and the time of each write. In the end it prints the reason of the loss.
func writesUntilLost(lock *rlock.Lock) error {
	hold, err := lock.Acquire(context.Background())
	if err != nil {
		return err
	}
	for hold.Err() == nil {
		<-time.After(time.Millisecond) // the likely point at which it is stopped
		fmt.Println(hold.Token(), time.Now().UnixNano())
	}
	<-hold.Context().Done()
	fmt.Println("lost:", context.Cause(hold.Context()))
	return nil
}

// A process is stopped for longer than its lease, at any point between the check and the write. When it resumes it may write
// once more, and only the token exposes that write. After that it knows that the lock is lost.
func TestAStoppedProcessLearnsOfTheLossWhenItResumes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := newClient(t, server.Client(t))
	const rounds = 5
	stale := 0
	for range rounds {
		lock := client.NewFencedLock(newName())
		process := startChild(t, server.Addr, "writes", lock.Name())
		process.answer() // it has the lock and writes
		require.NoError(t, process.cmd.Process.Signal(syscall.SIGSTOP))
		hold, err := lock.Acquire(t.Context(), rlock.Wait(aLongTime))
		require.NoError(t, err)
		resumed, lateWrites := time.Now().UnixNano(), 0
		require.NoError(t, process.cmd.Process.Signal(syscall.SIGCONT))
		line := process.answer()
		for ; !strings.HasPrefix(line, "lost:"); line = process.answer() {
			var token uint64
			var at int64
			require.NoError(t, second(fmt.Sscan(line, &token, &at)), line)
			require.Less(t, token, hold.Token(), "a store that compares tokens rejects this write")
			if at > resumed {
				lateWrites++
			}
		}
		require.LessOrEqual(t, lateWrites, 1, "only a check before the stop allows a late write")
		stale += lateWrites
		require.Contains(t, line, "lock lost")
		require.NoError(t, hold.Unlock(t.Context()))
		process.kill()
	}
	t.Logf("%d of %d processes wrote once after they had lost the lock, and the token exposed all of them", stale, rounds)
}
