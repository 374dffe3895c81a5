package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPausesFollowFromTheOptions(t *testing.T) {
	t.Parallel()
	c := Config{
		WatchdogTimeout: 300 * time.Millisecond, PollInterval: time.Second, FairWait: 600 * time.Millisecond,
		Random: func(time.Duration) time.Duration { return 0 },
	}
	require.Equal(t, 10*time.Millisecond, c.Retry(1))
	require.Equal(t, time.Second, c.Retry(100))
	require.Equal(t, 30*time.Millisecond, c.RetryRenewal(c.WatchdogTimeout, 100))
	require.Equal(t, 20*time.Millisecond, RenewalTimeout(time.Millisecond))
	require.Equal(t, time.Second, RenewalTimeout(time.Hour))
	require.Equal(t, time.Second, c.Rest(time.Hour, false))
	require.Equal(t, 200*time.Millisecond, c.Rest(time.Hour, true))
	require.Equal(t, time.Millisecond, c.Rest(0, false), "at least a millisecond")
	c.PollInterval = 5 * time.Second
	for polls, seconds := range []int{3, 6, 12, 24, 30, 30} {
		require.Equal(t, time.Duration(seconds)*time.Second, c.Stretch(3*time.Second, polls, 1000))
	}
	require.Equal(t, 100*time.Second, c.Stretch(3*time.Second, 0, 100_000))
	require.Equal(t, 2*time.Minute, c.Stretch(3*time.Second, 9, 1_000_000))
	require.Equal(t, 2*time.Minute, Tombstone(time.Second))
	require.Equal(t, time.Hour, Tombstone(time.Hour))
}
