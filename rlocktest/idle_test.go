package rlocktest

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlocktest/internal/server"
)

// TestAnIdleHourAsksForNoTime counts how often the server's clock is asked for while nobody sends a command.
func TestAnIdleHourAsksForNoTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		k := &kit{server.New(func() time.Time { asked.Add(1); return time.Now() }), nil}
		t.Cleanup(k.Close)
		lock := k.client(t).NewLock("invoice:42")
		hold, err := lock.Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, hold.Unlock(t.Context()))
		time.Sleep(time.Minute) // what the hold has left behind ends
		before := asked.Load()
		require.Positive(t, before)
		time.Sleep(time.Hour)
		require.Equal(t, before, asked.Load())
		held, err := lock.IsLocked(t.Context())
		require.NoError(t, err)
		require.False(t, held)
		require.Greater(t, asked.Load(), before)
	})
}
