package redistest

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// TestTheEmbeddedClockIsRight looks at the clock as scripts see it, and at a lease that one of them has set.
func TestTheEmbeddedClockIsRight(t *testing.T) {
	t.Parallel()
	rdb := Embedded(t)
	run := func(script string) *redis.Cmd { return rdb.Eval(t.Context(), script, []string{"key"}) }
	for range 20 {
		before := time.Now()
		micros, err := run(`local t = redis.call('TIME') return t[1] * 1000000 + t[2]`).Int64()
		require.NoError(t, err)
		require.WithinRange(t, time.UnixMicro(micros), before.Truncate(time.Microsecond), time.Now())
	}
	const lease = 50 * time.Millisecond
	for range 5 {
		before := time.Now()
		require.NoError(t, run(`return redis.call('SET', KEYS[1], 1, 'PX', 50)`).Err())
		EventuallyWithin(t, 20*time.Second, "the lease ends", func() bool { return run(`return redis.call('EXISTS', KEYS[1])`).Val() == int64(0) })
		require.GreaterOrEqual(t, time.Since(before), lease)
	}
}
