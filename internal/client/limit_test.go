package client

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
)

func TestALineComesOnceInASecond(t *testing.T) {
	t.Parallel()
	var l logLimit
	now := clock.Instant(time.Hour)
	allowed := func(message, lock string) bool {
		_, ok := l.allow(message, lock, now)
		return ok
	}
	require.True(t, allowed("lost", "a"))
	require.False(t, allowed("lost", "a"))
	require.True(t, allowed("lost", "b"), "another lock")
	require.True(t, allowed("renewed", "a"), "another message")
	now = now.Add(time.Second)
	require.False(t, allowed("lost", "a"))
	now = now.Add(3 * time.Second)
	dropped, ok := l.allow("lost", "a", now)
	require.True(t, ok)
	require.Equal(t, 1, dropped)
	dropped, ok = l.allow("lost", "c", now)
	require.True(t, ok)
	require.Zero(t, dropped, "dropped lines are reported once")
}

func TestAnOutageOfTenThousandHoldsIsAHandfulOfLines(t *testing.T) {
	t.Parallel()
	var l logLimit
	now := clock.Instant(time.Hour)
	lines, dropped := 0, 0
	for i := range 10000 {
		if n, ok := l.allow("renewal failed", strconv.Itoa(i), now); ok {
			lines, dropped = lines+1, dropped+n
		}
	}
	require.Equal(t, perSecond, lines)
	require.LessOrEqual(t, len(l.names), perSecond, "dropped lines need no memory")
	n, ok := l.allow("renewal works", "0", now)
	require.True(t, ok)
	require.Equal(t, 10000-perSecond, dropped+n)
}
