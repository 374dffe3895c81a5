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

// writesUntilLost is a process that does what nobody should: it looks whether it has the lock, and then writes. It says what
// it writes with, its token, and when, and in the end that it was told.
func writesUntilLost(lock *rlock.Lock) error {
	hold, err := lock.Acquire(context.Background())
	if err != nil {
		return err
	}
	for hold.Err() == nil {
		<-time.After(time.Millisecond) // where it is likely to be stopped
		fmt.Println(hold.Token(), time.Now().UnixNano())
	}
	<-hold.Context().Done()
	fmt.Println("told:", context.Cause(hold.Context()))
	return nil
}

// A process is stopped for longer than its lease, at any point between looking and writing. When it goes on it may write once
// more, which only the token gives away; then it knows.
func TestAProcessThatWasStoppedIsToldWhenItGoesOn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := newClient(t, server.Client(t))
	const rounds = 5
	stale := 0
	for range rounds {
		lock := client.NewFencedLock(newName())
		paused := startChild(t, server.Addr, "writes", lock.Name())
		paused.answer() // it has the lock, and writes
		require.NoError(t, paused.cmd.Process.Signal(syscall.SIGSTOP))
		hold, err := lock.Acquire(t.Context(), rlock.Wait(aLongTime))
		require.NoError(t, err)
		resumed, late := time.Now().UnixNano(), 0
		require.NoError(t, paused.cmd.Process.Signal(syscall.SIGCONT))
		line := paused.answer()
		for ; !strings.HasPrefix(line, "told:"); line = paused.answer() {
			var token uint64
			var at int64
			require.NoError(t, second(fmt.Sscan(line, &token, &at)), line)
			require.Less(t, token, hold.Token(), "who compares tokens refuses this write")
			if at > resumed {
				late++
			}
		}
		require.LessOrEqual(t, late, 1, "it had looked before it was stopped")
		stale += late
		require.Contains(t, line, rlock.ErrLost.Error())
		require.NoError(t, hold.Unlock(t.Context()))
		paused.kill()
	}
	t.Logf("%d of %d processes wrote once after they had lost the lock; the token gave all of them away", stale, rounds)
}
