package claims

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestARefusedRedLockReportsNoOutage ends waits for a held red lock at any moment, so also at those at which it has just asked its
// members once more.
func TestARefusedRedLockReportsNoOutage(t *testing.T) {
	t.Parallel()
	const timeout = 5 * time.Second // a stall of a fifth of it is an outage
	server := redistest.Start(t)
	name := testkit.NewName()
	red := func() *rlock.RedLock {
		var members []*rlock.Lock
		client := testkit.NewClient(t, server.Client(t), rlock.WithCommandTimeout(timeout))
		for _, suffix := range []string{":1", ":2", ":3"} {
			members = append(members, client.NewLock(name+suffix))
		}
		return rlock.NewRedLock(members...)
	}
	hold := testkit.Must(red().Acquire(t.Context()))
	var wg sync.WaitGroup
	for i := range 15 {
		rival := red()
		wg.Go(func() {
			// While all connect at once, members are silent for longer than a short wait, and that is an outage.
			_, _ = rival.Acquire(t.Context(), rlock.Wait(2*time.Second))
			for j := range 8 {
				wait := timeout/5 + time.Duration(50+20*i+2*j)*time.Millisecond
				if _, err := rival.Acquire(t.Context(), rlock.Wait(wait)); !errors.Is(err, rlock.ErrNotAcquired) {
					t.Errorf("after %v: %v", wait, err)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, hold.Unlock(t.Context()))
}
