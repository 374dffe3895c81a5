package interop_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// TestWatchdogsKeepLocksWhileOtherSideWaits holds all kinds of locks on both sides at the same time.
func TestWatchdogsKeepLocksWhileOtherSideWaits(t *testing.T) {
	t.Parallel()
	const watchdog = 2 * time.Second
	onVersions(t, func(t *testing.T, v version) {
		t.Helper()
		server := redistest.Start(t)
		inGo, inJava := newParties(t, v, server, watchdog)
		var all []match
		var waiting []<-chan error
		for home, away := range map[party]party{inGo: inJava, inJava: inGo} {
			for _, k := range kindsOf(v) {
				m := newMatch(t, v, k, server, home, away)
				require.NoError(t, m.holder.Lock())
				all, waiting = append(all, m), append(waiting, async(m.rival.Lock))
			}
		}
		for _, m := range all {
			m.asleep(t)
		}
		time.Sleep(3 * watchdog)
		for i, m := range all {
			require.Empty(t, waiting[i], "%s, %s", direction(m.home), m.kind.java)
			m.requireHeldBy(t, m.holder, 1)
			require.LessOrEqual(t, m.ttl(t), watchdog)
		}
		for i, m := range all {
			require.NoError(t, m.holder.Unlock())
			require.NoError(t, within(t, "the waiter has the lock: "+m.kind.java, waiting[i]))
			m.requireHeldBy(t, m.rival, 1)
			require.NoError(t, m.rival.Unlock())
			m.requireFree(t)
		}
	})
}
