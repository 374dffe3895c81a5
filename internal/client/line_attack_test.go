package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/wire"
)

// TestAReleaseWhileASlotMoves has a release go out without the line's key: its process grants the lock to the line.
func TestAReleaseWhileASlotMoves(t *testing.T) {
	runLine(t, func(f *fixture) {
		holder := f.newLock()
		require.NoError(f, acquire(f.Context(), holder))
		watcher := f.newLock()
		watches := f.async(func() error { return acquireWithin(f.Context(), watcher, time.Second) })
		w := f.waits(Terms{})
		f.until(2 * time.Second)
		require.Error(f, watches.err) // nobody watches after it
		f.until(4 * time.Second)
		moves := true
		f.instead(func(command string, run func() wire.Reply) wire.Reply {
			if command == "release" && moves {
				moves = false
				r := rejected("TRYAGAIN")
				r.Err.Transient = true
				return r
			}
			return run()
		})
		require.NoError(f, holder.Unlock(f.Context()))
		require.Less(f, time.Since(f.start), 5*time.Second)
		w.now()
		require.NoError(f, w.hold.Unlock(f.Context()))
	})
}

// TestShortLeasesInTheLine has holders with a short lease die: each next one gets the lock when that lease ends.
func TestShortLeasesInTheLine(t *testing.T) {
	runLine(t, func(f *fixture) {
		const lease = 200 * time.Millisecond
		holder := f.newLock()
		require.NoError(f, acquire(f.Context(), holder))
		all := []*waiting{f.waits(Terms{Lease: lease}), f.waits(Terms{Lease: lease}), f.waits(Terms{Lease: lease}), f.waits(Terms{Lease: lease})}
		f.until(time.Second)
		f.took()
		require.NoError(f, holder.Unlock(f.Context()))
		for i, w := range all {
			f.until(time.Second + time.Duration(i)*(lease+2*jitter) + time.Millisecond)
			require.True(f, w.over(), "waiter %d", i)
			require.NoError(f, w.err)
			w.lock.client.Close() // its process dies
		}
		t.Log(f.took())
	})
}
