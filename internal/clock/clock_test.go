package clock_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
)

func TestInstant(t *testing.T) {
	test := func(t *testing.T) {
		t.Helper()
		now := time.Now()
		i := clock.Of(now)
		require.Positive(t, i)
		require.True(t, i.Time().Equal(now))
		later := i.Add(time.Minute)
		require.Equal(t, time.Minute, later.Sub(i))
		require.Equal(t, time.Minute, later.Time().Sub(now))
		require.InDelta(t, time.Minute, time.Until(later.Time()), float64(time.Second))
		require.LessOrEqual(t, i, clock.Now())
		for _, last := range []clock.Instant{
			i.Add(math.MaxInt64), i.Add(math.MaxInt64).Add(time.Hour), clock.Of(now.Add(math.MaxInt64)), clock.Of(time.Unix(1<<40, 0)),
		} {
			require.EqualValues(t, math.MaxInt64, last, "the sum is out of range")
			require.WithinRange(t, last.Time(), now.AddDate(200, 0, 0), now.AddDate(300, 0, 0))
		}
		require.Equal(t, i, i.Add(time.Minute).Add(-time.Minute))
	}
	t.Run("real time", test)
	t.Run("virtual time", func(t *testing.T) { synctest.Test(t, test) })
}
