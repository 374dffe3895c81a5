package pubsub

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
)

// TestAKeeperLooksOnlyAtWhatHasSomethingDue counts how many channels the keeper looks at: for each that comes and goes a few, and for
// those that rest none, however often it wakes.
func TestAKeeperLooksOnlyAtWhatHasSomethingDue(t *testing.T) {
	t.Parallel()
	for _, n := range []int{90, 900} {
		run(t, single, func(f *fixture) {
			wakes := make([]chan struct{}, n)
			for i := range wakes {
				wakes[i] = f.listen(strconv.Itoa(i))
			}
			f.hub.Watch("base", "base:twin")
			f.after(2 * retryRefused)
			for i, wake := range wakes {
				require.True(f, woken(wake), i)
			}
			require.LessOrEqual(f, f.looks(), 4*n, "%d channels came one after the other", n)
			f.after(time.Minute)
			require.Zero(f, f.looks(), "%d channels rest", n)
			for range 10 {
				f.hub.Unlisten("last", f.listen("last"))
				f.after(2 * channelLinger)
			}
			require.LessOrEqual(f, f.looks(), 50, "one comes and goes beside %d", n)
			for i, wake := range wakes {
				f.hub.Unlisten(strconv.Itoa(i), wake)
			}
			f.after(2 * channelLinger)
			require.Equal(f, 2, f.hub.Stats().Channels)
			require.LessOrEqual(f, f.looks(), 2*n, "%d channels went", n)
		})
	}
}

// looks returns how many channels the keepers have looked at, and begins to count again.
func (f *fixture) looks() int {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	n := f.hub.looked
	f.hub.looked = 0
	return n
}

// planned requires that each channel which waits for its keeper is on the agenda, and no other one is.
func (f *fixture) planned() {
	f.Helper()
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	planned := make(map[*channel]clock.Instant)
	for _, c := range append(slices.Collect(maps.Values(h.shards)), h.main) {
		for _, ch := range c.agenda.All() {
			require.Equal(f, ch.conn, c, ch.name)
			planned[ch] = ch.DueAt()
		}
	}
	for _, ch := range h.channels {
		if do, at := h.next(ch, false, 0); do != rest {
			require.Contains(f, planned, ch, ch.name)
			require.Equal(f, at, planned[ch], ch.name)
			delete(planned, ch)
		}
	}
	require.Empty(f, planned)
}
