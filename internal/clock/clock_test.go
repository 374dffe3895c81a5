package clock_test

import (
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
	}
	t.Run("real time", test)
	t.Run("virtual time", func(t *testing.T) { synctest.Test(t, test) })
}
