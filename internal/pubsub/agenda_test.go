package pubsub

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAKeeperLooksOnlyAtWhatHasSomethingDue counts how many channels the keeper looks at: for each that comes and goes a few, and for
// those that rest none, however often it wakes.
func TestAKeeperLooksOnlyAtWhatHasSomethingDue(t *testing.T) {
	t.Parallel()
	for _, n := range []int{90, 900} {
		run(t, single, Auto, func(f *fixture) {
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
