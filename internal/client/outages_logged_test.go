package client

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/wire"
)

// TestAnOutageIsLogged has the renewals of many holds fail, and then succeed again.
func TestAnOutageIsLogged(t *testing.T) {
	run(t, func(f *fixture) {
		c := f.client()
		n := 1000
		if testing.Short() {
			n = 100
		}
		for i := range n {
			l := new(Lock)
			name := fmt.Sprintf("name %d", i)
			tabled(l, c, wire.Plain, name, name)
			require.NoError(f, acquire(f.Context(), l))
		}
		down := true
		f.instead(func(_ string, do func() wire.Reply) wire.Reply {
			if down {
				return network()
			}
			return do()
		})
		f.until(watchdogTimeout * 2 / 3)
		failed := f.logged()
		require.NotEmpty(f, failed)
		require.LessOrEqual(f, len(failed), 10, "a handful of lines for an outage of %d holds", n)
		for _, line := range failed {
			require.True(f, strings.HasPrefix(line, "rlock: renewal failed"), line)
		}
		f.server.mu.Lock()
		down = false
		f.server.mu.Unlock()
		f.until(watchdogTimeout*2/3 + 5*time.Second)
		recovered := f.logged()
		require.NotEmpty(f, recovered)
		require.LessOrEqual(f, len(recovered), 40)
		for _, line := range recovered {
			require.Equal(f, "rlock: renewals succeed again", line)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		require.Contains(f, f.attrs, "suppressed", "the number of the others")
	})
}

// TestAHangIsLoggedBeforeTheLoss has Redis hang for longer than a short lease. No command fails before the command timeout is over.
func TestAHangIsLoggedBeforeTheLoss(t *testing.T) {
	for _, lease := range []time.Duration{2 * time.Second, commandTimeout, watchdogTimeout} {
		run(t, func(f *fixture) {
			l := f.newLock()
			h := f.hold(f.Context(), l, Terms{Lease: lease, Renewed: true})
			f.until(lease * 4 / 5)
			require.Empty(f, f.logged(), "renewals succeed")
			f.hang()
			<-h.Done()
			synctest.Wait() // the line about the loss comes after the end of the hold
			f.instead(nil)
			logged := f.logged()
			require.Len(f, logged, 2, "%v", lease)
			require.True(f, strings.HasPrefix(logged[0], "rlock: renewal failed"), logged[0])
			require.True(f, strings.HasPrefix(logged[1], "rlock: lock lost"), logged[1])
		})
	}
}
