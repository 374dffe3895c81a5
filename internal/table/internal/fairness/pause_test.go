package fairness_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/table/internal/fairness"
)

// pause returns how long a process lets others pass that had a lock for a turn, and released it so long ago while others
// listened.
func pause(turn, since time.Duration, others int64) time.Duration {
	now := clock.Now()
	return (&fairness.Release{At: now.Add(-since), Turn: turn, Others: others}).Pause(now)
}

func TestTheLatestHolderYieldsLongest(t *testing.T) {
	t.Parallel()
	const turn = 4 * time.Millisecond
	last := pause(turn, turn, 3)
	before := pause(turn, 2*turn, 3)
	require.Greater(t, last, before)
	require.Greater(t, before, pause(turn, 3*turn, 3))
	require.LessOrEqual(t, last, turn/10)
	require.LessOrEqual(t, pause(time.Hour, time.Minute, 3), time.Millisecond, "the yield is bounded, however long a turn is")
	for what, d := range map[string]time.Duration{
		"a release some turns ago": pause(turn, 4*turn, 3),
		"only one other listener":  pause(turn, turn, 1),
		"a very short turn":        pause(100*time.Microsecond, 100*time.Microsecond, 3),
		"a turn of zero":           pause(0, 0, 3),
		"a release very long ago":  pause(turn, time.Hour, 3),
	} {
		require.Zero(t, d, what)
	}
}
