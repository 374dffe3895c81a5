package clock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
)

func TestBackoff(t *testing.T) {
	longest := func(time.Duration) time.Duration { return 0 }
	shortest := func(d time.Duration) time.Duration { return d - 1 }
	for retries, want := range map[int]time.Duration{
		-1: 10 * time.Millisecond, 0: 10 * time.Millisecond, 1: 10 * time.Millisecond, 2: 20 * time.Millisecond,
		3: 40 * time.Millisecond, 7: 640 * time.Millisecond, 8: time.Second, 9: time.Second, 1 << 40: time.Second,
	} {
		require.Equal(t, want, clock.Backoff(retries, time.Second, longest), "%d retries", retries)
		require.Equal(t, want/2, clock.Backoff(retries, time.Second, shortest), "%d retries", retries)
		for range 100 {
			got := clock.Backoff(retries, time.Second, nil)
			require.True(t, want/2 <= got && got <= want, "%d retries: %v", retries, got)
		}
	}
	require.Equal(t, 5*time.Millisecond, clock.Backoff(1, 5*time.Millisecond, longest), "the most is less than the first pause")
	require.Zero(t, clock.Backoff(1, 0, nil))
}
